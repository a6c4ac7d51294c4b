package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// digest hashes the lines "<sha256>  <path>\n" of the named files, sorted by path.
func digest(t *testing.T, root fs.FS, paths []string) string {
	t.Helper()
	slices.Sort(paths)
	all := sha256.New()
	for _, path := range paths {
		content, err := fs.ReadFile(root, path)
		if err != nil {
			t.Fatalf("reading an input of the web build: %v", err)
		}
		sum := sha256.Sum256(content)
		fmt.Fprintf(all, "%s  %s\n", hex.EncodeToString(sum[:]), path)
	}
	return hex.EncodeToString(all.Sum(nil))
}

func filesUnder(t *testing.T, root fs.FS, folder string) []string {
	t.Helper()
	var paths []string
	err := fs.WalkDir(root, folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatalf("listing %s: %v", folder, err)
	}
	return paths
}

// inputs lists what the build is made from, as scripts/build.mjs does.
func inputs(t *testing.T, repo fs.FS) []string {
	t.Helper()
	var paths []string
	for _, name := range []string{
		".npmrc", "codegen.ts", "index.html", "package.json", "package-lock.json", "playground.html",
		"scripts/build.mjs", "tsconfig.json", "vite.config.ts",
	} {
		paths = append(paths, "web/"+name)
	}
	paths = append(paths, filesUnder(t, repo, "web/src")...)
	schema, err := fs.Glob(repo, "graph/*.graphqls")
	if err != nil || len(schema) == 0 {
		t.Fatalf("no GraphQL schema in graph/ (%v)", err)
	}
	return append(paths, schema...)
}

type stamp struct{ Inputs, Outputs string }

func committedStamp(t *testing.T) stamp {
	t.Helper()
	content, err := fs.ReadFile(Dist(), "BUILD.json")
	if err != nil {
		t.Fatalf("reading the stamp of the web build: %v; run make web", err)
	}
	var s stamp
	if err := json.Unmarshal(content, &s); err != nil {
		t.Fatalf("decoding web/dist/BUILD.json: %v; run make web", err)
	}
	return s
}

func TestDistIsCurrent(t *testing.T) {
	t.Parallel()
	repo := os.DirFS("..")
	if got, want := digest(t, repo, inputs(t, repo)), committedStamp(t).Inputs; got != want {
		t.Errorf("web/dist was built from other sources (%s) than those here (%s): run make web and commit the result", want, got)
	}
}

func TestDistIsWhole(t *testing.T) {
	t.Parallel()
	built := slices.DeleteFunc(filesUnder(t, Dist(), "."), func(path string) bool { return path == "BUILD.json" })
	if got, want := digest(t, Dist(), built), committedStamp(t).Outputs; got != want {
		t.Errorf("the files of web/dist (%s) are not those that the build wrote (%s): run make web and commit the result", got, want)
	}
}

// chunk is an entry of Vite's manifest.
type chunk struct {
	File    string
	IsEntry bool
	Imports []string
	CSS     []string
}

// entry gives the files that a page loads at once.
func entry(t *testing.T, manifest map[string]chunk, page string) []string {
	t.Helper()
	if !manifest[page].IsEntry {
		t.Fatalf("the manifest has no entry %s", page)
	}
	seen := map[string]bool{}
	var files []string
	var visit func(name string)
	visit = func(name string) {
		if seen[name] {
			return
		}
		seen[name] = true
		c := manifest[name]
		files = append(append(files, c.File), c.CSS...)
		for _, next := range c.Imports {
			visit(next)
		}
	}
	visit(page)
	return files
}

func TestPagesAreSelfContained(t *testing.T) {
	t.Parallel()
	content, err := fs.ReadFile(Dist(), "manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest map[string]chunk
	if err := json.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	for _, file := range entry(t, manifest, "index.html") {
		info, err := fs.Stat(Dist(), file)
		if err != nil {
			t.Errorf("the dashboard needs a file that is not there: %v", err)
			continue
		}
		size += info.Size()
		if strings.Contains(file, "monaco") || strings.Contains(file, "playground") {
			t.Errorf("the dashboard loads %s, a part of the playground", file)
		}
	}
	if limit := int64(800 << 10); size > limit {
		t.Errorf("the dashboard loads %d bytes before it shows anything, over %d", size, limit)
	}
	entry(t, manifest, "playground.html")
	for _, page := range []string{"index.html", "playground.html"} {
		html, err := fs.ReadFile(Dist(), page)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"http://", "https://", "<style", "onload=", "src=\"data:"} {
			if strings.Contains(string(html), bad) {
				t.Errorf("%s contains %q, which the Content-Security-Policy refuses", page, bad)
			}
		}
	}
	for _, file := range filesUnder(t, Dist(), ".") {
		if filepath.Ext(file) == ".map" {
			t.Errorf("%s: source maps are not committed", file)
		}
	}
}
