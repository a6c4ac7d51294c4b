// Package textfile reads the small files that an operator names: settings,
// tokens, definitions.
//
// Guarantee: nothing here waits for long. Read takes a pipe as well as a regular
// file, and waits pipeWait for what comes out of it; whatever else is refused with
// its kind and never read, and so is a pipe by Open and Dir. A link is followed.
package textfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// pipeWait bounds how long the end of what a pipe brings may take: who writes
// to it may have to ask for a password first.
const pipeWait = 30 * time.Second

// Read reads a file or pipe of at most limit bytes, such as <(pass show token)
// or /dev/stdin. Its errors do not name the file.
func Read(path string, limit int64) ([]byte, error) { return read(path, limit, pipeWait) }

func read(path string, limit int64, wait time.Duration) ([]byte, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	if info.Mode()&fs.ModeNamedPipe == 0 {
		if err := Check(info); err != nil {
			return nil, fmt.Errorf("%w or pipe", err)
		}
		return Bounded(f, limit)
	}
	err = f.SetReadDeadline(time.Now().Add(wait))
	if err == nil {
		err = written(f)
	}
	var data []byte
	if err == nil {
		data, err = Bounded(f, limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fmt.Errorf("it is a pipe, and what writes to it has not come to its end within %s; let it end, or name a file", wait)
	}
	return data, err
}

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) {
	f, info, err := open(path)
	if err != nil {
		return nil, err
	}
	if err := Check(info); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func open(path string) (*os.File, fs.FileInfo, error) {
	// Without waiting for the other end of a FIFO, or for a device.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if p, ok := err.(*os.PathError); ok { //nolint:errorlint // os gives it unwrapped
			err = p.Err
		}
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
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
