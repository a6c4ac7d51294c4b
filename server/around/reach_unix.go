//go:build unix

package around

import (
	"os"
	"path/filepath"
	"syscall"
)

// Owner gives whose a file is.
func Owner(info os.FileInfo) (uid, gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}

// Blocks gives the first folder above path, from the root down, that a user may
// not pass through; "" when there is none. A folder itself has to be passed, too.
func Blocks(path string, uid, gid int) string {
	var dirs []string
	for dir := path; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Dir(dir) {
			break
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		info, err := os.Stat(dirs[i])
		if err != nil || (!info.IsDir() && i == 0) {
			continue
		}
		bit := os.FileMode(0o001)
		switch u, g, _ := Owner(info); {
		case u == uid:
			bit = 0o100
		case g == gid:
			bit = 0o010
		}
		if info.Mode().Perm()&bit == 0 {
			return dirs[i]
		}
	}
	return ""
}
