//go:build !unix

package llm

import (
	"io/fs"
	"os"
)

// own does nothing: a sandbox's user is the server's own here.
func own(*os.Root, string, fs.FileInfo) error { return nil }
