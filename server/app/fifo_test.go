//go:build unix

package app

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A FIFO where a file should be holds nobody up.
func TestAFIFOIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "x.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// Whoever waits for it after all gets an empty file.
	release := time.AfterFunc(10*time.Second, func() {
		if f, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			t.Error("somebody waits for the FIFO")
			_ = f.Close()
		}
	})
	defer release.Stop()
	args := []string{"--listen", "127.0.0.1:0", "--data", dataFolder(t)}
	found, _ := doctor(t, append(args, "--agents", dir)...)
	if f := found["agents"]; f.Verdict != warning || !strings.Contains(f.What, "x.yaml: opening the file: it is a FIFO") {
		t.Errorf("among the agents: %+v", f)
	}
	for flag, command := range map[string]string{"--token-file": "serve", "--config": "doctor"} {
		var out text
		err := Run(t.Context(), append([]string{command, flag, fifo}, args...), none, &out, &out)
		if err == nil || !strings.Contains(err.Error(), fifo+": it is a FIFO") {
			t.Errorf("%s: %v", flag, err)
		}
	}
	var out text
	if err := Run(t.Context(), []string{"runs", "--token-file", fifo}, none, &out, &out); err == nil || !strings.Contains(err.Error(), fifo+": it is a FIFO") {
		t.Errorf("the client: %v", err)
	}
}
