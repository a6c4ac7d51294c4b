package local

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/cgroup"
	"github.com/weirhq/weir/runtime/sandbox/local/disk"
	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

const (
	// startWait bounds the creation of a sandbox, which takes milliseconds.
	startWait = 20 * time.Second
	// goneWait bounds how long a killed tree may take to disappear.
	goneWait = 5 * time.Second
	// reapWait bounds how long bubblewrap may take to follow its namespace.
	reapWait = 2 * time.Second
)

// bwrapProcess is one execution. Its processes are bubblewrap itself (a child
// of the server), the first process of the namespace, and below that the command.
type bwrapProcess struct {
	backend *Bubblewrap
	spec    sandbox.Spec
	started sandbox.Started
	user    int // id of its user and group, outside
	meter   *disk.Meter
	judge   func() error // waits for meter, and refuses a workspace that is too large

	stdout, stderr, status, verdict, release *os.File
	cmd                                      *exec.Cmd
	first, command                           *proc.Handle
	child                                    int    // process id of first
	namespace                                uint64 // inode of its process namespace
	group                                    *cgroup.Group
	stub                                     *os.File // the small program, if that becomes the command and not the shell

	exited chan struct{} // bubblewrap has ended and was reaped
	goneAt time.Time     // valid once exited is closed
	free   sync.Once
}

// watch takes over a started bubblewrap.
func (p *bwrapProcess) watch(cmd *exec.Cmd) {
	p.cmd = cmd
	go func() { // ends with the process; Wait and abandon wait for it
		_ = cmd.Wait() // how it ended stands in its state
		p.goneAt = time.Now()
		close(p.exited)
	}()
}

// handshake waits for the command's process, sets its limits and lets it go.
func (p *bwrapProcess) handshake(ctx context.Context) error {
	if err := p.allow(startWait); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() {
		for _, f := range []*os.File{p.status, p.verdict, p.release} {
			_ = f.SetDeadline(time.Unix(1, 0))
		}
	})
	defer stop()
	// All this is beside bubblewrap's own work. The server's thread must have left
	// the group first: it would count as a process.
	p.group.Left()
	if err := p.backend.cgroups.Limit(p.group, p.spec.Limits); err != nil {
		return err
	}
	var info struct {
		Child     int    `json:"child-pid"`
		Namespace uint64 `json:"pid-namespace"`
	}
	line, err := bufio.NewReader(p.status).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &info)
	}
	if err == nil && info.Child <= 0 {
		err = errors.New("it reported no process")
	}
	if err != nil {
		return p.explain(ctx, err)
	}
	p.child, p.namespace = info.Child, info.Namespace
	if p.first, err = proc.Open(info.Child); err != nil {
		return p.explain(ctx, err)
	}
	verdicts := bufio.NewReader(p.verdict)
	if word, err := verdicts.ReadByte(); err != nil || word != 'r' {
		return p.explain(ctx, err)
	}
	pid, err := onlyChild(info.Child)
	if err != nil {
		return p.explain(ctx, err)
	}
	if p.command, err = proc.Open(pid); err != nil {
		return p.explain(ctx, err)
	}
	if err := p.judge(); err != nil {
		return err
	}
	// Measuring may have taken long.
	if err := cmp.Or(p.allow(startWait), ctx.Err()); err != nil {
		return p.explain(ctx, err)
	}
	if _, err := p.release.Write(p.goAhead()); err != nil {
		return p.explain(ctx, err)
	}
	// The end of the channel is the moment of the exec.
	errno, err := verdicts.ReadByte()
	if ctx.Err() != nil {
		return p.explain(ctx, ctx.Err())
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return p.explain(ctx, err)
	}
	return p.refused(syscall.Errno(errno))
}

// allow bounds what is still to be read and written of the handshake.
func (p *bwrapProcess) allow(d time.Duration) error {
	until := time.Now().Add(d)
	for _, f := range []*os.File{p.status, p.verdict, p.release} {
		if err := f.SetDeadline(until); err != nil {
			return fmt.Errorf("preparing the handshake: %w", err)
		}
	}
	return nil
}

// goAhead is what lets a waiting command go: to the small program the limits
// of each process, which the shell has in its script.
func (p *bwrapProcess) goAhead() []byte {
	if p.stub == nil {
		return []byte("\n")
	}
	have := p.backend.cgroups
	return rlimits(p.spec.Limits, !have.Has("memory"), !have.Has("pids"))
}

// refused says why the command could not be executed.
func (p *bwrapProcess) refused(why syscall.Errno) error {
	switch {
	case why == noLimit:
		return run.Errorf(run.Unavailable, "the resource limits of the command could not be set")
	case len(p.spec.Command) == 0:
		return run.Errorf(run.Unavailable, "python3 cannot be executed inside of the sandbox (%s: %w)", p.backend.host.python, why)
	case why == unix.ENOENT || why == unix.ENOTDIR:
		return run.Errorf(run.Invalid, "command not found: %s (inside of the sandbox, PATH is %s)", p.spec.Command[0], pathOf(sandboxEnv(p.spec)))
	case why == unix.EACCES:
		return run.Errorf(run.Invalid, "command is not an executable file: %s", p.spec.Command[0])
	}
	return run.Errorf(run.Invalid, "command cannot be executed: %s: %w", p.spec.Command[0], why)
}

// onlyChild gives the command's process, the one child of the namespace's first.
func onlyChild(pid int) (int, error) {
	found, err := proc.Children(pid)
	if err != nil {
		return 0, fmt.Errorf("looking for the command's process: %w", err)
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("looking for the command's process: found %d", len(found))
	}
	return found[0], nil
}

