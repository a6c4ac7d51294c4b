package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

const noBwrap = "bubblewrap (bwrap) is not installed: install the package bubblewrap"

// Probe implements sandbox.Backend: it makes a real sandbox and runs true in it.
func (b *Bubblewrap) Probe(ctx context.Context) sandbox.Status {
	s := sandbox.Status{Backend: b.Name()}
	if err := b.probe(ctx); err != nil {
		s.Reason = err.Error()
	} else {
		s.Available = true
		s.Reason = b.caveat()
	}
	b.mu.Lock()
	b.status = &s
	b.mu.Unlock()
	return s
}

func (b *Bubblewrap) probe(ctx context.Context) error {
	if b.opts.Bwrap == "" {
		return run.Errorf(run.Unavailable, noBwrap)
	}
	if b.root && b.uid == 0 {
		return run.Errorf(run.Unavailable, "a server that runs as root needs another user id for its sandboxes")
	}
	out, err := exec.CommandContext(ctx, b.opts.Bwrap, "--version").Output()
	if err != nil {
		return run.Errorf(run.Unavailable, "%s --version failed: %w", b.opts.Bwrap, err)
	}
	if v := strings.TrimSpace(string(out)); !atLeast(v, 0, 8) {
		return run.Errorf(run.Unavailable, "%s is too old: 0.8 or newer is needed (--disable-userns)", v)
	}
	dir, err := os.MkdirTemp("", "weir-probe-")
	if err != nil {
		return fmt.Errorf("making a folder for the probe: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a folder without files
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
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

// caveat says what an available sandbox does not do here.
func (b *Bubblewrap) caveat() string {
	var all []string
	if !b.cgroups.has("memory") {
		all = append(all, "the memory limit holds for each process, not for all together, and not for memory that processes share (no memory control group)")
	}
	if !b.cgroups.has("pids") {
		all = append(all, "the process limit is a resource limit of the user (no pids control group)")
	}
	if !b.cgroups.has("cpu") {
		all = append(all, "the cpu limit is not enforced (no cpu control group)")
	}
	all = append(all, "the disk limit is exact for each file; the whole workspace can grow over it by what is written in a quarter of a second (5 s when it holds very many files) before everything is killed")
	if auditArch == 0 {
		all = append(all, "no system call filter for this processor")
	}
	if b.host.python == "" {
		all = append(all, "no python3 was found: only commands can run")
	}
	return strings.Join(all, "; ")
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

// remedy adds to bubblewrap's words what helps.
func remedy(words, workspace string, b *Bubblewrap) string {
	help := ""
	switch {
	case strings.Contains(words, "setting up uid map: Permission denied"), strings.Contains(words, "Failed RTM_NEWADDR"):
		help = "the system's AppArmor forbids user namespaces: load the profile /usr/share/apparmor/extra-profiles/bwrap-userns-restrict " +
			"(Ubuntu 24.04: package apparmor-profiles), or one with the rule userns for " + b.opts.Bwrap +
			"; the blunt way is sysctl kernel.apparmor_restrict_unprivileged_userns=0"
	case strings.Contains(words, "No permissions to create new namespace"), strings.Contains(words, "Creating new namespace failed: Operation not permitted"):
		help = "this container or kernel forbids user namespaces: use the docker or modal backend here, or allow them (sysctl kernel.unprivileged_userns_clone=1)"
	case strings.Contains(words, "Can't mount proc on"):
		help = "the container masks /proc: use the docker or modal backend here"
	case strings.Contains(words, "nesting depth or"), strings.Contains(words, "No space left on device"):
		help = "this is inside of another sandbox that forbids user namespaces, or sysctl user.max_user_namespaces is too small"
	case strings.Contains(words, "Unknown option"):
		help = "bubblewrap is too old: 0.8 or newer is needed"
	case strings.Contains(words, "Can't find source path "+workspace):
		help = fmt.Sprintf("user id %d cannot reach the workspace: the folders above it need the mode 0711 (chmod a+x)", b.uid)
	}
	words = strings.TrimPrefix(words, "bwrap: ")
	if help == "" {
		return words
	}
	return words + " - " + help
}
