package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/textfile"
	"github.com/weirhq/weir/server/config"
)

// replicaFile keeps the replica's id in its data folder, so that a restart
// takes back its own runs at once.
const replicaFile = "replica"

// replica reads the id, or makes it on the first start. The data folder's lock
// is held.
func replica(data string) (string, error) {
	path := filepath.Join(data, replicaFile)
	text, err := textfile.Read(path, 1<<10)
	if err == nil {
		if id := strings.TrimSpace(string(text)); run.ValidID("rep", id) {
			return id, nil
		}
		return "", fmt.Errorf("%s does not hold a replica id but %.40q; delete the file, then runs that this server left open end as LOST elsewhere", path, text)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the replica id in %s: %w; delete the file, then runs that this server left open end as LOST elsewhere", path, err)
	}
	id := run.NewKey("rep")
	if err := writeFile(path, id+"\n"); err != nil {
		return "", fmt.Errorf("keeping the replica id: %w", err)
	}
	return id, nil
}

// writeFile puts a small file in place as a whole, also when the power fails.
func writeFile(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("making a file: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Name(), err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("putting %s in place: %w", path, err)
	}
	return nil
}

// makeData makes the data folder. Others may walk through it, since a root
// server's sandboxes run as another user, but not list it; what it holds has
// modes of its own.
func makeData(dir string) error {
	fi, err := os.Stat(dir)
	switch {
	case err == nil && fi.IsDir():
		if err := checkFolders(dir); err != nil {
			return err
		}
		return openData(dir, fi)
	case err == nil:
		return fmt.Errorf("the data folder %s is a file; name a folder with --data", dir)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the data folder %s cannot be reached: %w; choose another one with --data", dir, cause(err))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // as mkdir makes them
		return fmt.Errorf("the data folder %s cannot be made: %w; choose another one with --data", dir, cause(err))
	}
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // to be walked through, not listed
		return fmt.Errorf("the data folder %s cannot be made: %w; choose another one with --data", dir, cause(err))
	}
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("the data folder %s is a link that leads nowhere; choose another one with --data", dir)
	}
	return nil
}

// checkFolders refuses a data folder in which something else stands where the
// server keeps a folder: runs would start, and what they print could not be kept.
func checkFolders(dir string) error {
	for _, name := range []string{"workspaces", "outputs"} {
		path := filepath.Join(dir, name)
		if fi, err := os.Stat(path); err == nil && !fi.IsDir() {
			return fmt.Errorf("%s is a file, and Weir keeps a folder there; move it away, or choose another data folder with --data", path)
		}
	}
	return nil
}

// makesData tells whether a start makes the data folder or a file in it before
// anything else can fail.
func makesData(c config.Serve) bool {
	info, err := os.Stat(c.Data)
	return errors.Is(err, fs.ErrNotExist) || (err == nil && info.IsDir() && c.DB == "")
}

// openData lets others pass through a root server's data folder, as one that
// it makes itself does. The folders above are not the server's to change.
func openData(dir string, fi fs.FileInfo) error {
	if mode := fi.Mode().Perm(); os.Geteuid() == 0 && mode&0o001 == 0 {
		if err := os.Chmod(dir, mode|0o011); err != nil {
			return fmt.Errorf("the data folder %s cannot be opened to the user of the sandboxes: %w; choose another one with --data", dir, cause(err))
		}
	}
	return nil
}

// cause drops the operation and path of a file error that the message names.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
