package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/server/around"
)

// typed is how a command that its user typed is run.
type typed struct {
	uid, gid int // of the sandbox, when weir runs as root
	// plain says why only a plain process can do it; nil: a sandbox, where it works.
	plain error
	gpu   string // as asked for
}

// typedFor decides as whom a command works in a folder of the user's own.
func typedFor(p run.Place, gpu string) (*typed, error) {
	t := &typed{gpu: gpu}
	info, err := os.Stat(p.Folder)
	if err != nil {
		return nil, fmt.Errorf("looking at the folder %s: %w", p.Folder, cause(err))
	}
	if os.Geteuid() != 0 {
		return t, nil
	}
	uid, gid, ok := around.Owner(info)
	switch {
	case !ok:
	case uid == 0:
		t.plain = fmt.Errorf("the folder %s belongs to root, and a sandbox must not run as root; run weir as another user, in a folder of its own, for a sandbox", p.Folder)
	default:
		t.uid, t.gid = uid, gid
	}
	return t, nil
}

// reach leaves out what the sandbox's user cannot reach, and tells it.
func (t *typed) reach(p *run.Place) (notes []string, err error) {
	if t.uid == 0 {
		return nil, nil
	}
	if at := around.Blocks(p.Folder, t.uid, t.gid); at != "" {
		return nil, run.Errorf(run.Invalid, "the command would run as user id %d, whose the folder is, and who cannot pass through %s: chmod a+x %s, or run weir as that user", t.uid, at, at)
	}
	p.Mounts = slices.DeleteFunc(slices.Clone(p.Mounts), func(m run.Mount) bool {
		at := around.Blocks(m.From, t.uid, t.gid)
		if at != "" {
			notes = append(notes, fmt.Sprintf("%s is left out: the command runs as user id %d, whose the folder is, and who cannot pass through %s", m.At, t.uid, at))
		}
		return at != ""
	})
	p.Path = slices.DeleteFunc(slices.Clone(p.Path), func(dir string) bool { return around.Blocks(dir, t.uid, t.gid) != "" })
	return notes, nil
}

// refuse keeps folders out of a sandbox that hold more than a project.
func (t *typed) refuse(p run.Place, getenv func(string) string, data string) error {
	if p.Folder == "/" || around.Kernel(p.Folder) {
		return run.Errorf(run.Invalid, "the folder %s is no place for a project: what a run leaves is looked for in all of its folder; put the program into a folder of its own, and run it from there", p.Folder)
	}
	if t.plain != nil { // no sandbox: there is nothing to keep out of it
		return nil //nolint:nilerr // plain is a reason and no failure
	}
	for _, c := range []struct{ path, what string }{
		{getenv("HOME"), "your home folder, with its keys and settings"},
		{data, "Weir's own data"},
	} {
		if around.Holds(p.Folder, c.path) {
			return run.Errorf(run.Invalid, "the folder %s holds %s, which the command could change: put the program into a folder of its own, and run it from there", p.Folder, c.what)
		}
	}
	return nil
}

// policy has no ceilings: who types a command may do all that this user may.
// What is unlimited by default is what a long training needs.
func (t *typed) policy() sandbox.Policy {
	p := sandbox.DefaultPolicy()
	p.Ceilings = sandbox.Ceilings{Backends: p.Ceilings.Backends, Networks: []string{sandbox.NetworkHost}}
	d := &p.Defaults
	d.TimeoutSeconds, d.CPUs, d.DiskMiB, d.PIDs = 0, 0, 0, typedPIDs
	d.MemoryMiB, d.MaxOutputBytes = 0, typedOutput
	if t.gpu == "" { // drivers reserve more addresses than there is memory
		d.MemoryMiB = memoryShare(readMemInfo())
	} else {
		p.Ceilings.GPUs = []string{t.gpu}
	}
	return p
}

// typedOutput is what a progress bar prints in days.
const typedOutput = 512 << 20

// typedPIDs leaves room for the threads of numeric libraries on large machines.
const typedPIDs = 8192

// memoryShare is nine tenths of the machine's memory in MiB, so that a command
// dies of its own hunger before the machine does; 0 when that is not known.
func memoryShare(meminfo string) int64 {
	for line := range strings.Lines(meminfo) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kib / 1024 * 9 / 10
		}
	}
	return 0
}

func readMemInfo() string {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return ""
	}
	return string(text)
}

// slots are the data folders that a run can be kept in: the user's, and beside it
// in it those for when another weir has that.
func slots(data string) []string {
	all := []string{data}
	for n := 2; n <= maxSlots; n++ {
		all = append(all, filepath.Join(data, "run-"+strconv.Itoa(n)))
	}
	return all
}

// maxSlots is how many can run at once on one data folder.
const maxSlots = 64

var errNoSlot = errors.New("the data folder and all its places for further runs are in use; name another one with --data")
