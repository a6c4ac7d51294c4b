//go:build !linux

package pgtest

import "syscall"

// dieWithUs does nothing here: what a killed test process leaves must be ended
// by hand.
func dieWithUs(*syscall.SysProcAttr) {}
