package local

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidfd holds on to one process: unlike a number it never comes to mean another.
type pidfd struct{ fd int }

func openPidfd(pid int) (*pidfd, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	return &pidfd{fd}, nil
}

// signal sends sig; a process that has ended already is no error.
func (p *pidfd) signal(sig syscall.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %s: %w", unix.SignalName(sig), err)
	}
	return nil
}

// gone waits until the process has ended, for at most d, and tells whether it has.
func (p *pidfd) gone(d time.Duration) bool {
	end := time.Now().Add(d)
	for {
		left := max(time.Until(end), 0)
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(left/time.Millisecond))
		switch {
		case n > 0:
			return true
		case errors.Is(err, unix.EINTR) && left > 0:
		default:
			return false
		}
	}
}

func (p *pidfd) close() {
	if p != nil {
		_ = unix.Close(p.fd)
	}
}

// pidfdInfo is struct pidfd_info of <linux/pidfd.h>, first version (64 bytes).
type pidfdInfo struct {
	mask, cgroup                                                      uint64
	pid, tgid, ppid, ruid, rgid, euid, egid, suid, sgid, fsuid, fsgid uint32
	exitCode                                                          int32
}

const (
	pidfdGetInfo  = 3<<30 | 64<<16 | 0xff<<8 | 11 // _IOWR(0xFF, 11, struct pidfd_info)
	pidfdInfoExit = 1 << 3
)

// status gives the wait status of a process that was reaped, whoever's child it
// was. Kernels before 6.15 do not tell.
func (p *pidfd) status() (syscall.WaitStatus, bool) {
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), pidfdGetInfo, uintptr(unsafe.Pointer(&info))) //nolint:gosec // an ioctl takes an address
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return 0, false
	}
	return syscall.WaitStatus(info.exitCode), true
}

// memfd gives an unnamed file that holds data, to be read from its start.
func memfd(name string, data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("making a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(data); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("filling a file in memory: %w", err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("rewinding a file in memory: %w", err)
	}
	return f, nil
}
