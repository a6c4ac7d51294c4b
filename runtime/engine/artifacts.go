package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

// Bounds of what the server reads in a workspace after a run.
const (
	maxWalked    = 40_000    // entries looked at
	maxDepthDirs = 32        // folders in folders
	maxArtifacts = 1_000     // files listed
	maxHashed    = 512 << 20 // bytes read for hashes; a file beyond it has none
	maxReport    = 8 << 20   // bytes of what is called the run's report

	// After a run that was not successful.
	quietHashed = 32 << 20
	quietTime   = time.Second
)

var errTooMuch = errors.New("the workspace holds more than is looked at")

// walk visits the regular files of the workspace, without dot files and
// __pycache__: those of a folder in the order of their names, those of the
// folders in it after all folders that are as deep. It follows no symlink and
// opens nothing but folders. visit returns false to end it.
//
// One folder has at most half of what is looked at, so that a large one, such as
// a data set, hides none beside it.
func (w *workspace) walk(ctx context.Context, visit func(name string, info fs.FileInfo) bool) error {
	if !w.own { // or a server without root could not look into it
		if err := repair(w.path); err != nil {
			return err
		}
	}
	shared := w.own && w.everybodys()
	left := maxWalked
	cut := false
	level := []string{"."}
	for depth := 0; len(level) > 0; depth++ {
		if depth > maxDepthDirs {
			cut = true
			break
		}
		var below []string
		for _, dir := range level {
			share := (left + 1) / 2
			names, more, err := w.list(dir, &share)
			if err != nil {
				return err
			}
			left -= (left+1)/2 - max(share, 0)
			cut = cut || more
			for _, name := range names {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				full := path.Join(dir, name)
				info, err := w.root.Lstat(full)
				switch {
				case err != nil: // gone meanwhile
				case info.IsDir() && shared: // others work there, too
				case info.IsDir() && w.own && w.installed(name, full): // nothing that the run made
				case info.IsDir():
					below = append(below, full)
				case info.Mode().IsRegular():
					if !visit(full, info) {
						return nil
					}
				}
			}
		}
		level = below
	}
	if cut {
		return errTooMuch
	}
	return nil
}

// everybodys tells whether the user's folder is one like /tmp, in which anybody
// can put something: the folders in it are not looked into.
func (w *workspace) everybodys() bool {
	info, err := w.root.Lstat(".")
	return err == nil && info.Mode()&fs.ModeSticky != 0 && info.Mode().Perm()&0o002 != 0
}

// installed tells whether a folder of a project holds installed packages, which
// are many files and not the project's own.
func (w *workspace) installed(name, full string) bool {
	if name == "node_modules" || name == "site-packages" {
		return true
	}
	for _, mark := range []string{"pyvenv.cfg", "conda-meta"} {
		if _, err := w.root.Lstat(path.Join(full, mark)); err == nil {
			return true
		}
	}
	return false
}

// list gives the names of a folder that count, sorted, as far as left allows.
func (w *workspace) list(dir string, left *int) (names []string, cut bool, err error) {
	// Without O_NONBLOCK a FIFO put in the folder's place would block for ever.
	f, err := w.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if dir != "." && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || !w.isFolder(dir)) {
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("reading folder %s: %w", dir, err)
	}
	defer func() { _ = f.Close() }()
	for {
		batch, err := f.Readdirnames(256)
		for _, name := range batch {
			if *left--; *left < 0 {
				cut = true
				break
			}
			if !strings.HasPrefix(name, ".") && name != "__pycache__" && utf8.ValidString(name) {
				names = append(names, name)
			}
		}
		if err != nil || cut {
			slices.Sort(names)
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) && w.isFolder(dir) {
				return names, cut, fmt.Errorf("reading folder %s: %w", dir, err)
			}
			return names, cut, nil
		}
	}
}

