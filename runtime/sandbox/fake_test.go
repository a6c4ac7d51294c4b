package sandbox_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// scripted is a backend whose one process does what the test says.
type scripted struct {
	startErr error
	p        *process
	of       sandbox.Process // instead of p
	spec     sandbox.Spec
}

func (b *scripted) Name() string                                { return "scripted" }
func (b *scripted) Probe(context.Context) sandbox.Status        { return sandbox.Status{} }
func (b *scripted) Reap(context.Context, string) ([]int, error) { return nil, nil }
func (b *scripted) Start(ctx context.Context, s sandbox.Spec) (sandbox.Process, error) {
	b.spec = s
	if b.startErr != nil {
		return nil, b.startErr
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if b.of != nil {
		return b.of, nil
	}
	return b.p, nil
}

// process is in-memory: pipes and a moment of death.
type process struct {
	out, errs    io.Reader
	outW, errsW  *io.PipeWriter
	exited       chan struct{}
	once         sync.Once
	exit         sandbox.Exit
	waitErr      error
	mu           sync.Mutex
	signals      []string
	onStop       func()
	onKill       func()
	waited       int
	holdsThePipe bool
}

func newProcess() *process {
	p := &process{exited: make(chan struct{})}
	p.out, p.outW = io.Pipe()
	p.errs, p.errsW = io.Pipe()
	p.onKill = func() { p.end(-1, "SIGKILL") }
	return p
}

// end is the death of the command.
func (p *process) end(code int, signal string) {
	p.once.Do(func() {
		if signal == "" {
			p.exit.Code = &code
		}
		p.exit.Signal = signal
		p.exit.ProcessGoneAt = time.Now()
		close(p.exited)
		if !p.holdsThePipe {
			p.closePipes()
		}
	})
}

func (p *process) closePipes() {
	_ = p.outW.Close()
	_ = p.errsW.Close()
}

func (p *process) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signals = append(p.signals, s)
}

func (p *process) got() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.signals, " ")
}

func (p *process) Started() sandbox.Started {
	return sandbox.Started{Backend: "scripted", Command: []string{"it"}}
}
func (p *process) Stdout() io.Reader       { return p.out }
func (p *process) Stderr() io.Reader       { return p.errs }
func (p *process) Exited() <-chan struct{} { return p.exited }
func (p *process) Stop() error {
	p.note("TERM")
	if p.onStop != nil {
		p.onStop()
	}
	return nil
}

func (p *process) Kill() error {
	p.note("KILL")
	if p.onKill != nil {
		p.onKill()
	}
	return nil
}

func (p *process) Wait() (sandbox.Exit, error) {
	p.waited++
	p.exit.SandboxGoneAt = time.Now()
	return p.exit, p.waitErr
}

// sink keeps the output; block and fail steer it.
type sink struct {
	mu     sync.Mutex
	text   strings.Builder
	points int
	write  func(ctx context.Context, c sandbox.Chunk) error
}

func (s *sink) Write(ctx context.Context, c sandbox.Chunk) error {
	s.mu.Lock()
	s.text.WriteString(c.Text)
	for _, r := range c.Records {
		s.points += len(r.Points)
	}
	s.mu.Unlock()
	if s.write != nil {
		return s.write(ctx, c)
	}
	return nil
}

func aSpec() sandbox.Spec {
	return sandbox.Spec{
		Execution: run.NewExecutionID(), Stage: "train", Workspace: "/w", Command: []string{"it"},
		Limits: sandbox.Limits{Timeout: time.Minute, Grace: 5 * time.Second, MaxOutputBytes: 1 << 20},
	}
}
