package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/engine"
	"github.com/weirhq/weir/runtime/run"
)

// TestNoGraceOutlastsTheStop stops a server whose run has asked for the longest
// grace and answers no TERM.
func TestNoGraceOutlastsTheStop(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		mark := newMarker()
		b.agent("train", func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
			_, _, err := h.Execute(ctx, sh("trap '' TERM; echo up; while :; do sleep "+mark+"; done"))
			return "", err
		})
		e := b.engine(func(o *engine.Options) { o.StopTimeout = 12 * time.Second })
		r := e.start("train", func(q *run.StartRequest) { q.Input.Sandbox.GraceSeconds = 60 })
		b.printed(r, "up")
		began := time.Now()
		e.stop()
		if took := time.Since(began); took < 3*time.Second || took > 9*time.Second {
			t.Errorf("the stop took %s; a quarter of 12 s of grace was to be given", took)
		}
		if left := alive(t, mark); len(left) > 0 {
			t.Errorf("still alive: %q", left)
		}
		ended := b.get(r.ID)
		wantState(t, ended, run.Cancelled, run.Shutdown)
		x, err := b.store.Executions(t.Context(), r.ID)
		if err != nil || len(x) != 1 || x[0].Class != run.ClassCancelled || x[0].Signal != "SIGKILL" {
			t.Errorf("the executions are %+v, %v", x, err)
		}
	})
}

// inOneSession runs agents one after the other in one session, as a user would.
func (b *bench) inOneSession(e *running, names ...string) []run.Run {
	b.t.Helper()
	var all []run.Run
	for i, name := range names {
		var change []func(*run.StartRequest)
		if i > 0 {
			change = append(change, inSession(all[0].Session, run.Reject))
		}
		all = append(all, b.ended(e.start(name, change...).ID))
	}
	return all
}

func (b *bench) shell(name, script string, change ...func(*agent.Definition)) {
	b.agent(name, func(ctx context.Context, _ agent.Task, h agent.Host) (string, error) {
		_, out, err := h.Execute(ctx, sh(script))
		return out.Stdout, err
	}, change...)
}

func TestEveryAgentMayWriteItsOwnFile(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		for _, name := range []string{"a", "b"} {
			b.shell(name, "echo more >>sub/"+name+"/own.txt && echo new >sub/"+name+"/new.txt && cat sub/"+name+"/own.txt", func(d *agent.Definition) {
				d.Files = map[string]string{"sub/" + name + "/own.txt": "mine\n"}
			})
		}
		for _, r := range b.inOneSession(b.engine(), "a", "b") {
			if r.Result != "mine\nmore\n" {
				t.Errorf("agent %s read %q (%s)", r.Agent, r.Result, r.Error)
			}
		}
	})
}

func TestClosedWorkspaceWorksAgain(t *testing.T) {
	onStores(t, func(t *testing.T, b *bench) {
		b.really()
		b.shell("close", "echo kept >x && chmod 0 . && echo closed")
		b.shell("use", "cat x && echo y >y && cat y")
		runs := b.inOneSession(b.engine(), "close", "use")
		if runs[0].Result != "closed\n" || runs[1].Result != "kept\ny\n" {
			t.Errorf("got %q, then %q (%s)", runs[0].Result, runs[1].Result, runs[1].Error)
		}
	})
}
