package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/textfile"
)

// files are the workspace's, which the agent's commands write too: what stands
// there may be anything. Only what an os.Root reaches is touched.
type files struct{ workspace string }

const (
	maxRead    = maxResult
	maxWrite   = 1 << 20
	maxEntries = 1000
)

// open opens the workspace and cleans a path that the model wrote.
func (f files) open(name string) (*os.Root, string, error) {
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	if name == "" || clean == "." {
		clean = "."
	}
	if !fs.ValidPath(clean) {
		return nil, "", fmt.Errorf("the path %q leads out of the session's folder; paths are relative to it", clip(name, 200))
	}
	root, err := os.OpenRoot(f.workspace)
	if err != nil {
		return nil, "", fmt.Errorf("opening the session's folder: %w", reason(err))
	}
	return root, clean, nil
}

// reason drops the operation and the path, which the message names.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (f files) reader() tool {
	return tool{
		beside: true, again: true,
		spec: chat.Tool{
			Description: "Reads a text file of the session's folder, from a byte on. Long files come in pieces.",
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{` +
				`"path":{"type":"string"},"offset":{"type":"integer","description":"in bytes; 0 is the beginning"}}}`),
		},
		do: func(_ context.Context, c chat.Call) (string, bool, error) {
			var a struct {
				Path   string `json:"path"`
				Offset int64  `json:"offset"`
			}
			if err := arguments(c, &a); err != nil {
				return "", true, err
			}
			text, err := f.read(a.Path, a.Offset)
			return text, err != nil, err
		},
	}
}

func (f files) read(name string, offset int64) (string, error) {
	root, name, err := f.open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // only read
	r, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, reason(err))
	}
	defer func() { _ = r.Close() }() // only read
	info, err := r.Stat()
	if err == nil {
		err = textfile.Check(info)
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, reason(err))
	}
	if offset < 0 || offset > info.Size() {
		return "", fmt.Errorf("the offset %d is outside of %s, which has %d bytes", offset, name, info.Size())
	}
	const room = 200 // for what is said about the rest
	data, err := io.ReadAll(io.NewSectionReader(r, offset, maxRead-room))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, reason(err))
	}
	text := string(data)
	if end := offset + int64(len(data)); end < info.Size() {
		text = clip(text, len(text)-1) // not within a character
		end = offset + int64(len(text))
		text += fmt.Sprintf("\n[... bytes %d to %d of %d; go on with offset %d]", offset, end, info.Size(), end)
	}
	return text, nil
}

func (f files) writer() tool {
	return tool{
		spec: chat.Tool{
			Description: "Writes a text file in the session's folder; one that is there is replaced. Folders are made.",
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path","content"],"properties":{` +
				`"path":{"type":"string"},"content":{"type":"string"}}}`),
		},
		do: func(_ context.Context, c chat.Call) (string, bool, error) {
			var a struct {
				Path    string `json:"path"`
				Content string `json:"content"`
			}
			if err := arguments(c, &a); err != nil {
				return "", true, err
			}
			if err := f.write(a.Path, a.Content); err != nil {
				return "", true, err
			}
			return fmt.Sprintf("%d bytes written to %s", len(a.Content), a.Path), false, nil
		},
	}
}

// write replaces a file at once. What it makes belongs to whom the workspace
// belongs, so that the agent's commands can change it.
func (f files) write(name, content string) error {
	if len(content) > maxWrite {
		return fmt.Errorf("the content has %d bytes; at most %d can be written at once: write it by code", len(content), maxWrite)
	}
	root, name, err := f.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // what counts is closed by itself
	if name == "." {
		return errors.New("the path is empty; name a file")
	}
	info, err := root.Stat(".")
	if err != nil {
		return fmt.Errorf("opening the session's folder: %w", reason(err))
	}
	if err := f.folders(root, path.Dir(name), info); err != nil {
		return fmt.Errorf("writing %s: %w", name, reason(err))
	}
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("writing %s: it is there and no file", name)
	}
	temporary := path.Join(path.Dir(name), "."+run.NewKey("new"))
	err = f.fill(root, temporary, content, info)
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // it may not be there
		return fmt.Errorf("writing %s: %w", name, reason(err))
	}
	return nil
}

func (f files) fill(root *os.Root, name, content string, like fs.FileInfo) error {
	w, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, content)
	return errors.Join(err, w.Close(), own(root, name, like))
}

func (f files) folders(root *os.Root, dir string, like fs.FileInfo) error {
	if dir == "." {
		return nil
	}
	if _, err := root.Stat(dir); err == nil {
		return nil
	}
	if err := f.folders(root, path.Dir(dir), like); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return own(root, dir, like)
}

func (f files) lister() tool {
	return tool{
		beside: true, again: true,
		spec: chat.Tool{
			Description: "Lists a folder of the session's folder: name and size of each file, folders with a / behind.",
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` +
				`"path":{"type":"string","description":"none: the session's folder itself"}}}`),
		},
		do: func(_ context.Context, c chat.Call) (string, bool, error) {
			var a struct {
				Path string `json:"path"`
			}
			if err := arguments(c, &a); err != nil {
				return "", true, err
			}
			text, err := f.list(a.Path)
			return text, err != nil, err
		},
	}
}

func (f files) list(name string) (string, error) {
	root, name, err := f.open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // only read
	d, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", name, reason(err))
	}
	defer func() { _ = d.Close() }() // only read
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("listing %s: %w", name, reason(err))
	}
	more := len(entries) > maxEntries
	entries = entries[:min(len(entries), maxEntries)]
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	var b strings.Builder
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil: // gone meanwhile
		case e.IsDir():
			fmt.Fprintf(&b, "%s/\n", e.Name())
		case info.Mode().IsRegular():
			fmt.Fprintf(&b, "%s\t%d bytes\n", e.Name(), info.Size())
		default:
			fmt.Fprintf(&b, "%s\t(%s)\n", e.Name(), info.Mode().Type())
		}
	}
	if more {
		fmt.Fprintf(&b, "[... more than %d]\n", maxEntries)
	}
	if b.Len() == 0 {
		return "(empty)", nil
	}
	return b.String(), nil
}
