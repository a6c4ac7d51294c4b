//go:build !unix

package textfile

import "os"

// written has nothing to wait for: a pipe has no end before it has two.
func written(*os.File) error { return nil }
