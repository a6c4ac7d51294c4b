package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox/local/tree"
)

// chownTree gives everything below a folder to a user, the folder itself last, so
// that an interrupted change is done again. Links are not followed.
func chownTree(ctx context.Context, path string, id int) error {
	t := &tree.Walk{Ctx: ctx, Visit: func(dir int, name string, _ *unix.Stat_t) error {
		err := unix.Fchownat(dir, name, id, id, unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("changing the owner of %q: %w", name, err)
		}
		return nil
	}}
	if err := t.Below(path); err != nil {
		return err
	}
	if t.Blind {
		return errors.New("it was changed by somebody at the same moment")
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading
	if err := root.Chmod(".", 0o700); err != nil {
		return fmt.Errorf("closing it to others: %w", err)
	}
	return root.Lchown(".", id, id)
}
