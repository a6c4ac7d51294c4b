//go:build unix

package textfile_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	for name, want := range map[string]string{
		"file": "", "link": "", "dangling": "no such file", "fifo": "FIFO", "to-fifo": "FIFO", "folder": "a folder", "socket": "no such device", "../../../../../../dev/null": "a device",
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
