package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/seccomp"
)

// Probe implements sandbox.Backend: it makes a real sandbox, where the
// workspaces will lie, and runs true in it.
func (b *Bubblewrap) Probe(ctx context.Context) sandbox.Status {
	s := sandbox.Status{Backend: b.Name()}
	version, err := b.probe(ctx)
	if err != nil {
		s.Reason = err.Error()
		if !errors.As(err, &s.Problem) {
			s.Problem = &sandbox.Problem{What: s.Reason, Meaning: noSandbox}
		}
	} else {
		s.Available = true
		s.Limits, s.Caveats = b.limits()
		words := make([]string, len(s.Caveats))
		for i, c := range s.Caveats {
			words[i] = c.What
		}
		s.Reason = strings.Join(words, "; ")
	}
	if b.opts.Bwrap != "" {
		s.Detail = fmt.Sprintf("%s at %s, as %s", version, b.opts.Bwrap, b.users)
	}
	b.mu.Lock()
	b.status = &s
	b.mu.Unlock()
	return s
}

func (b *Bubblewrap) probe(ctx context.Context) (version string, err error) {
	if b.opts.Bwrap == "" {
		return "", b.machine.noBwrap()
	}
	version = "bubblewrap"
	out, err := exec.CommandContext(ctx, b.opts.Bwrap, "--version").Output()
	if err != nil {
		return version, &sandbox.Problem{
			What:    fmt.Sprintf("%s cannot be executed (--version: %v)", b.opts.Bwrap, err),
			Meaning: noSandbox, Remedy: b.machine.install("bubblewrap"),
		}
	}
	version = strings.TrimSpace(string(out))
	if !atLeast(version, 0, 8) {
		return version, b.machine.tooOld(version)
	}
	dir, err := os.MkdirTemp(b.opts.Place, "weir-probe-")
	if err != nil {
		return version, fmt.Errorf("making a folder for the probe: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder without files
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err = b.try(ctx, dir); err == nil || b.stub.Load() == nil {
		return version, err
	}
	// The small program may be what this machine does not take.
	small := b.stub.Swap(nil)
	if again := b.try(ctx, dir); again != nil {
		b.stub.Store(small)
		return version, err
	}
	b.opts.log().Info("Sandboxes start through the shell, which takes longer", "reason", err)
	return version, small.Close()
}

// try makes one sandbox.
func (b *Bubblewrap) try(ctx context.Context, dir string) error {
	p, err := b.start(ctx, sandbox.Spec{
		Execution: run.NewExecutionID(), Command: []string{"true"}, Workspace: dir,
		Limits: sandbox.Limits{MemoryMiB: 64, PIDs: 16, CPUs: 1, DiskMiB: 16},
	})
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
	}
	exit, err := p.Wait()
	if err != nil {
		return fmt.Errorf("waiting for the probe: %w", err)
	}
	if exit.Code == nil || *exit.Code != 0 {
		return run.Errorf(run.Unavailable, "the program true failed inside of the sandbox")
	}
	return nil
}

// limits tells which limits hold here and how, and what does not.
func (b *Bubblewrap) limits() (all []sandbox.Limit, caveats []sandbox.Problem) {
	groups := b.cgroups.Label()
	remedy := "run weir as root, or with a control group of its own: systemd-run --user --scope -p Delegate=yes weir serve"
	switch {
	case b.machine.container:
		remedy = "start the container, as root, with the control groups: docker run -v /sys/fs/cgroup:/sys/fs/cgroup"
	case b.users.root:
		remedy = "mount the control groups: a system with systemd does at its start"
	}
	for _, l := range []struct{ name, controller, soft, weak string }{
		{"memory", "memory", "a resource limit of each process", "the memory limit holds for each process, not for all together, and not for memory that processes share (no memory control group)"},
		{"processes", "pids", "a resource limit of the user", "the process limit is a resource limit of the user (no pids control group)"},
		{"cpu", "cpu", "not enforced", "the cpu limit is not enforced (no cpu control group)"},
	} {
		if b.cgroups.Has(l.controller) {
			all = append(all, sandbox.Limit{Name: l.name, Hard: true, How: groups})
			continue
		}
		all = append(all, sandbox.Limit{Name: l.name, How: l.soft})
		caveats = append(caveats, sandbox.Problem{What: l.weak, Meaning: "one command can slow or starve the others", Remedy: remedy})
	}
	all = append(all, sandbox.Limit{Name: "disk", How: "of the workspace, measured again and again; of each file of it, and of /tmp"})
	caveats = append(caveats, sandbox.Problem{What: "the disk limit is exact for each file; the whole workspace can grow over it by what is written in a quarter of a second (5 s when it holds very many files) before everything is killed"})
	if b.users.shared() && b.opts.UID == 0 {
		caveats = append(caveats, sandbox.Problem{
			What:    fmt.Sprintf("all sandboxes have the one user id %d: this server may not take others (its user namespace has none above %d)", b.users.all, firstUID),
			Meaning: "one command can use up what the kernel counts by user, such as inotify instances, for all", Remedy: "run weir outside of a container that maps user ids",
		})
	}
	if !seccomp.Known {
		caveats = append(caveats, sandbox.Problem{What: "no system call filter for this processor", Meaning: "commands can use all system calls that their namespaces allow"})
	}
	if b.host.python == "" {
		caveats = append(caveats, *b.machine.noPython())
	}
	return all, caveats
}

// ClosedAbove finds what the probe would find about a data folder, before the
// folder is made: one above it through which a root server's sandboxes do not get.
// Nil: there is none.
func ClosedAbove(data string) *sandbox.Problem {
	b := &Bubblewrap{opts: Options{Place: data}, users: findUsers(0, "/proc/self/uid_map", "/proc/self/gid_map")}
	if !b.users.root {
		return nil
	}
	for dir := filepath.Dir(data); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && !b.users.passes(info) {
			return b.unreachable(filepath.Join(data, "workspace"))
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// unreachable says why the sandbox's user does not get to a workspace: which
// folders above it are closed to others.
func (b *Bubblewrap) unreachable(workspace string) *sandbox.Problem {
	what, place := "the workspace "+workspace, filepath.Dir(workspace)
	if place == b.opts.Place {
		what = "the data folder " + place
	}
	p := &sandbox.Problem{
		What:      fmt.Sprintf("%s cannot reach %s", b.users.anyone(), what),
		Meaning:   "a server that runs as root starts commands as another user, who must be able to pass through the folders above, as the mode 0711 lets",
		Misplaced: true,
	}
	var closed []string // from the root down
	for dir := place; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && !b.users.passes(info) {
			closed = append([]string{dir}, closed...)
			p.What = fmt.Sprintf("%s cannot reach %s: %s has the mode %04o", b.users.anyone(), what, dir, info.Mode().Perm())
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	switch {
	case len(closed) == 0:
	case closed[0] == "/root": // is closed for good reasons
		p.Remedy = "weir serve --data /var/lib/weir"
	default:
		p.Remedy = "chmod a+x " + strings.Join(closed, " ")
	}
	return p
}

// atLeast compares the words of bwrap --version ("bubblewrap 0.8.0").
func atLeast(version string, major, minor int) bool {
	f := strings.Fields(version)
	if len(f) == 0 {
		return false
	}
	n := strings.Split(f[len(f)-1], ".")
	if len(n) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(n[0])
	b, err2 := strconv.Atoi(n[1])
	return err1 == nil && err2 == nil && (a > major || (a == major && b >= minor))
}
