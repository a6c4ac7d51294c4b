//go:build unix

package app

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of the file would hold the start for ever.
func TestReplicaIsAFile(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(data, replicaFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := replica(data); err == nil || !strings.Contains(err.Error(), filepath.Join(data, replicaFile)) {
		t.Errorf("got %v", err)
	}
}
