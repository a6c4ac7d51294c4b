package local

import (
	"cmp"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// noGPU refuses a request for a GPU: running without one would be something else.
func noGPU(spec sandbox.Spec) error {
	if spec.GPU == "" || len(devices(spec)) > 0 {
		return nil
	}
	return run.Errorf(run.Invalid, "the local backend has no GPUs to give, but %q was asked for: use another backend", spec.GPU)
}

// fileLimit is the most bytes of one file: somewhat less than the workspace may
// hold, so that a program that writes one file too large is told by the system
// and can go on, instead of being killed for the size of its workspace.
func fileLimit(l sandbox.Limits) int64 {
	disk := l.DiskMiB << 20
	return disk - max(disk/64, 64<<10)
}

// maxEnvString is what Linux takes as one string of an environment or of a
// command (MAX_ARG_STRLEN, with its final NUL).
const maxEnvString = 128 << 10

// maxWords is how many arguments bubblewrap takes (MAX_ARGS of its source), its
// own among them.
const maxWords = 9000

// checkWords refuses a command that makes bubblewrap's arguments too many.
func checkWords(command, all int) error {
	if all < maxWords {
		return nil
	}
	return run.Errorf(run.Invalid, "the command has %d words; here a sandbox takes at most %d: put them into a file, or let a shell in the sandbox make them", command, command-(all-maxWords)-1)
}

func checkStrings(env []run.EnvVar, command []string) error {
	for _, e := range env {
		if n := len(e.Name) + 1 + len(e.Value) + 1; n > maxEnvString {
			return run.Errorf(run.Invalid, "the environment variable %s has %d bytes; Linux passes at most %d: put it in a file of the workspace", cmp.Or(e.Name, "?"), n, maxEnvString)
		}
	}
	for i, a := range command {
		if len(a)+1 > maxEnvString {
			return run.Errorf(run.Invalid, "argument %d of the command has %d bytes; Linux passes at most %d: put it in a file of the workspace", i, len(a), maxEnvString)
		}
	}
	return nil
}
