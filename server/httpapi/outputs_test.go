package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

const execution = "exe_01jq0v6h3k8m5x2t9w4c7y1n6b"

// Raw output is served whole or in ranges, to be saved and not to be shown.
func TestOutputs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, []byte("<script>\xff\x00\r\nend"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(_ context.Context, id run.ExecutionID, s run.OutputStream) (*os.File, error) {
		switch {
		case id == "exe_down":
			return nil, run.Errorf(run.Unavailable, "the store is not there")
		case id == "exe_broken":
			return nil, errors.New("/secret/path: input/output error")
		case id == "exe_folder":
			return os.Open(filepath.Dir(path))
		case id == "exe_silent":
			return os.Open(empty)
		case id != execution || s != run.Stdout:
			return nil, run.Errorf(run.NotFound, "there is no execution %s", id)
		}
		return os.Open(path)
	}
	plain := setup(t, func(o *Options) { o.Output = open })
	closed := setup(t, func(o *Options) { o.Output, o.Token = open, "sesame" })
	for name, c := range map[string]struct {
		b            *bundle
		method, path string
		headers      []string
		status       int
		body         string // all of it, or a part of an error
	}{
		"Whole":        {plain, "GET", execution + "/stdout", nil, 200, "<script>\xff\x00\r\nend"},
		"Head":         {plain, "HEAD", execution + "/stdout", nil, 200, ""},
		"Range":        {plain, "GET", execution + "/stdout", []string{"Range", "bytes=8-9"}, 206, "\xff\x00"},
		"Tail":         {plain, "GET", execution + "/stdout", []string{"Range", "bytes=-3"}, 206, "end"},
		"BeyondTheEnd": {plain, "GET", execution + "/stdout", []string{"Range", "bytes=99-"}, 416, "invalid range"},
		"NoSuchStream": {plain, "GET", execution + "/stdin", nil, 404, `it has stdout and stderr`},
		"Nothing":      {plain, "GET", "exe_silent/stdout", nil, 200, ""},
		"NotThere":     {plain, "GET", execution + "/stderr", nil, 404, "NOT_FOUND"},
		"Escape":       {plain, "GET", "..%2f..%2fetc/stdout", nil, 404, "NOT_FOUND"},
		"StoreGone":    {plain, "GET", "exe_down/stdout", nil, 503, "UNAVAILABLE"},
		"DiskError":    {plain, "GET", "exe_broken/stdout", nil, 500, "internal error"},
		"Folder":       {plain, "GET", "exe_folder/stdout", nil, 500, "internal error"},
		"Post":         {plain, "POST", execution + "/stdout", nil, 405, ""},
		"NoToken":      {closed, "GET", execution + "/stdout", nil, 401, "UNAUTHENTICATED"},
		"Token":        {closed, "GET", execution + "/stdout", []string{"Authorization", "Bearer sesame"}, 200, "<script>\xff\x00\r\nend"},
		"Forwarded":    {plain, "GET", execution + "/stdout", []string{"X-Forwarded-For", "1.2.3.4"}, 403, "FORBIDDEN"},
		"Origin":       {plain, "GET", execution + "/stdout", []string{"Origin", "https://evil.example"}, 403, "FORBIDDEN"},
		"OtherSite":    {plain, "GET", execution + "/stdout", []string{"Sec-Fetch-Site", "cross-site"}, 403, "FORBIDDEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+c.b.addr+"/executions/"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(c.headers); i += 2 {
				req.Header.Set(c.headers[i], c.headers[i+1])
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != c.status {
				t.Fatalf("status %d, want %d: %q", resp.StatusCode, c.status, body)
			}
			if resp.StatusCode/100 == 2 {
				h := resp.Header
				if string(body) != c.body {
					t.Errorf("the body is %q", body)
				}
				if h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff" ||
					h.Get("Content-Disposition") != `attachment; filename="`+strings.Replace(c.path, "/", ".", 1)+`"` || !strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox") {
					t.Errorf("the headers are %v", h)
				}
				return
			}
			if !strings.Contains(string(body), c.body) || strings.Contains(string(body), "secret") {
				t.Errorf("the body is %q", body)
			}
		})
	}
}
