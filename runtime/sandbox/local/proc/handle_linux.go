package proc

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Handle holds on to one process: unlike a number it never comes to mean another.
type Handle struct{ fd int }

// Open holds on to what has this number now.
func Open(pid int) (*Handle, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	return &Handle{fd}, nil
}

// Signal sends sig; a process that has ended already is no error.
func (p *Handle) Signal(sig syscall.Signal) error {
	if err := unix.PidfdSendSignal(p.fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %s: %w", unix.SignalName(sig), err)
	}
	return nil
}

// Gone waits until the process has ended, for at most d, and tells whether it has.
func (p *Handle) Gone(d time.Duration) bool {
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

// Close lets go of it; nil is nothing.
func (p *Handle) Close() {
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

// Status gives the wait status of a process that was reaped, whoever's child it
// was. Kernels before 6.15 do not tell.
func (p *Handle) Status() (syscall.WaitStatus, bool) {
	info := pidfdInfo{mask: pidfdInfoExit}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.fd), pidfdGetInfo, uintptr(unsafe.Pointer(&info))) //nolint:gosec // an ioctl takes an address
	if errno != 0 || info.mask&pidfdInfoExit == 0 {
		return 0, false
	}
	return syscall.WaitStatus(info.exitCode), true
}
