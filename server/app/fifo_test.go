//go:build unix

package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A FIFO among the agents holds nobody up. In place of a token or of the settings
// it is read: a shell makes one of <(...).
func TestFIFOs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "x.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--listen", "127.0.0.1:0", "--data", dataFolder(t)}
	found, _ := doctor(t, append(args, "--agents", dir)...)
	if f := found["agents"]; f.Verdict != warning || !strings.Contains(f.What, "x.yaml: opening the file: it is a FIFO") {
		t.Errorf("among the agents: %+v", f)
	}
	for what, c := range map[string]struct {
		args []string
		text string
		want string
	}{
		"ServerToken": {append([]string{"serve", "--token-file", "FIFO"}, args...), "short", "--token-file FIFO has 5 characters, at least "},
		"ClientToken": {[]string{"runs", "--token-file", "FIFO"}, "\n", "--token-file FIFO is empty"},
		"Settings":    {append([]string{"doctor", "--config", "FIFO"}, args...), "nosuchsetting: 1", "nosuchsetting"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "fifo")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range c.args {
				c.args[i] = strings.ReplaceAll(c.args[i], "FIFO", path)
			}
			wrote := make(chan struct{})
			go func() {
				defer close(wrote)
				if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil { // waits for the reader
					t.Error(err)
				}
			}()
			var out text
			err := Run(t.Context(), c.args, none, &out, &out)
			<-wrote
			if want := strings.ReplaceAll(c.want, "FIFO", path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