// explain says why a start failed, as far as bubblewrap's own words tell.
func (p *bwrapProcess) explain(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("starting bubblewrap: %w", context.Cause(ctx))
	}
	if errors.Is(cause, os.ErrDeadlineExceeded) {
		return run.Errorf(run.Unavailable, "the sandbox was not ready within %s: the machine may be overloaded", startWait)
	}
	_ = p.Kill() // so that its words end
	_ = p.stderr.SetReadDeadline(time.Now().Add(time.Second))
	words, _ := io.ReadAll(io.LimitReader(p.stderr, 4<<10))
	if text := strings.TrimSpace(string(words)); text != "" {
		return run.Errorf(run.Unavailable, "the sandbox could not be made: %w", p.backend.diagnose(text, p.spec.Workspace))
	}
	if cause == nil {
		cause = errors.New("it broke off")
	}
	return fmt.Errorf("making the sandbox: %w", cause)
}

// Started implements sandbox.Process.
func (p *bwrapProcess) Started() sandbox.Started { return p.started }

// Stdout implements sandbox.Process.
func (p *bwrapProcess) Stdout() io.Reader { return p.stdout }

// Stderr implements sandbox.Process.
func (p *bwrapProcess) Stderr() io.Reader { return p.stderr }

// Exited implements sandbox.Process.
func (p *bwrapProcess) Exited() <-chan struct{} { return p.exited }

// DiskUse implements sandbox.DiskMeter.
func (p *bwrapProcess) DiskUse(ctx context.Context, limit int64) (int64, error) {
	h := &disk.Hold{Members: p.members, Member: func(pid int) bool { return proc.IsIn(pid, p.namespace) }}
	if p.spec.Network != sandbox.NetworkHost {
		h.Network = "/proc/" + strconv.Itoa(p.child) + "/net"
	}
	return p.meter.Use(ctx, limit, p.namesInMemory()*disk.EntryBytes, h)
}

// namesInMemory counts the files in /tmp and /dev/shm where no memory limit
// does: their sizes are bounded, their number would be so by half the machine's
// memory only.
func (p *bwrapProcess) namesInMemory() int64 {
	if p.backend.cgroups.Has("memory") {
		return 0
	}
	var n int64
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		var fs unix.Statfs_t
		// Neither can be replaced: what is around them is read-only.
		if unix.Statfs("/proc/"+strconv.Itoa(p.child)+"/root"+dir, &fs) == nil && fs.Files > fs.Ffree {
			n += int64(fs.Files - fs.Ffree)
		}
	}
	return n
}

// members gives the processes inside.
func (p *bwrapProcess) members() []int {
	select {
	case <-p.exited:
		return nil // its namespace has ended before it
	default:
	}
	if pids, ok := p.group.Members(); ok {
		return pids
	}
	return proc.InNamespace(p.namespace)
}

// Stop sends TERM to the command. bubblewrap itself would answer a TERM by
// killing everything at once.
func (p *bwrapProcess) Stop() error {
	err := p.command.Signal(unix.SIGTERM)
	p.meter.Release()
	_ = p.first.Signal(unix.SIGCONT)
	p.resume()
	return err
}

// Kill kills the first process of the namespace; the kernel kills the others with it.
func (p *bwrapProcess) Kill() error {
	if p.first != nil {
		err := p.first.Signal(unix.SIGKILL)
		p.resume()
		return err
	}
	if p.cmd == nil {
		return nil
	}
	if err := p.end(); err != nil {
		return fmt.Errorf("killing bubblewrap: %w", err)
	}
	return nil
}

// resume lets a bubblewrap go on that somebody has stopped: it could not
// report the end of its namespace.
func (p *bwrapProcess) resume() { _ = p.cmd.Process.Signal(unix.SIGCONT) } // it has ended: then nothing is to be done

// Wait implements sandbox.Process.
func (p *bwrapProcess) Wait() (sandbox.Exit, error) {
	// Whatever bubblewrap's own end was: it may have come before the namespace
	// was tied to it.
	_ = p.Kill()
	var e sandbox.Exit
	if !p.first.Gone(goneWait) { // it ends last of all
		e.Survivors = proc.InNamespace(p.namespace)
	}
	if !p.ended(reapWait) {
		_ = p.cmd.Process.Kill()
		p.ended(reapWait)
	}
	select {
	case <-p.exited:
		e.ProcessGoneAt = p.goneAt
		p.fill(&e)
	default:
		e.Survivors = append(e.Survivors, p.cmd.Process.Pid)
	}
	e.OOMKilled = p.group.OOMKills() > 0
	p.cleanUp()
	if len(e.Survivors) == 0 {
		e.SandboxGoneAt = time.Now()
	}
	return e, nil
}

// ended waits until bubblewrap has ended, for at most d, and tells whether it has.
func (p *bwrapProcess) ended(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	case <-time.After(d):
		return false
	}
}

// fill tells how the command ended. A kernel that tells the true wait status
// is believed; else bubblewrap's exit code, in which a signal shows as 128+n.
func (p *bwrapProcess) fill(e *sandbox.Exit) {
	if status, ok := p.command.Status(); ok {
		setExit(e, status)
		return
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return
	}
	if code := status.ExitStatus(); code > 128 && unix.SignalName(syscall.Signal(code-128)) != "" {
		e.Signal = unix.SignalName(syscall.Signal(code - 128))
		return
	}
	setExit(e, status)
}

func (p *bwrapProcess) cleanUp() {
	p.free.Do(func() {
		for _, f := range []*os.File{p.stdout, p.stderr, p.status, p.verdict, p.release} {
			if f != nil {
				_ = f.Close()
			}
		}
		p.first.Close()
		p.command.Close()
		p.backend.leave(p)
	})
}
