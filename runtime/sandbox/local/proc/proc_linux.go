package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// InNamespace lists the processes of a process namespace, by its inode.
func InNamespace(inode uint64) []int {
	want := fmt.Sprintf("pid:[%d]", inode)
	var found []int
	for _, pid := range All() {
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && ns == want {
			found = append(found, pid)
		}
	}
	return found
}

// All gives the process ids of the machine, as far as they are shown.
func All() []int {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	pids := make([]int, 0, len(dirs))
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// IsIn tells whether a process is in a process namespace, by its inode.
func IsIn(pid int, inode uint64) bool {
	ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	return err == nil && ns == "pid:["+strconv.FormatUint(inode, 10)+"]"
}

// zombie tells whether a process is dead and only waits to be reaped.
func zombie(pid int) bool { return Ended(pid) && living(pid) == 0 }

// Ended tells whether one thread has ended; the first of a process may long
// before the others.
func Ended(tid int) bool {
	s := State(tid)
	return s == 0 || s == 'Z' || s == 'X'
}

// living gives a thread of a process that has not ended, other than the first; 0 when there is none.
func living(pid int) int {
	threads, _ := Threads(pid)
	for _, tid := range threads {
		if tid != pid && !Ended(tid) {
			return tid
		}
	}
	return 0
}

// State gives the kernel's letter for what a process does; 0 when there is none.
func State(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	if i := bytes.LastIndexByte(data, ')'); i >= 0 && i+2 < len(data) {
		return data[i+2]
	}
	return 0
}

// Threads lists the threads of a process.
func Threads(pid int) ([]int, error) {
	dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened for reading
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	threads := make([]int, 0, len(names))
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			threads = append(threads, tid)
		}
	}
	return threads, nil
}

// IsGone tells whether an error only says that a process or thread has ended.
func IsGone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// Children gives the children of a process with one thread.
func Children(pid int) ([]int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var found []int
	for _, word := range strings.Fields(string(data)) {
		c, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("reading the children of process %d: %w", pid, err)
		}
		found = append(found, c)
	}
	return found, nil
}
