package pgtest

import "syscall"

// dieWithUs lets a process end with the test process, also when that is killed.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
