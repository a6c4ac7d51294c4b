package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/dockertest"
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // where the command is run
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func testRelease(t *testing.T) *release {
	t.Helper()
	return &release{out: t.TempDir(), version: "v1.2.3+changes", at: time.Unix(1_800_000_000, 0).UTC()}
}

// TestArchives: both forms hold the same files, the program can be executed, and
// the second making gives the same bytes.
func TestArchives(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, again := testRelease(t), testRelease(t)
	for goos, want := range map[string]string{
		"linux":   "weir-v1.2.3+changes-linux-amd64.tar.gz: weir",
		"windows": "weir-v1.2.3+changes-windows-amd64.zip: weir.exe",
	} {
		name, err := r.archive(t.Context(), program, goos, "amd64")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.archive(t.Context(), program, goos, "amd64"); err != nil {
			t.Fatal(err)
		}
		data := read(t, filepath.Join(r.out, name))
		if !bytes.Equal(data, read(t, filepath.Join(again.out, name))) {
			t.Errorf("%s differs when it is made again", name)
		}
		files := unpack(t, data, goos == "windows")
		if got := name + ": " + filepath.Base(files[0].name); got != want {
			t.Errorf("it made %q, want %q", got, want)
		}
		linked(t, files)
		if f := files[0]; f.mode != 0o755 || f.text != "a program" {
			t.Errorf("%s: the program is %+v", name, f)
		}
	}
}

// linked: what the documents in an archive have links to is in it, too.
func linked(t *testing.T, files []entry) {
	t.Helper()
	stem := path.Dir(files[0].name)
	there := map[string]int64{}
	for _, f := range files {
		there[f.name] = f.mode
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			there[dir] = 0
		}
	}
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE"} {
		if there[stem+"/"+name] != 0o644 {
			t.Errorf("%s has no %s, or one of mode %o", stem, name, there[stem+"/"+name])
		}
	}
	if mode := there[stem+"/helpers/weir-log"]; mode != 0o755 {
		t.Errorf("helpers/weir-log has mode %o", mode)
	}
	n := 0
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".md") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"#\s]+)`).FindAllStringSubmatch(f.text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			if _, ok := there[path.Join(path.Dir(f.name), m[1])]; !ok {
				t.Errorf("%s has a link to %s, which is not packed", f.name, m[1])
			}
		}
	}
	if n < 20 {
		t.Errorf("there are only %d links", n)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ofTheCommit: a clock in an archive makes each one another.
func ofTheCommit(t *testing.T, name string, at time.Time) {
	t.Helper()
	if at.Unix() != 1_800_000_000 {
		t.Errorf("%s carries the time %s", name, at)
	}
}

func unpack(t *testing.T, data []byte, zipped bool) (files []entry) {
	t.Helper()
	if zipped {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range z.File {
			ofTheCommit(t, f.Name, f.Modified)
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, entry{name: f.Name, mode: int64(f.Mode()), text: string(text)})
		}
		return files
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF { //nolint:errorlint // tar says that it gives this very error
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		ofTheCommit(t, h.Name, h.ModTime)
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, entry{name: h.Name, mode: h.Mode, text: string(text)})
	}
}

// TestImage: the image loads, refuses to be open to all, serves with a token as an
// ordinary user, and ends in good order.
func TestImage(t *testing.T) {
	t.Parallel()
	dockertest.Need(t)
	r := testRelease(t)
	r.version = fmt.Sprintf("v0.0.%d+test", os.Getpid()) // a tag of its own
	binary := filepath.Join(t.TempDir(), "weir")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	name, err := r.image(binary, "linux", goarch(t))
	if err != nil {
		t.Fatal(err)
	}
	if out := docker(t, "load", "-i", filepath.Join(r.out, name)); !strings.Contains(out, "weir:") {
		t.Fatalf("docker load says %s", out)
	}
	tag := "weir:" + strings.ReplaceAll(r.version, "+", "-")
	t.Cleanup(func() {
		if out, err := exec.CommandContext(context.Background(), "docker", "image", "rm", tag).CombinedOutput(); err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	if out, code := dockertest.Run(t, nil, tag); code == 0 || !strings.Contains(out, "needs a token") {
		t.Errorf("without a token it ends with %d: %s", code, out)
	}
	addr := freeAddress(t)
	id := docker(t, "run", "-d", "--network", "host", "-e", "WEIR_LISTEN="+addr, "-e", "WEIR_TOKEN=a-token-of-sixteen-or-more", tag)
	t.Cleanup(func() {
		out, err := exec.CommandContext(context.Background(), "docker", "rm", "-fv", id).CombinedOutput()
		if err != nil {
			t.Errorf("%v %s", err, out)
		}
	})
	if !healthy(t, addr) {
		t.Fatalf("/healthz does not answer: %s", docker(t, "logs", id))
	}
	if out := docker(t, "top", id, "-eo", "pid,uid,comm"); !strings.HasSuffix(strings.Join(strings.Fields(out), " "), " 65532 weir") {
		t.Errorf("it runs as: %s", out)
	}
	docker(t, "stop", id)
	if code := docker(t, "inspect", "-f", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("it ended with %s: %s", code, docker(t, "logs", id))
	}
}

func goarch(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %v: %v %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func freeAddress(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// healthy asks a container until it answers, at most half a minute.
func healthy(t *testing.T, addr string) bool {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return true
			}
		}
	}
	return false
}
