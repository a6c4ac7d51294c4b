package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// accountOf is an execution as these tests look at it.
type accountOf struct {
	ID   string
	Loss struct {
		BytesRead, LinesRead, LinesParsed, BytesTruncated, BytesNotKept int64
	}
	Outputs []struct {
		Stream string
		Bytes  int64
		URL    string
	}
}

func (s *server) account(runID string) (accountOf, error) {
	s.t.Helper()
	var out struct {
		Run struct{ Executions []accountOf }
	}
	s.must(`query($id: ID!) { run(id: $id) { executions { id loss { bytesRead linesRead linesParsed bytesTruncated bytesNotKept } outputs { stream bytes url } } } }`,
		map[string]any{"id": runID}, &out)
	if len(out.Run.Executions) != 1 {
		return accountOf{}, fmt.Errorf("there are %d executions", len(out.Run.Executions))
	}
	return out.Run.Executions[0], nil
}

// download gets a raw output.
func (s *server) download(url, byteRange string) ([]byte, int) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(background(s.t, 30*time.Second), http.MethodGet, "http://"+s.addr+url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return b, resp.StatusCode
}

// shown joins the text of a stream's events.
func (s *server) shown(session, stream string) string {
	s.t.Helper()
	var b strings.Builder
	for _, raw := range s.log(session, filter{types: []string{"OUTPUT_WRITTEN"}}) {
		var e struct{ Stream, Text string }
		if err := json.Unmarshal(raw, &e); err != nil {
			s.t.Fatal(err)
		}
		if e.Stream == stream {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// TestOutputsAreExact: 50,000 lines of a program that exits at once come through
// the whole server, as events and as raw bytes.
func TestOutputsAreExact(t *testing.T) {
	t.Parallel()
	needPython(t)
	s := newServer(t, "")
	s.start()
	const lines = 50_000
	r := s.startRun(map[string]any{"agent": "script", "code": fmt.Sprintf(
		"import os, sys\nsys.stdout.write(''.join('line %%d\\n' %% i for i in range(%d)))\nsys.stdout.flush()\nos.write(1, b'\\xff\\x00end')\nos._exit(0)\n", lines)})
	s.waitStatus(r.ID, 30*time.Second, "DONE")
	var want bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	want.WriteString("\xff\x00end")
	x, err := s.account(r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if x.Loss.BytesRead != int64(want.Len()) || x.Loss.LinesRead != lines+1 || x.Loss.BytesTruncated != 0 || x.Loss.BytesNotKept != 0 {
		t.Errorf("the account is %+v", x.Loss)
	}
	if len(x.Outputs) != 1 || x.Outputs[0].Stream != "STDOUT" || x.Outputs[0].Bytes != int64(want.Len()) {
		t.Fatalf("kept is %+v", x.Outputs)
	}
	if got, status := s.download(x.Outputs[0].URL, ""); status != http.StatusOK || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("status %d, %d bytes of %d", status, len(got), want.Len())
	}
	if got, status := s.download(x.Outputs[0].URL, "bytes=-5"); status != http.StatusPartialContent || string(got) != "\xff\x00end" {
		t.Errorf("status %d, %q", status, got)
	}
	if got := s.shown(r.Session.ID, "STDOUT"); got != strings.ToValidUTF8(want.String(), "�") {
		t.Errorf("the events show %d bytes", len(got))
	}
}

// TestOutputsOutliveAKill: the account of a working execution is current, and
// after the server's death that of the lost one is exact.
func TestOutputsOutliveAKill(t *testing.T) {
	t.Parallel()
	needPython(t)
	s := newServer(t, "")
	s.start()
	code := "import os, time\nn = 0\nwhile True:\n    os.write(1, b''.join(b'%d \\xff words\\n' % i for i in range(n, n + 500)))\n    n += 500\n    time.sleep(0.005)\n"
	whole := s.startRun(map[string]any{"agent": "script", "code": code})
	const limit = 100_001
	cut := s.startRun(map[string]any{"agent": "script", "code": code, "sandbox": map[string]any{"maxOutputBytes": limit, "onOutputLimit": "TRUNCATE"}})
	var before [2]accountOf
	eventually(t, 20*time.Second, "both have printed a lot", func() error {
		for i, r := range []startedRun{whole, cut} {
			x, err := s.account(r.ID)
			if err != nil {
				return err
			}
			if x.Loss.BytesRead < 500_000 {
				return errors.New("not yet")
			}
			before[i] = x
		}
		return nil
	})
	s.kill()
	s.start()
	for i, r := range []startedRun{whole, cut} {
		s.waitStatus(r.ID, 20*time.Second, "FAILED")
		x, err := s.account(r.ID)
		if err != nil {
			t.Fatal(err)
		}
		l, had := x.Loss, before[i].Loss
		if l.BytesRead < had.BytesRead || l.LinesRead < had.LinesRead || l.BytesNotKept != 0 || len(x.Outputs) != 1 {
			t.Fatalf("%+v, before the kill %+v", x, had)
		}
		raw, _ := s.download(x.Outputs[0].URL, "")
		if int64(len(raw)) != l.BytesRead-l.BytesTruncated || (i == 1) != (l.BytesTruncated > 0) || (i == 1 && len(raw) != limit) {
			t.Errorf("%d raw bytes; %+v", len(raw), l)
		}
		if i == 0 {
			if ended := int64(bytes.Count(raw, []byte("\n"))); l.LinesRead != ended && l.LinesRead != ended+1 {
				t.Errorf("%d lines are kept, %d counted", ended, l.LinesRead)
			}
		}
		shown := s.shown(r.Session.ID, "STDOUT")
		if all := strings.ReplaceAll(string(raw), "\xff", "�"); shown == "" || !strings.HasPrefix(all, shown) {
			t.Errorf("the events show %d bytes that are not the beginning of the %d kept", len(shown), len(all))
		}
	}
}