// isFolder tells whether a folder has not become something else meanwhile.
func (w *workspace) isFolder(dir string) bool {
	info, err := w.root.Lstat(dir)
	return err == nil && info.IsDir()
}

// changed gives the files that are new or other than when the run began; known
// holds what the session's runs have listed before. At most budget bytes are
// read for hashes.
func (w *workspace) changed(ctx context.Context, known []run.Artifact, budget int64) ([]run.Artifact, error) {
	hashes := make(map[string]string, len(known))
	for _, a := range known {
		hashes[a.Path] = a.SHA256
	}
	var files []run.Artifact
	over := false
	err := w.walk(ctx, func(name string, info fs.FileInfo) bool {
		if !w.touched(name, info) {
			return true
		}
		sum, err := w.hash(name, info.Size(), &budget)
		if err != nil || (sum != "" && sum == hashes[name]) {
			return true // gone or unreadable meanwhile; or rewritten as it was
		}
		if len(files) == maxArtifacts {
			over = true
			return false
		}
		files = append(files, run.Artifact{Path: name, Kind: kindOf(name), Size: info.Size(), SHA256: sum, Modified: info.ModTime()})
		return true
	})
	slices.SortFunc(files, func(a, b run.Artifact) int { return strings.Compare(a.Path, b.Path) })
	if err == nil && over {
		err = fmt.Errorf("only %d files are listed: %w", maxArtifacts, errTooMuch)
	}
	return files, err
}

func (w *workspace) touched(name string, info fs.FileInfo) bool {
	if w.before == nil {
		return !info.ModTime().Before(w.since)
	}
	old, ok := w.before[name]
	return !ok || old.size != info.Size() || !old.modified.Equal(info.ModTime())
}

// hash reads a file, if it is a regular one and the budget allows.
func (w *workspace) hash(name string, size int64, budget *int64) (string, error) {
	if size > *budget {
		return "", nil
	}
	f, err := w.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, size))
	*budget -= n
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// kinds are the kinds of files by extension; others are "file".
var kinds = map[string]string{
	".png": "chart", ".svg": "chart", ".jpg": "chart", ".jpeg": "chart", ".gif": "chart", ".webp": "chart",
	".csv": "dataset", ".tsv": "dataset", ".parquet": "dataset", ".jsonl": "dataset", ".ndjson": "dataset",
	".arrow": "dataset", ".feather": "dataset", ".npy": "dataset", ".npz": "dataset", ".xlsx": "dataset",
	".pt": "model", ".pth": "model", ".pkl": "model", ".joblib": "model", ".onnx": "model",
	".safetensors": "model", ".h5": "model", ".keras": "model", ".gguf": "model", ".ckpt": "model",
	".py": "script", ".sh": "script", ".ipynb": "script", ".r": "script", ".jl": "script", ".sql": "script", ".awk": "script",
	".json": "metadata", ".yaml": "metadata", ".yml": "metadata", ".toml": "metadata",
	".html": "html", ".htm": "html",
}

func kindOf(name string) string {
	base := strings.ToLower(path.Base(name))
	if base == "report.md" || base == "report.html" {
		return "report"
	}
	if k, ok := kinds[path.Ext(base)]; ok {
		return k
	}
	return "file"
}

// reportIn gives the report among the files: the one with the fewest folders
// above it, Markdown before HTML. What is too large to be shown as one is
// passed over and told in large.
func reportIn(files []run.Artifact) (best string, large []run.Artifact) {
	for _, f := range files {
		if f.Kind != "report" {
			continue
		}
		if f.Size > maxReport {
			large = append(large, f)
			continue
		}
		deep, than := strings.Count(f.Path, "/"), strings.Count(best, "/")
		if best == "" || deep < than || (deep == than && strings.HasSuffix(strings.ToLower(f.Path), ".md") && !strings.HasSuffix(strings.ToLower(best), ".md")) {
			best = f.Path
		}
	}
	return best, large
}
