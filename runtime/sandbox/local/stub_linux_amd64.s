#include "textflag.h"

// stubCode is the whole program of stubELF: Go never calls it. It uses the
// stack that the kernel gives a new process, and no memory but that.
//
//	argv   name, path..., "", command...
//	5      one read gives the resource limits to set, 24 bytes each (number,
//	       soft, hard), and lets it go; the end means that the server is gone
//	6      takes a byte when it is ready, and one more, an errno, when none
//	       of the paths can be executed (255: a limit could not be set); its
//	       end tells that one was
//	9      this program
//
// BX is the place in argv, R15 the command, R13 the environment, R14 the errno,
// R12 a buffer, and AX and R11 do not survive a system call.
TEXT ·stubCode(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ 0(SP), CX
	LEAQ 8(SP), BX
	LEAQ 8(BX)(CX*8), R13
	LEAQ -512(SP), R12
	LEAQ 8(BX), R15

separator:
	MOVQ 0(R15), AX
	ADDQ $8, R15
	CMPB 0(AX), $0
	JNE  separator

	MOVB $'r', 0(R12)
	MOVL $1, AX // write
	MOVL $6, DI
	MOVQ R12, SI
	MOVL $1, DX
	SYSCALL
	XORL AX, AX // read
	MOVL $5, DI
	MOVQ R12, SI
	MOVL $240, DX
	SYSCALL
	CMPQ AX, $24
	JGE  released
	MOVL $125, DI
	JMP  exit

released:
	LEAQ 0(R12)(AX*1), R8 // the end
	MOVQ R12, R9
	MOVL $255, R14

limit:
	XORL DI, DI // this process
	MOVQ 0(R9), SI
	LEAQ 8(R9), DX
	XORL R10, R10
	MOVL $302, AX // prlimit64
	SYSCALL
	TESTQ AX, AX
	JNE  fail
	ADDQ $24, R9
	CMPQ R9, R8
	JLT  limit

	// The command gets none of these.
	MOVL $72, AX // fcntl
	MOVL $5, DI
	MOVL $2, SI  // F_SETFD
	MOVL $1, DX  // FD_CLOEXEC
	SYSCALL
	MOVL $72, AX
	MOVL $6, DI
	SYSCALL
	MOVL $72, AX
	MOVL $9, DI
	SYSCALL
	MOVL $2, R14 // ENOENT, unless a path says more

next:
	ADDQ $8, BX
	MOVQ 0(BX), DI
	CMPB 0(DI), $0
	JEQ  fail
	MOVQ R15, SI
	MOVQ R13, DX
	MOVL $59, AX // execve
	SYSCALL
	NEGQ AX
	CMPQ AX, $2  // ENOENT
	JEQ  next
	CMPQ AX, $20 // ENOTDIR
	JEQ  next
	CMPQ AX, $8  // ENOEXEC
	JEQ  shell
	MOVQ AX, R14
	CMPQ AX, $13 // EACCES: another path may do
	JEQ  next
	JMP  fail

shell:
	// A text without #!: the shell takes it as its script, as execvp has it.
	MOVQ $0x0068732f6e69622f, AX // "/bin/sh"
	MOVQ AX, 0(R12)
	LEAQ -8(R15), SI
	MOVQ R12, 0(SI)
	MOVQ 0(BX), AX
	MOVQ AX, 0(R15)
	MOVQ R12, DI
	MOVQ R13, DX
	MOVL $59, AX
	SYSCALL
	NEGQ AX
	MOVQ AX, R14

fail:
	MOVB R14, 0(R12)
	MOVL $1, AX
	MOVL $6, DI
	MOVQ R12, SI
	MOVL $1, DX
	SYSCALL
	MOVL $127, DI

exit:
	MOVL $231, AX // exit_group
	SYSCALL
	JMP  exit

// func copyStub(dst *[512]byte)
TEXT ·copyStub(SB), NOSPLIT, $0-8
	MOVQ dst+0(FP), DI
	LEAQ ·stubCode(SB), SI
	MOVL $512, CX
	CLD
	REP
	MOVSB
	RET
