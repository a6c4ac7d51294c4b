//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/disk"
	"github.com/weirhq/weir/runtime/sandbox/local/starter"
)

// Plain runs executions as ordinary processes of the server's user. It is no
// sandbox: construct it only where the operator allows that.
type Plain struct {
	opts    Options
	starter *starter.Starter
	helpers helperFolder
	disks   disk.Meters

	mu     sync.Mutex
	live   map[*plainProcess]struct{}
	closed bool
}

// NewPlain makes the backend. It starts one goroutine, which Close ends.
func NewPlain(o Options) *Plain {
	return &Plain{opts: o, starter: starter.New(), helpers: helperFolder{path: o.Helpers}, live: map[*plainProcess]struct{}{}}
}

// plainReason names each guarantee of a sandbox that a plain process does not have.
const plainReason = "UNSANDBOXED: a plain process with the server's rights. It can read and change the host's files, " +
	"use the host's network, read the environment of other processes and end them, and make user namespaces; " +
	"a daemon that leaves its group and clears its environment is left behind; processes are not counted and processor time is not limited; " +
	"the memory limit holds for each process, so going over it is an ERROR and not OOM; the disk limit holds for the workspace and for each file only" + plainDisk

// Name implements sandbox.Backend.
func (b *Plain) Name() string { return "local" }

// Probe implements sandbox.Backend.
func (b *Plain) Probe(context.Context) sandbox.Status {
	return sandbox.Status{
		Backend: b.Name(), Available: true, Isolation: Unsandboxed,
		Reason: plainReason,
	}
}

// Close kills what still runs and waits for it.
func (b *Plain) Close() error {
	b.mu.Lock()
	b.closed = true
	live := make([]*plainProcess, 0, len(b.live))
	for p := range b.live {
		live = append(live, p)
	}
	b.mu.Unlock()
	for _, p := range live {
		_ = p.cmd.Process.Kill() // what it started is its owner's to end, in Wait
		<-p.exited
	}
	b.starter.Close()
	return b.helpers.remove()
}

// plainEnv lists the server's own variables that a plain process gets.
var plainEnv = [...]string{"PATH", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME"}

func (b *Plain) env(spec sandbox.Spec, helpers string) []run.EnvVar {
	var defaults []run.EnvVar
	for _, name := range plainEnv {
		if v, ok := os.LookupEnv(name); ok {
			defaults = append(defaults, run.EnvVar{Name: name, Value: v})
		}
	}
	home := spec.Workspace
	if spec.Place != nil { // the command as its user would have started it
		home = os.Getenv("HOME")
		defaults = merge(defaults, []run.EnvVar{{Name: "PATH", Value: pathFirst(spec, os.Getenv("PATH"))}})
	}
	return withHelpers(merge(append(defaults,
		run.EnvVar{Name: "HOME", Value: home},
		run.EnvVar{Name: "PYTHONUNBUFFERED", Value: "1"},
		run.EnvVar{Name: "PYTHONDONTWRITEBYTECODE", Value: "1"},
	), spec.Env), spec.Workspace, helpers)
}

// Start implements sandbox.Backend.
func (b *Plain) Start(ctx context.Context, spec sandbox.Spec) (_ sandbox.Process, err error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if info, err := os.Stat(spec.Workspace); err != nil || !info.IsDir() {
		return nil, run.Errorf(run.Internal, "the workspace %s does not exist or is not a folder", spec.Workspace)
	}
	if err := noGPU(spec); err != nil {
		return nil, err
	}
	helpers, err := b.helpers.place()
	if err != nil {
		return nil, err
	}
	meter, err := b.disks.Meter(ctx, spec)
	if err != nil {
		return nil, err
	}
	env := b.env(spec, helpers)
	p := &plainProcess{backend: b, spec: spec, meter: meter, exited: make(chan struct{})}
	command := spec.Command
	if spec.Code != "" {
		if command, err = p.writeCode(b.python()); err != nil {
			return nil, err
		}
	}
	defer func() {
		if err != nil {
			p.cleanUp()
		}
	}()
	if err := checkStrings(env, command); err != nil {
		return nil, err
	}
	if err := lookPath(command[0], spec.Workspace, env); err != nil {
		return nil, err
	}
	p.started = sandbox.Started{Backend: b.Name(), Isolation: Unsandboxed, Command: command}
	if err := p.start(command, env); err != nil {
		return nil, err
	}
	return p, nil
}

func (b *Plain) python() string {
	for _, p := range []string{b.opts.Python, "/usr/bin/python3", "/usr/local/bin/python3"} {
		if p == "" {
			continue
		}
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	p, _ := exec.LookPath("python3")
	return p
}

// lookPath tells whether a program exists, as the command's shell will look for
// it: by its own PATH, and relative to the workspace.
func lookPath(name, workspace string, env []run.EnvVar) error {
	path := ""
	for _, e := range env {
		if e.Name == "PATH" {
			path = e.Value
		}
	}
	dirs := filepath.SplitList(path)
	if strings.ContainsRune(name, '/') {
		dirs = []string{""}
	}
	denied := false
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if !filepath.IsAbs(file) {
			file = filepath.Join(workspace, file)
		}
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		if !info.IsDir() && unix.Access(file, unix.X_OK) == nil {
			return nil
		}
		denied = true
	}
	if denied {
		return run.Errorf(run.Invalid, "command is not an executable file: %s", name)
	}
	return run.Errorf(run.Invalid, "command not found: %s (PATH is %s)", name, path)
}

// plainProcess is one execution and the session of processes that it leads.
type plainProcess struct {
	backend        *Plain
	spec           sandbox.Spec
	started        sandbox.Started
	meter          *disk.Meter
	code           string // path of the Python file, relative to the workspace
	stdout, stderr *os.File
	cmd            *exec.Cmd
	exited         chan struct{} // the command has ended
	goneAt         time.Time     // valid once exited is closed
	free           sync.Once
	over           atomic.Bool // Wait has ended what was left
}

// writeCode puts Python code into the workspace's .weir folder.
func (p *plainProcess) writeCode(python string) ([]string, error) {
	if python == "" {
		return nil, run.Errorf(run.Unavailable, "no python3 for Python code was found; install it, or run a command instead")
	}
	root, err := os.OpenRoot(p.spec.Workspace)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	defer root.Close() //nolint:errcheck // opened for reading
	if err := root.Mkdir(".weir", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("making the folder for code: %w", err)
	}
	name := filepath.Join(".weir", string(p.spec.Execution)+".py")
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("writing the code: %w", err)
	}
	_, err = f.WriteString(p.spec.Code)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("writing the code: %w", err)
	}
	p.code = name
	return []string{python, name}, nil
}

