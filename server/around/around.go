// Package around finds out what a command needs of this machine when it runs in
// a folder of its user's own: the folder, the Python that is active there with
// its packages, and what else the user named.
//
// Guarantees: nothing is written or executed. Every path that it gives exists,
// is absolute, and has no link in the place that it comes from.
package around

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// Request says what is wanted.
type Request struct {
	Folder  string   // absolute
	Mounts  []string // as typed; relative ones count from the folder
	GPU     bool
	Program string // the first word of the command
	Getenv  func(string) string
}

// Found is what was found.
type Found struct {
	run.Place
	// Env are variables that go with an active environment of Python.
	Env []run.EnvVar
	// Notes are words for the user.
	Notes []string
}

// Find looks at the machine. Its errors name what was typed.
func Find(q Request) (Found, error) {
	folder, err := filepath.EvalSymlinks(q.Folder)
	if err != nil {
		return Found{}, run.Errorf(run.Invalid, "the current folder %s cannot be reached: %w", q.Folder, bare(err))
	}
	if err := Readable(folder); err != nil {
		return Found{}, err
	}
	f := &finder{home: q.Getenv("HOME")}
	f.found.Folder = folder
	f.python(q)
	for _, m := range q.Mounts {
		if m == "" {
			return Found{}, run.Errorf(run.Invalid, "--mount needs the path of a file or a folder")
		}
		path := m
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		if _, err := os.Stat(path); err != nil {
			return Found{}, run.Errorf(run.Invalid, "--mount %s: %w", m, bare(err))
		}
		if own := sandboxHas(path); own != "" {
			return Found{}, run.Errorf(run.Invalid, "--mount %s: the sandbox has %s; name a file or a folder further down", m, own)
		}
		f.add(filepath.Clean(path))
	}
	if q.GPU {
		f.found.Devices, _ = filepath.Glob("/dev/nvidia*") // the pattern is a good one
		f.found.Devices = slices.DeleteFunc(f.found.Devices, func(name string) bool {
			info, err := os.Stat(name)
			return err != nil || (info.Mode()&os.ModeCharDevice == 0 && !info.IsDir())
		})
		if len(f.found.Devices) == 0 {
			return Found{}, run.Errorf(run.Invalid, "--gpu: this machine has no /dev/nvidia*: is the driver loaded?")
		}
	}
	return f.found, nil
}

// sandboxHas tells what of its own a sandbox has at a path, which the machine's
// would take the place of; "" for nothing.
func sandboxHas(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	switch {
	case path == "/":
		return "a root folder of its own"
	case within(path, "/proc"), path == "/dev", path == "/dev/shm", path == "/tmp":
		return "a " + path + " of its own"
	}
	return ""
}

// Readable tells whether a folder can be worked in.
func Readable(folder string) error {
	dir, err := os.Open(folder)
	if err != nil {
		return run.Errorf(run.Invalid, "the folder %s cannot be opened: %w", folder, bare(err))
	}
	defer func() { _ = dir.Close() }() // only looked at
	if _, err := dir.Readdirnames(1); err != nil && !strings.Contains(err.Error(), "EOF") {
		return run.Errorf(run.Invalid, "the folder %s cannot be read: %w", folder, bare(err))
	}
	return nil
}

// Holds tells whether a folder holds path, or is it.
func Holds(folder, path string) bool {
	if path == "" {
		return false
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return within(path, folder)
}

// Kernel tells whether a folder's files are none, but what the kernel shows of
// itself.
func Kernel(folder string) bool {
	return slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(of string) bool {
		return within(folder, of) && !within(folder, "/dev/shm")
	})
}

// within tells whether path is folder or lies in it.
func within(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// system is what every sandbox sees of the machine.
func system(path string) bool {
	return within(path, "/usr")
}

type finder struct {
	home  string
	found Found
}

// add mounts what is at path, there and where its links lead to.
func (f *finder) add(path string) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	for _, at := range []string{target, path} {
		if system(at) || (at == path && at != target && f.shown(filepath.Dir(at))) || slices.ContainsFunc(f.found.Mounts, func(m run.Mount) bool { return within(at, m.At) }) {
			continue
		}
		f.found.Mounts = append(f.found.Mounts, run.Mount{From: target, At: at})
	}
}

// shown tells whether the sandbox sees a folder already, with the links in it.
func (f *finder) shown(dir string) bool {
	return system(dir) || within(dir, f.found.Folder)
}

// bare drops the operation and the path of a file error: the message names them.
func bare(err error) error {
	if p, ok := err.(*os.PathError); ok { //nolint:errorlint // os functions give it unwrapped
		return p.Err
	}
	return err
}
