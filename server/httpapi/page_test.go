package httpapi

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const html, js = "text/html; charset=utf-8", "text/javascript; charset=utf-8"
	for _, c := range []struct {
		path, accept string
		status       int
		kind, policy string
		cache, holds string
	}{
		{"/", "", 200, html, policyApp, "no-cache", "app"},
		{"/index.html", "", 200, html, policyApp, "no-cache", "app"},
		{"/playground", "", 200, html, policyPlayground, "no-cache", "playground"},
		{"/playground/", "text/html", 200, html, policyPlayground, "no-cache", "playground"},
		{"/assets/a-1234.js", "", 200, js, policyApp, "public, max-age=31536000, immutable", "let a"},
		{"/assets/f-1234.woff2", "", 200, "font/woff2", policyApp, "public, max-age=31536000, immutable", "fff"},
		{"/favicon.svg", "", 200, "image/svg+xml", policyApp, "no-cache", "svg"},
		{"/runs/run_1", "text/html,*/*", 200, html, policyApp, "no-cache", "app"}, // a route of the page's own
		{"/runs/run_1", "application/json", 404, "", "", "", ""},
		{"/assets/gone-1.js", "text/html", 404, "", "", "", ""}, // never the page
		{"/missing.js", "text/html", 404, "", "", "", ""},
		{"/playground/x", "text/html", 404, "", "", "", ""},
		{"/healthz/x", "text/html", 404, "", "", "", ""},
		{"/.vite/manifest.json", "text/html", 404, "", "", "", ""},
		{"/../../etc/passwd", "", 404, "", "", "", ""},
	} {
		a := b.ask(t, http.MethodGet, c.path, "", "Accept", c.accept)
		if a.status != c.status {
			t.Errorf("%s: %d, want %d", c.path, a.status, c.status)
		}
		if a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no nosniff", c.path)
		}
		if c.status != 200 {
			continue
		}
		if a.header.Get("Content-Type") != c.kind || a.header.Get("Content-Security-Policy") != c.policy ||
			a.header.Get("Cache-Control") != c.cache || a.header.Get("Vary") != "Accept-Encoding" || !strings.Contains(a.body, c.holds) {
			t.Errorf("%s: %v %s", c.path, a.header, a.body[:20])
		}
		if again := b.ask(t, http.MethodGet, c.path, "", "Accept", c.accept, "If-None-Match", a.header.Get("ETag")); again.status != 304 || again.body != "" {
			t.Errorf("%s with its tag: %d", c.path, again.status)
		}
		if head := b.ask(t, http.MethodHead, c.path, "", "Accept", c.accept); head.status != 200 || head.body != "" || head.header.Get("Content-Length") == "0" {
			t.Errorf("HEAD %s: %d %v", c.path, head.status, head.header)
		}
	}
	if a := b.ask(t, http.MethodPost, "/", ""); a.status != 405 || a.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST /: %d %v", a.status, a.header)
	}
}

func TestPageIsCompressed(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	const path = "/assets/a-1234.js"
	plain := b.ask(t, http.MethodGet, path, "")
	for accept, want := range map[string]bool{
		"gzip": true, "br, gzip;q=0.5": true, "*": true, "": false, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "identity": false,
	} {
		a := b.ask(t, http.MethodGet, path, "", "Accept-Encoding", accept)
		if got := a.header.Get("Content-Encoding") == "gzip"; got != want {
			t.Errorf("Accept-Encoding %q: compressed is %v", accept, got)
			continue
		}
		body := a.body
		if want {
			z, err := gzip.NewReader(strings.NewReader(a.body))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(z)
			if err != nil {
				t.Fatal(err)
			}
			if body = string(raw); len(a.body) >= len(body) {
				t.Error("compressed is not smaller")
			}
			if a.header.Get("ETag") == plain.header.Get("ETag") {
				t.Error("both forms have one tag")
			}
		}
		if body != plain.body {
			t.Errorf("Accept-Encoding %q: another body", accept)
		}
	}
	if a := b.ask(t, http.MethodGet, "/assets/f-1234.woff2", "", "Accept-Encoding", "gzip"); a.header.Get("Content-Encoding") != "" {
		t.Error("a compressed font is compressed again")
	}
}

func TestWithoutAPage(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Page = nil })
	for _, path := range []string{"/", "/playground"} {
		if a := b.ask(t, http.MethodGet, path, ""); a.status != 404 || !strings.Contains(a.body, "without the page") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