func (p *plainProcess) start(command []string, env []run.EnvVar) error {
	outR, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer outW.Close() //nolint:errcheck // the child has its own
	p.stdout = outR
	errR, errW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	defer errW.Close() //nolint:errcheck // the child has its own
	p.stderr = errR
	plain, odd := oddEnv(env)
	script := ulimits(p.spec.Limits, true, false) + execute(odd) + `"$@"`
	p.cmd = &exec.Cmd{
		Path: "/bin/sh", Args: append([]string{"sh", "-c", script, "weir"}, command...),
		Dir: p.spec.Workspace, Stdout: outW, Stderr: errW, SysProcAttr: plainAttr(),
	}
	for _, e := range plain {
		p.cmd.Env = append(p.cmd.Env, e.Name+"="+e.Value)
	}
	p.cmd.Env = append(p.cmd.Env, labels(p.spec.Execution, p.spec.Run, p.spec.Replica)...)
	b := p.backend
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return run.Errorf(run.Unavailable, "%w", starter.ErrClosed)
	}
	if err := b.starter.Start(p.cmd); err != nil {
		return run.Errorf(run.Invalid, "the command %s cannot be executed: %w", command[0], err)
	}
	b.live[p] = struct{}{}
	go func() { // ends with the process; Wait waits for it
		awaitExit(p.cmd)
		p.goneAt = time.Now()
		close(p.exited)
	}()
	return nil
}

// Started implements sandbox.Process.
func (p *plainProcess) Started() sandbox.Started { return p.started }

// Stdout implements sandbox.Process.
func (p *plainProcess) Stdout() io.Reader { return p.stdout }

// Stderr implements sandbox.Process.
func (p *plainProcess) Stderr() io.Reader { return p.stderr }

// Exited implements sandbox.Process.
func (p *plainProcess) Exited() <-chan struct{} { return p.exited }

// Stop sends TERM to the command's process group.
func (p *plainProcess) Stop() error {
	err := p.signal(unix.SIGTERM)
	p.meter.Release()
	return err
}

// Kill kills the command's process group, and what carries its label.
func (p *plainProcess) Kill() error {
	err := p.signal(unix.SIGKILL)
	killTree(p.cmd.Process.Pid, string(p.spec.Execution), time.Second)
	return err
}

// signal reaches the whole group. Its number stays taken until Wait has reaped
// the command (where the system can wait without reaping).
func (p *plainProcess) signal(sig syscall.Signal) error {
	if err := unix.Kill(-p.cmd.Process.Pid, sig); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("sending %s: %w", unix.SignalName(sig), err)
	}
	return nil
}

// Wait implements sandbox.Process.
func (p *plainProcess) Wait() (sandbox.Exit, error) {
	_ = p.signal(unix.SIGKILL)
	var e sandbox.Exit
	e.Survivors = killTree(p.cmd.Process.Pid, string(p.spec.Execution), goneWait)
	select {
	case <-p.exited:
		reapExited(p.cmd)
		e.ProcessGoneAt = p.goneAt
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
			setExit(&e, status)
		}
	case <-time.After(goneWait):
		e.Survivors = append(e.Survivors, p.cmd.Process.Pid)
	}
	p.over.Store(true)
	p.cleanUp()
	if len(e.Survivors) == 0 {
		e.SandboxGoneAt = time.Now()
	}
	return e, nil
}

func setExit(e *sandbox.Exit, status syscall.WaitStatus) {
	if status.Signaled() {
		e.Signal = unix.SignalName(status.Signal())
		return
	}
	code := status.ExitStatus()
	e.Code = &code
}

func (p *plainProcess) cleanUp() {
	p.free.Do(func() {
		for _, f := range []*os.File{p.stdout, p.stderr} {
			if f != nil {
				_ = f.Close()
			}
		}
		if p.code != "" {
			if root, err := os.OpenRoot(p.spec.Workspace); err == nil {
				_ = root.Remove(p.code)
				_ = root.Remove(".weir") // refused while another execution has its code there
				_ = root.Close()
			}
		}
		p.backend.mu.Lock()
		delete(p.backend.live, p)
		p.backend.mu.Unlock()
	})
}
