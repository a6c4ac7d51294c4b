package local

import (
	"encoding/binary"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// stubPath names the small program inside of a sandbox, by its descriptor.
const stubPath = "/proc/self/fd/9"

// stubFile holds the small program; nil where it cannot be used. Nobody can
// change it, though every sandbox gets it.
func stubFile() *os.File {
	program := stubELF()
	if program == nil {
		return nil
	}
	fd, err := unix.MemfdCreate("weir", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 all could be executed
		fd, err = unix.MemfdCreate("weir", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "weir")
	_, err = f.Write(program)
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// candidates are the paths at which a command may lie.
func candidates(name string, env []run.EnvVar) []string {
	if strings.Contains(name, "/") {
		return []string{name}
	}
	var all []string
	for dir := range strings.SplitSeq(pathOf(env), ":") {
		if dir == "" {
			dir = "." // as POSIX has it
		}
		all = append(all, dir+"/"+name)
	}
	return all
}

func pathOf(env []run.EnvVar) string {
	for _, e := range env {
		if e.Name == "PATH" {
			return e.Value
		}
	}
	return sandboxPath
}

// noLimit is what the small program reports when it cannot set a limit.
const noLimit = 255

// rlimits are the limits of each single process, as the small program takes
// them: what ulimits says, but never above what this process may do.
func rlimits(l sandbox.Limits, memory, pids bool) []byte {
	var all []byte
	add := func(resource int, limit uint64) {
		var own unix.Rlimit
		if unix.Getrlimit(resource, &own) == nil {
			limit = min(limit, own.Max)
		}
		for _, v := range []uint64{uint64(resource), limit, limit} {
			all = binary.NativeEndian.AppendUint64(all, v)
		}
	}
	// 0 would forbid the file only, not a program of the host that the kernel
	// starts to take the dump. 1 forbids both.
	add(unix.RLIMIT_CORE, 1)
	add(unix.RLIMIT_NOFILE, maxFiles)
	if l.DiskMiB > 0 {
		add(unix.RLIMIT_FSIZE, uint64(fileLimit(l)))
	}
	if memory && l.MemoryMiB > 0 {
		add(unix.RLIMIT_DATA, uint64(l.MemoryMiB)<<20)
	}
	if pids && l.PIDs > 0 {
		add(unix.RLIMIT_NPROC, uint64(l.PIDs))
	}
	return all
}
