package local

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// deniedCalls are refused with EPERM inside of a sandbox: ways into the kernel
// that no program of an agent needs and that have been ways out of sandboxes.
// The namespaces do the rest.
var deniedCalls = [...]uint32{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}

// seccompFilter is the program in the kernel's form; empty on an architecture
// that it is not written for.
func seccompFilter() []byte {
	if auditArch == 0 {
		return nil
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K

		offsetNr, offsetArch = 0, 4 // in struct seccomp_data
	)
	program := []unix.SockFilter{
		{Code: load, K: offsetArch},
		{Code: equal, K: auditArch, Jt: 1},
		{Code: ret, K: unix.SECCOMP_RET_KILL_PROCESS}, // numbers of another architecture mean other calls
		{Code: load, K: offsetNr},
	}
	if x32Bit != 0 {
		program = append(program,
			unix.SockFilter{Code: least, K: x32Bit, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_KILL_PROCESS})
	}
	for _, nr := range deniedCalls {
		program = append(program,
			unix.SockFilter{Code: equal, K: nr, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	}
	program = append(program, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	out := make([]byte, 0, 8*len(program))
	for _, i := range program {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}
