package local

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// copyStub copies the machine code that begins with stubCode, and what follows it.
func copyStub(dst *[512]byte)

// stubELF is a program of one page that becomes the command: what the shell
// script stub does, without the milliseconds of a shell's start.
func stubELF() []byte {
	const base, header, program = 0x400000, 64, 56
	var code [512]byte
	copyStub(&code)
	size := uint64(header + 2*program + len(code))
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
			Entry: base + header + 2*program, Phoff: header, Ehsize: header, Phentsize: program, Phnum: 2,
		},
		elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000},
		elf.Prog64{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W), Align: 16},
		code,
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			return nil // the parts have fixed sizes: it cannot fail
		}
	}
	return b.Bytes()
}
