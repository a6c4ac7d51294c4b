package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
	"github.com/weirhq/weir/runtime/sandbox/local/cgroup"
	"github.com/weirhq/weir/runtime/sandbox/local/disk"
	"github.com/weirhq/weir/runtime/sandbox/local/starter"
)

// Bubblewrap runs executions in bubblewrap sandboxes.
type Bubblewrap struct {
	opts    Options
	users   users
	starter *starter.Starter
	cgroups *cgroup.Groups
	host    hostFiles
	disks   disk.Meters
	machine machine
	stub    atomic.Pointer[os.File] // becomes the command; nil: the shell does

	mu     sync.Mutex
	status *sandbox.Status // what the probe found; nil before
	live   map[*bwrapProcess]struct{}
	closed bool

	removals sync.WaitGroup // of control groups
}

// NewBubblewrap makes the backend. It starts one goroutine, which Close ends.
func NewBubblewrap(o Options) *Bubblewrap {
	b := &Bubblewrap{opts: o, users: findUsers(o.UID, "/proc/self/uid_map", "/proc/self/gid_map"), cgroups: cgroup.Find(os.Geteuid()), live: map[*bwrapProcess]struct{}{}}
	if b.opts.Bwrap == "" {
		b.opts.Bwrap, _ = exec.LookPath("bwrap") // the probe says when it is missing
	}
	b.host = findHostFiles(o.Python)
	b.machine = newMachine(os.DirFS("/"), b.users.root)
	b.stub.Store(stubFile())
	b.starter = starter.New()
	return b
}

// Name implements sandbox.Backend.
func (b *Bubblewrap) Name() string { return "local" }

// Close kills what still runs and waits for it.
func (b *Bubblewrap) Close() error {
	b.mu.Lock()
	b.closed = true
	live := make([]*bwrapProcess, 0, len(b.live))
	for p := range b.live {
		live = append(live, p)
	}
	b.mu.Unlock()
	var err error
	for _, p := range live {
		err = errors.Join(err, p.end())
	}
	b.starter.Close()
	b.removals.Wait()
	if stub := b.stub.Swap(nil); stub != nil {
		err = errors.Join(err, stub.Close())
	}
	return err
}

// Start implements sandbox.Backend.
func (b *Bubblewrap) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Process, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	closed, status := b.closed, b.status
	b.mu.Unlock()
	switch {
	case closed:
		return nil, run.Errorf(run.Unavailable, "%w", starter.ErrClosed)
	case status != nil && !status.Available:
		return nil, run.Errorf(run.Unavailable, "the local sandbox is not available: %s", status.Reason)
	case b.opts.Bwrap == "":
		return nil, run.Errorf(run.Unavailable, "the local sandbox is not available: %w", b.machine.noBwrap())
	}
	return b.start(ctx, spec)
}

func (b *Bubblewrap) start(ctx context.Context, spec sandbox.Spec) (_ sandbox.Process, err error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("starting bubblewrap: %w", context.Cause(ctx))
	}
	if err := noGPU(spec); err != nil {
		return nil, err
	}
	command, err := b.host.command(spec)
	if err != nil {
		return nil, err
	}
	user, err := b.own(ctx, spec)
	if err != nil {
		return nil, err
	}
	p := &bwrapProcess{backend: b, spec: spec, user: user, exited: make(chan struct{}), started: sandbox.Started{Backend: b.Name(), Command: shown(spec, command)}}
	defer func() {
		if err != nil {
			err = p.abandon(err)
		}
	}()
	// The workspace is measured while bubblewrap works, and judged before the
	// command is let go; the groups take as long as the files.
	var measuring sync.WaitGroup
	var measured error
	measuring.Go(func() { p.meter, measured = b.disks.Meter(ctx, spec) })
	defer measuring.Wait()
	p.judge = func() error { measuring.Wait(); return measured }
	var beside sync.WaitGroup
	var besideErr error
	beside.Go(func() { p.group, besideErr = b.cgroups.Make(spec.Replica, spec.Execution) })
	files, err := p.open(command)
	beside.Wait()
	defer files.close()
	if err = cmp.Or(besideErr, err); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.opts.Bwrap, files.argv...) //nolint:noctx // a context would kill without grace
	cmd.Env = append([]string{"PATH=" + sandboxPath, "LANG=C.UTF-8"}, labels(spec.Execution, spec.Run, spec.Replica)...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = files.stdout, files.stderr
	cmd.ExtraFiles = files.extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if b.users.root {
		group := cmp.Or(b.opts.GID, user)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(group), Groups: []uint32{}}
	}
	if err := b.launch(p, cmd); err != nil {
		return nil, err
	}
	files.close() // the child has its own; ours would keep the pipes open
	if err := p.handshake(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// launch starts cmd as a live process, which Close finds.
func (b *Bubblewrap) launch(p *bwrapProcess, cmd *exec.Cmd) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return run.Errorf(run.Unavailable, "%w", starter.ErrClosed)
	}
	if err := b.starter.StartIn(cmd, p.group); err != nil {
		return fmt.Errorf("starting bubblewrap: %w", err)
	}
	p.watch(cmd)
	b.live[p] = struct{}{}
	return nil
}

// leave forgets a process that has ended, and removes its control group. That
// is empty and holds nothing: nobody waits for it but Close.
func (b *Bubblewrap) leave(p *bwrapProcess) {
	remove := func() {
		if !p.group.Remove() {
			b.opts.log().Warn("A control group could not be removed", "execution", p.spec.Execution)
		}
	}
	b.mu.Lock()
	delete(b.live, p)
	closed := b.closed
	if !closed {
		b.removals.Go(remove)
	}
	b.mu.Unlock()
	if closed {
		remove()
	}
}

// own gives a workspace to its sandboxes' user, and says who that is: files that
// the server has put there belong to root and could not be changed. It happens
// once, when the folder changes hands. A folder of the user's own never does.
func (b *Bubblewrap) own(ctx context.Context, spec sandbox.Spec) (user int, err error) {
	workspace := spec.Workspace
	info, err := os.Lstat(workspace)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, run.Errorf(run.Internal, "the workspace %s does not exist", workspace)
	case err != nil:
		return 0, fmt.Errorf("looking at the workspace: %w", err)
	case !info.IsDir():
		return 0, run.Errorf(run.Internal, "the workspace %s is not a folder", workspace)
	}
	user = b.users.of(workspace, info)
	st, ok := info.Sys().(*syscall.Stat_t)
	if !b.users.root || !ok || spec.Place != nil || int(st.Uid) == user {
		return user, nil
	}
	if err := chownTree(ctx, workspace, user); err != nil {
		return 0, fmt.Errorf("giving the workspace to user id %d: %w", user, err)
	}
	return user, nil
}
