//go:build linux

package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// startLimit bounds what Weir adds to a start, as a part of the run time of
// python3 -c 1.
const startLimit = 0.15

var benchCommand = []string{"/usr/bin/python3", "-c", "1"}

// BenchmarkStart compares three ways to run python3 -c 1, taken in turn: as it
// is, in bubblewrap with the arguments that Weir gives it, and by Weir. What
// Weir adds to bubblewrap must be small beside python's own start.
func BenchmarkStart(b *testing.B) {
	back := NewBubblewrap(Options{})
	b.Cleanup(func() { _ = back.Close() })
	if s := back.Probe(b.Context()); !s.Available {
		b.Fatal(s.Reason)
	}
	spec := benchSpec(b)
	user, err := back.own(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	rounds := 300
	if os.Getenv("WEIR_BENCH_QUICK") != "" {
		rounds = 50
	}
	var plain, bare, weir []time.Duration
	for i := range rounds {
		plain = append(plain, took(b, func() error { return exec.CommandContext(b.Context(), benchCommand[0], benchCommand[1:]...).Run() }))
		byHand := func() {
			cmd, done := bareBwrap(b, back, spec, user)
			bare = append(bare, took(b, cmd.Run))
			done()
		}
		byWeir := func() {
			spec.Execution = run.NewExecutionID()
			weir = append(weir, took(b, func() error {
				r, err := sandbox.Run(b.Context(), back, spec, nowhere{}, sandbox.Options{})
				if err == nil && r.Class != run.ClassOK {
					b.Fatalf("%+v", r)
				}
				return err
			}))
		}
		// What one leaves to the kernel to clear away slows the next one down.
		if i%2 == 0 {
			byHand()
			byWeir()
		} else {
			byWeir()
			byHand()
		}
	}
	own := middle(weir) - middle(bare)
	ratio := float64(own) / float64(middle(plain))
	b.ReportMetric(ratio, "own/python")
	b.Logf("medians: python %v, in bubblewrap %v, by Weir %v: Weir adds %v, %.1f%% of python (limit %.0f%%); undisturbed %v, %v, %v",
		middle(plain), middle(bare), middle(weir), own, ratio*100, startLimit*100, undisturbed(plain), undisturbed(bare), undisturbed(weir))
	if ratio > startLimit {
		b.Errorf("Weir's own start cost is %.1f%% of python's run time, want at most %.0f%%", ratio*100, startLimit*100)
	}
}

// bareBwrap is the bubblewrap of a start without what Weir does around it.
func bareBwrap(b *testing.B, back *Bubblewrap, spec sandbox.Spec, user int) (*exec.Cmd, func()) {
	b.Helper()
	p := &bwrapProcess{backend: back, spec: spec, user: user, exited: make(chan struct{})}
	files, err := p.open(benchCommand)
	if err != nil {
		b.Fatal(err)
	}
	at := slices.Index(files.argv, "--")
	cmd := exec.Command(back.opts.Bwrap, append(slices.Clone(files.argv[:at+1]), benchCommand...)...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{"PATH=" + sandboxPath}, "/", files.extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if back.users.root {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user), Groups: []uint32{}}
	}
	return cmd, func() {
		files.close()
		for _, f := range []*os.File{p.stdout, p.stderr, p.status, p.verdict, p.release} {
			_ = f.Close()
		}
	}
}

func benchSpec(b *testing.B) sandbox.Spec {
	b.Helper()
	return sandbox.Spec{
		Execution: run.NewExecutionID(), Run: run.NewID(), Replica: "bench", Stage: "train", Workspace: reachableFolder(b), Command: benchCommand,
		Limits: sandbox.Limits{Timeout: time.Minute, Grace: time.Second, MemoryMiB: 2048, CPUs: 2, PIDs: 256, DiskMiB: 1024, MaxOutputBytes: 64 << 20},
	}
}

// reachableFolder is a workspace that the sandbox's user can reach.
func reachableFolder(t testing.TB) string {
	t.Helper()
	top, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o711); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "workspace")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func took(b *testing.B, f func() error) time.Duration {
	b.Helper()
	begin := time.Now()
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

func middle(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/2] }

// undisturbed is what a run takes when nothing else is done, for comparison: where
// others make namespaces at the same time, the medians say little.
func undisturbed(d []time.Duration) time.Duration { return slices.Sorted(slices.Values(d))[len(d)/10] }

// nowhere is a sink that drops everything.
type nowhere struct{}

func (nowhere) Write(context.Context, sandbox.Chunk) error { return nil }
