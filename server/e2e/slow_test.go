package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// maxServerMiB bounds the server's memory while a client is stalled: what it
// needs at rest (about 60 MiB), a ring of recent events and socket buffers.
const maxServerMiB = 400

// TestStalledClient: a client that stops reading is cut by the write deadline,
// holds nobody back, costs bounded memory, and resumes whole.
func TestStalledClient(t *testing.T) {
	t.Parallel()
	needPython(t)
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		s := newServer(t, url)
		s.start()
		var out struct{ CreateSession struct{ ID string } }
		s.must(`mutation { createSession { id } }`, nil, &out)
		session := out.CreateSession.ID
		ctx := background(t, 2*time.Minute)
		stalled, err := s.subscribe(ctx, session, 0, filter{})
		if err != nil {
			t.Fatal(err)
		}
		defer stalled.close()
		ended := make(chan struct{})
		others := make([]*reader, 2)
		finished := make(chan struct{}, len(others))
		for i := range others {
			others[i] = &reader{server: s, session: session, rng: nil, seen: map[int64]json.RawMessage{}}
			go func() {
				defer func() { finished <- struct{}{} }()
				others[i].steady(ctx, ended)
			}()
		}
		// 30 MB in lines of 10 kB over 8 s: far beyond what sockets hold.
		r := s.startRun(map[string]any{"agent": "script", "sessionId": session, "code": `
import time
for i in range(3000):
    print(i, "x" * 10000, flush=True)
    time.sleep(0.0025)
`})
		peak := 0
		var done runInfo
		eventually(t, time.Minute, "the run is over", func() error {
			peak = max(peak, s.memoryMiB())
			if done = s.run(r.ID); done.EndedAt == nil {
				return fmt.Errorf("it is %s", done.Status)
			}
			return nil
		})
		if done.Status != "DONE" {
			t.Errorf("the run ended %s: %s", done.Status, deref(done.Error))
		}
		log := s.log(session, filter{})
		checkNoGap(t, log)
		for _, o := range others {
			o.want = log
		}
		close(ended)
		for range others {
			<-finished
		}
		for i, o := range others {
			if o.err != nil {
				t.Errorf("other subscriber %d: %v", i, o.err)
			}
			o.check(t, fmt.Sprintf("other subscriber %d", i))
		}
		eventually(t, 20*time.Second, "the stalled client is cut and counted", func() error {
			if n := s.counter("weir_ws_stalled_total"); n < 1 {
				return fmt.Errorf("weir_ws_stalled_total is %v", n)
			}
			if !strings.Contains(s.out.String(), "websocket cut") {
				return errors.New("the log does not say why the client was cut")
			}
			return nil
		})
		// What its socket still held ends in the cut; from there it resumes.
		seen := map[int64]json.RawMessage{}
		last := int64(0)
		for {
			batch, err := stalled.next(ctx)
			if err != nil {
				break
			}
			for _, raw := range batch {
				last = headOf(raw).Seq
				seen[last] = bytes.Clone(raw)
			}
		}
		if last >= int64(len(log)) {
			t.Fatal("the stalled client got everything: it was never stalled")
		}
		again := &reader{server: s, session: session, seen: seen, last: last, want: log}
		again.steady(ctx, ended)
		again.check(t, "the resumed client")
		if peak > maxServerMiB {
			t.Errorf("the server used %d MiB, bound %d", peak, maxServerMiB)
		}
		t.Logf("peak memory %d MiB; cut at seq %d of %d", peak, last, len(log))
	})
}

// memoryMiB is the server's resident memory.
func (s *server) memoryMiB() int { return s.statusMiB("VmRSS") }

// statusMiB reads a size from the server's /proc/PID/status.
func (s *server) statusMiB(name string) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		return 0
	}
	kb, _ := strconv.Atoi(string(m[1]))
	return kb / 1024
}

// counter reads a counter from /metrics, summed over its labels.
func (s *server) counter(name string) float64 {
	resp, err := http.Get("http://" + s.addr + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			fields := strings.Fields(line)
			v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// peakMiB is the most resident memory that the server had so far.
func (s *server) peakMiB() int { return s.statusMiB("VmHWM") }
