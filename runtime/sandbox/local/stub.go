package local

import (
	"fmt"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// stub is the shell script that becomes the command where stubELF cannot. It
// says that it is ready on descriptor 6, waits for a line on descriptor 5 (its
// end means that the server is gone) while the server sets its limits, tells the
// errno of a command that is missing or denied (no exit code could) and is then
// replaced by the command. Redirections of that last exec would leave a copy of
// the descriptors in it.
const stub = `printf r >&6
read -r weir_stub_go <&5 || exit 125
weir_stub_file=
case $1 in
*/*) [ -e "$1" ] && weir_stub_file=$1 ;;
*)
	IFS=:
	for weir_stub_dir in $PATH; do
		if [ -f "$weir_stub_dir/$1" ] && [ -x "$weir_stub_dir/$1" ]; then
			weir_stub_file=$weir_stub_dir/$1
			break
		fi
	done
	;;
esac
if [ -z "$weir_stub_file" ]; then printf '\002' >&6; exit 127; fi
if [ -d "$weir_stub_file" ] || [ ! -x "$weir_stub_file" ]; then printf '\015' >&6; exit 126; fi
exec 5<&- 6>&-
`

// execute is the shell's word for becoming the command. Variables that a shell
// would drop or change on their way go through env(1).
func execute(odd []run.EnvVar) string {
	var b strings.Builder
	b.WriteString("exec ")
	if len(odd) > 0 {
		b.WriteString("/usr/bin/env -- ")
		for _, e := range odd {
			b.WriteString("'" + strings.ReplaceAll(e.Name+"="+e.Value, "'", `'\''`) + "' ")
		}
	}
	return b.String()
}

// maxFiles is how many descriptors a process can hold: what the kernel keeps
// behind them, and no memory limit counts, is bounded by it.
const maxFiles = 4096

// ulimits are the resource limits of each single process. Those of memory and
// processes stand in for a control group where the server may not make one. A
// limit that cannot be set is one that was lower before.
func ulimits(l sandbox.Limits, memory, pids bool) string {
	s := fmt.Sprintf("ulimit -c 0 2>/dev/null\nulimit -n %d 2>/dev/null\n", maxFiles)
	if l.DiskMiB > 0 {
		s += fmt.Sprintf("ulimit -f %d 2>/dev/null\n", fileLimit(l)/512) // blocks of 512 bytes, as POSIX has them
	}
	if memory && l.MemoryMiB > 0 {
		s += fmt.Sprintf("ulimit -d %d 2>/dev/null\n", l.MemoryMiB*1024)
	}
	if pids && l.PIDs > 0 {
		s += fmt.Sprintf("ulimit -p %d 2>/dev/null || ulimit -u %d 2>/dev/null\n", l.PIDs, l.PIDs) // two shells, two letters
	}
	return s
}

// oddEnv splits off the variables that a shell does not pass on unchanged.
func oddEnv(env []run.EnvVar) (plain, odd []run.EnvVar) {
	for _, e := range env {
		switch e.Name {
		case "IFS", "OPTIND", "PPID", "PWD", "OLDPWD", "PS1", "PS2", "PS4", "LINENO", "_", "ENV", "SHELLOPTS", "BASHOPTS":
			odd = append(odd, e)
			continue
		}
		ident := true
		for i, c := range []byte(e.Name) {
			ident = ident && (c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (i > 0 && c >= '0' && c <= '9'))
		}
		if ident {
			plain = append(plain, e)
		} else {
			odd = append(odd, e)
		}
	}
	return plain, odd
}
