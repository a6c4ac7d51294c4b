// Package dockertest gives tests a Docker daemon and a small image. It talks to
// the daemon of DOCKER_HOST, or the default one, through the docker command.
package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"
)

// answerTime bounds each call of the docker command.
const answerTime = time.Minute

// Need leaves a test out where no daemon answers; in CI that is a failure.
func Need(t testing.TB) {
	t.Helper()
	out, err := docker(t, nil, "version", "--format", "{{.Server.Version}}")
	if err == nil {
		return
	}
	why := fmt.Sprintf("no Docker daemon answers: %v %s", err, bytes.TrimSpace(out))
	if os.Getenv("CI") == "true" {
		t.Fatalf("cannot run in CI: %s", why)
	}
	t.Skipf("SKIPPED: %s (.ci/run starts one)", why)
}

// Image makes an image of a static busybox with these files, by their paths in
// the image and on this machine, and gives its id. It is a Debian to who asks.
// /bin and /lib are links into /usr as on a real one. The test's end removes it.
func Image(t testing.TB, files map[string]string) string {
	t.Helper()
	busybox := firstOf("/bin/busybox", "/usr/bin/busybox")
	if busybox == "" {
		t.Fatal("busybox is missing: install busybox-static")
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"usr", "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc", "proc", "sys", "dev", "var", "var/lib", "home"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: dir, Linkname: "usr/" + dir}, nil)
	}
	for _, applet := range []string{"sh", "true", "sleep", "cat", "ls", "echo", "env", "kill", "yes", "id"} {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "usr/bin/" + applet, Linkname: "busybox"}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/os-release", Mode: 0o644}, []byte("ID=debian\nVERSION_ID=\"12\"\n"))
	for in, here := range merge(files, "/usr/bin/busybox", busybox) {
		content, err := os.ReadFile(here)
		if err != nil {
			t.Fatal(err)
		}
		add(tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path.Clean(in), "/"), Mode: 0o755}, content)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := docker(t, &layer, "import", "-")
	if err != nil {
		t.Fatalf("docker import: %v %s", err, out)
	}
	id := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := docker(t, nil, "image", "rm", "--force", id); err != nil {
			t.Errorf("docker image rm: %v %s", err, out)
		}
	})
	return id
}

// Run starts a container without network, waits for its end and gives what it
// printed and its exit code. Options come before the image.
func Run(t testing.TB, options []string, image string, command ...string) (output string, code int) {
	t.Helper()
	args := append([]string{"run", "--rm", "--network", "none"}, options...)
	out, err := docker(t, nil, append(append(args, image), command...)...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return string(out), 0
	case errors.As(err, &exit) && exit.ExitCode() > 0 && exit.ExitCode() != 125: // 125 is docker's own
		return string(out), exit.ExitCode()
	}
	t.Fatalf("docker run %v: %v %s", options, err, out)
	return "", 0
}

// docker runs the docker command and gives both its outputs.
func docker(t testing.TB, stdin io.Reader, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerTime) // also at the test's end
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdin = stdin
	return cmd.CombinedOutput()
}

func firstOf(paths ...string) string {
	for _, p := range paths {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			return p
		}
	}
	return ""
}

func merge(files map[string]string, in, here string) map[string]string {
	all := map[string]string{in: here}
	for k, v := range files {
		all[k] = v
	}
	return all
}
