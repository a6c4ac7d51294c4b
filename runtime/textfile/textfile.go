// Package textfile reads the small files that an operator names: settings,
// tokens, definitions.
//
// Guarantee: nothing here waits for anybody. What is no regular file is refused
// with its kind and never read: a FIFO would hold the program until someone
// writes. A link is followed.
package textfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Read reads a file of at most limit bytes. Its errors do not name the file.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	return Bounded(f, limit)
}

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) {
	// Without waiting for the other end of a FIFO, or for a device.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if p, ok := err.(*os.PathError); ok { //nolint:errorlint // os gives it unwrapped
			err = p.Err
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = Check(info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Bounded reads all of f, unless that is more than limit bytes.
func Bounded(f io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("reading the file: %w", err)
	}
	if int64(len(data)) > limit {
		if limit >= 1<<20 {
			return nil, fmt.Errorf("the file is larger than %d MiB", limit>>20)
		}
		return nil, fmt.Errorf("the file is larger than %d bytes", limit)
	}
	return data, nil
}

// Check refuses what is no regular file.
func Check(info fs.FileInfo) error {
	var kind string
	switch m := info.Mode(); {
	case m.IsRegular():
		return nil
	case m.IsDir():
		kind = "a folder"
	case m&fs.ModeNamedPipe != 0:
		kind = "a FIFO (named pipe)"
	case m&fs.ModeSocket != 0:
		kind = "a socket"
	case m&fs.ModeDevice != 0:
		kind = "a device"
	default:
		kind = "of the kind " + m.Type().String()
	}
	return fmt.Errorf("it is %s, not a regular file", kind)
}

// Dir is a folder of files, opened in the same way.
type Dir string

// Open implements fs.FS. The folder itself can be opened too.
func (d Dir) Open(name string) (fs.File, error) {
	path := string(d)
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if name == "." {
		return os.Open(path)
	}
	f, err := Open(filepath.Join(path, filepath.FromSlash(name)))
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f, nil
}
