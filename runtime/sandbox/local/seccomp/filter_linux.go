package seccomp

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
	// A rule of Landlock keeps a deleted file on the disk, where no one can see it.
	unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF,
	// The whole machine shares one small number of contexts.
	unix.SYS_IO_SETUP,
	unix.SYS_MEMFD_SECRET, unix.SYS_QUOTACTL_FD,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}

// deniedFlags are refused with EPERM when the bits of the mask in an argument
// have this value. Only the argument's lower half counts, here and in the kernel.
var deniedFlags = [...]struct {
	call, arg, mask, value uint32
}{
	// Huge pages come out of a store of the machine that no memory limit counts.
	{unix.SYS_MMAP, 3, unix.MAP_HUGETLB, unix.MAP_HUGETLB},
	{unix.SYS_MEMFD_CREATE, 1, unix.MFD_HUGETLB, unix.MFD_HUGETLB},
	{unix.SYS_SHMGET, 2, shmHugeTLB, shmHugeTLB},
	// Typing into a terminal that somebody else reads.
	{unix.SYS_IOCTL, 1, 0xffffffff, unix.TIOCSTI},
	{unix.SYS_IOCTL, 1, 0xffffffff, tiocLinux},
}

// Known tells whether there is a filter for this processor.
const Known = auditArch != 0

// families are the kinds of sockets that a command can make, besides netlink's:
// the kernel bounds the memory of their messages, and programs need them. Others
// hold what no memory limit counts, or are ways into rarely used code.
var families = [...]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6}

const (
	shmHugeTLB = 0o4000 // of <sys/shm.h>
	tiocLinux  = 0x541c // of <asm-generic/ioctls.h>
)

// Filter is the program in the kernel's form; empty on an architecture
// that it is not written for.
func Filter() []byte {
	if !Known {
		return nil
	}
	const (
		load  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		ret   = unix.BPF_RET | unix.BPF_K
		and   = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K

		// In struct seccomp_data; of an argument, its lower half.
		offsetNr, offsetArch, offsetArgs = 0, 4, 16
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
	for _, f := range deniedFlags {
		program = append(program,
			unix.SockFilter{Code: equal, K: f.call, Jf: 5},
			unix.SockFilter{Code: load, K: offsetArgs + 8*f.arg},
			unix.SockFilter{Code: and, K: f.mask},
			unix.SockFilter{Code: equal, K: f.value, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
			unix.SockFilter{Code: load, K: offsetNr})
	}
	// From here on it is about sockets only. Of netlink a program may ask which
	// interfaces and addresses there are, and cannot send itself messages.
	program = append(program,
		unix.SockFilter{Code: equal, K: unix.SYS_SOCKET, Jt: 2},
		unix.SockFilter{Code: equal, K: unix.SYS_SOCKETPAIR, Jt: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: load, K: offsetArgs})
	for _, family := range families {
		program = append(program,
			unix.SockFilter{Code: equal, K: family, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	}
	program = append(program,
		unix.SockFilter{Code: equal, K: unix.AF_NETLINK, Jt: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)},
		unix.SockFilter{Code: load, K: offsetArgs + 8*2},
		unix.SockFilter{Code: equal, K: unix.NETLINK_ROUTE, Jt: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPROTONOSUPPORT)},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	out := make([]byte, 0, 8*len(program))
	for _, i := range program {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}
