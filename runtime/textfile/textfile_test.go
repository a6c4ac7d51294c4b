//go:build unix

package textfile_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/textfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyRegularFilesAreRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(at("file"), []byte("text"), 0o600))
	must(os.Symlink("file", at("link")))
	must(os.Symlink("nothing", at("dangling")))
	must(syscall.Mkfifo(at("fifo"), 0o600))
	must(os.Symlink("fifo", at("to-fifo")))
	must(os.Mkdir(at("folder"), 0o700))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", at("socket"))
	must(err)
	defer l.Close()
	for _, name := range []string{"fifo", "to-fifo"} {
		if _, err := fs.ReadFile(textfile.Dir(dir), name); err == nil || !strings.Contains(err.Error(), "a FIFO (named pipe), not a regular file") {
			t.Errorf("%s in the folder: %v", name, err)
		}
	}
	for name, want := range map[string]string{
		"file": "", "link": "", "dangling": "no such file", "folder": "a folder", "socket": "no such device", "../../../../../../dev/null": "a device",
	} {
		data, err := textfile.Read(at(name), 4)
		if want == "" && (err != nil || string(data) != "text") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
		if !fs.ValidPath(name) {
			continue
		}
		data, err = fs.ReadFile(textfile.Dir(dir), name)
		if want == "" && (err != nil || string(data) != "text") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s in the folder: %q, %v", name, data, err)
		}
	}
	if _, err := textfile.Read(at("file"), 3); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a file over the bound: %v", err)
	}
	if _, err := textfile.Dir(dir).Open("../x"); err == nil {
		t.Error("the folder was left")
	}
	if all, err := fs.ReadDir(textfile.Dir(dir), "."); err != nil || len(all) != 7 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPipes reads what somebody writes, sooner or later, and waits for nobody for ever.
func TestPipes(t *testing.T) {
	t.Parallel()
	const long, short = time.Minute, 50 * time.Millisecond
	for name, c := range map[string]struct {
		write func(pipe *os.File) // nil: nobody opens it
		wait  time.Duration
		want  string // what is read, or a part of the error
		fails bool
	}{
		"Written":   {write: func(p *os.File) { _, _ = p.WriteString("te"); _, _ = p.WriteString("xt"); _ = p.Close() }, wait: long, want: "text"},
		"Nothing":   {write: func(p *os.File) { _ = p.Close() }, wait: long},
		"TooMuch":   {write: func(p *os.File) { _, _ = p.WriteString("texts") }, wait: long, want: "larger than 4 bytes", fails: true},
		"NeverEnds": {write: func(p *os.File) { _, _ = p.WriteString("te") }, wait: short, want: "has not come to its end within 50ms", fails: true},
		"Nobody":    {wait: short, want: "has not come to its end within 50ms", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if c.write == nil {
					return
				}
				f, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { _ = f.Close() })
				c.write(f)
			}()
			data, err := textfile.ReadWithin(path, 4, c.wait)
			<-done
			if c.fails != (err != nil) || (err == nil && string(data) != c.want) || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, _ = w.WriteString("text")
	_ = w.Close()
	if data, err := textfile.Read("/dev/fd/"+strconv.Itoa(int(r.Fd())), 4); err != nil || string(data) != "text" {
		t.Errorf("of a pipe without a name: %q, %v", data, err)
	}
}
