package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// The policies of the page. The playground's editor writes style elements; all
// else is strict on both. Workers take the policy of their own response, so
// every file carries one.
const (
	policyApp = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
		"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
	policyPlayground = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; " +
		"connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

// types is the server's own table: the system's may lack or change entries.
var types = map[string]string{
	".html":  "text/html; charset=utf-8",
	".js":    "text/javascript; charset=utf-8",
	".mjs":   "text/javascript; charset=utf-8",
	".css":   "text/css; charset=utf-8",
	".json":  "application/json; charset=utf-8",
	".md":    "text/markdown; charset=utf-8",
	".txt":   "text/plain; charset=utf-8",
	".svg":   "image/svg+xml",
	".png":   "image/png",
	".ico":   "image/x-icon",
	".ttf":   "font/ttf",
	".woff2": "font/woff2",
	".wasm":  "application/wasm",
}

// page serves the built page from memory.
type page struct {
	files map[string]*file // by URL path without the leading slash
}

type file struct {
	kind string
	load func() (content, error) // on the first request: a start reads nothing
	gzip func() []byte           // made on the first request that takes it; nil when not worth it
}

// content is a file's bytes, tagged by their hash: embedded files have no time
// that could serve as a tag.
type content struct {
	body []byte
	etag string
}

// newPage lists the files.
func newPage(files fs.FS) (*page, error) {
	p := &page{files: map[string]*file{}}
	if files == nil {
		return p, nil
	}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if strings.HasPrefix(d.Name(), ".") { // what the build keeps for itself
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		p.files[name] = newFile(files, name, info.Size())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the page's files: %w", err)
	}
	return p, nil
}

func newFile(files fs.FS, name string, size int64) *file {
	kind, ok := types[path.Ext(name)]
	if !ok {
		kind = "application/octet-stream"
	}
	f := &file{kind: kind, load: sync.OnceValues(func() (content, error) {
		body, err := fs.ReadFile(files, name)
		if err != nil {
			return content{}, err
		}
		sum := sha256.Sum256(body)
		return content{body, `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
	})}
	compressible := strings.HasPrefix(kind, "text/") || strings.HasPrefix(kind, "application/json") ||
		kind == "image/svg+xml" || kind == "font/ttf" || kind == "application/wasm"
	if compressible && size > 1024 {
		f.gzip = sync.OnceValue(func() []byte {
			c, _ := f.load() // its error is answered before
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level: no error
			_, _ = z.Write(c.body)                                // into memory: no error
			_ = z.Close()
			return b.Bytes()
		})
	}
	return f
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		problem := reject(http.StatusMethodNotAllowed, "the method %s is not answered at this path; the API is at /graphql", r.Method)
		refuse(w, problem.status, problem.err)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	policy, cache := policyApp, "no-cache"
	switch {
	case name == "":
		name = "index.html"
	case name == "playground", name == "playground.html":
		name, policy = "playground.html", policyPlayground
	case strings.HasPrefix(name, "assets/"):
		// Their names hold a hash of their content. A missing one is 404 and
		// never the page: an old tab would take HTML for a script.
		cache = "public, max-age=31536000, immutable"
	case p.files[name] == nil && isRoute(name, r):
		name = "index.html" // a route of the page's own
	}
	f := p.files[name]
	if f == nil {
		text := "there is nothing at this path; the API is at /graphql\n"
		if name == "index.html" || name == "playground.html" {
			text = "this server was built without the page; the API is at /graphql\n"
		}
		writePlain(w, http.StatusNotFound, text)
		return
	}
	f.serve(w, r, policy, cache)
}

// isRoute tells whether a browser navigates to a path of the page's own.
func isRoute(name string, r *http.Request) bool {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "graphql", "playground", "assets", "healthz", "readyz", "metrics":
		return false
	}
	return path.Ext(name) == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (f *file) serve(w http.ResponseWriter, r *http.Request, policy, cache string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", cache)
	h.Set("Vary", "Accept-Encoding")
	c, err := f.load()
	if err != nil {
		writePlain(w, http.StatusInternalServerError, "this file of the page cannot be read\n")
		return
	}
	body, tag := c.body, c.etag
	if f.gzip != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body, tag = f.gzip(), strings.TrimSuffix(c.etag, `"`)+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", tag)
	if matches(r.Header.Get("If-None-Match"), tag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.kind)
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	_, _ = w.Write(body)
}

func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if coding = strings.TrimSpace(coding); coding == "gzip" || coding == "*" {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000"
		}
	}
	return false
}

func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == tag || part == "*" {
			return true
		}
	}
	return false
}
