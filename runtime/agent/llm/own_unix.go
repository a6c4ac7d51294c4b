//go:build unix

package llm

import (
	"io/fs"
	"os"
	"syscall"
)

// own gives a new file to whom the workspace belongs.
func own(root *os.Root, name string, like fs.FileInfo) error {
	s, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return root.Lchown(name, int(s.Uid), int(s.Gid))
}
