package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// TestKill is P1, P3 and DESIGN's recovery: the server is killed at random
// moments while runs of every kind are under way.
func TestKill(t *testing.T) {
	t.Parallel()
	needPython(t)
	rounds := 6 // on each store
	if v := os.Getenv("WEIR_KILL_ROUNDS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatalf("WEIR_KILL_ROUNDS=%q is not a number", v)
		}
		rounds = n
	}
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		s := newServer(t, url, "--concurrency", "5", "--agents", agentsFolder(t))
		s.start()
		rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
		for round := range rounds {
			killRound(t, s, rng, round)
			if t.Failed() {
				return
			}
		}
	})
}

// asked is a run with what recovery has to make of it.
type asked struct {
	startedRun
	aborted bool
	marker  string
}

func killRound(t *testing.T, s *server, rng *rand.Rand, round int) {
	question := s.startRun(map[string]any{"agent": "asker", "prompt": "please"})
	s.waitStatus(question.ID, 20*time.Second, "WAITING")
	var runs []asked
	for i := range 6 { // some run, the rest waits in the queue
		marker := fmt.Sprintf("E2E_MARK=%d-%d-%d", os.Getpid(), round, rng.Uint64())
		code := fmt.Sprintf(writerCode, 3000, 20.0)
		if i%2 == 1 { // leaves a grandchild in a session of its own, deaf to TERM
			code = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n" + code
		}
		r := s.startRun(map[string]any{
			"agent": "script", "code": code,
			"sandbox": map[string]any{"graceSeconds": 0.5},
			"env":     []map[string]any{{"name": "E2E_MARK", "value": marker[len("E2E_MARK="):]}},
		})
		runs = append(runs, asked{startedRun: r, marker: marker})
	}

	ended := make(chan struct{})
	ctx := background(t, 5*time.Minute)
	var wg sync.WaitGroup
	subs := make([]*reader, 2*len(runs))
	for i := range subs {
		r := runs[i%len(runs)]
		subs[i] = &reader{server: s, session: r.Session.ID, rng: rand.New(rand.NewPCG(uint64(i), uint64(round))), seen: map[int64]json.RawMessage{}}
		wg.Go(func() { subs[i].follow(ctx, ended) })
	}
	// At a random moment, often with an abort just asked.
	<-time.After(time.Duration(100+rng.IntN(1500)) * time.Millisecond)
	statusBefore := map[string]string{}
	for i := range runs {
		statusBefore[runs[i].ID] = s.run(runs[i].ID).Status
	}
	if rng.IntN(2) == 0 {
		s.abort(runs[1].ID, false, false)
		runs[1].aborted = true
	}
	s.kill()
	s.launch()
	s.waitReady(20 * time.Second)

	for _, r := range runs {
		got := s.run(r.ID)
		switch {
		case got.Status == "CANCELLED" && r.aborted && *got.ExitReason == "ABORTED":
		case got.Status == "FAILED" && *got.ExitReason == "LOST" && !r.aborted && statusBefore[r.ID] != "QUEUED":
		case statusBefore[r.ID] == "QUEUED": // it starts, or did so just before the kill
		default:
			t.Errorf("round %d: run %s was %s (abort asked: %v) and is %s %v after the restart", round, r.ID, statusBefore[r.ID], r.aborted, got.Status, deref(got.ExitReason))
		}
		if got.Status != "RUNNING" && got.Status != "QUEUED" {
			if left := processesWith(r.marker); len(left) > 0 {
				t.Errorf("round %d: %s is %s and has processes: %v", round, r.ID, got.Status, left)
			}
		}
	}
	s.waitStatus(question.ID, 20*time.Second, "WAITING")
	// End the round: everything still open is aborted and gone.
	var aborts sync.WaitGroup
	for _, r := range append(runs, asked{startedRun: question}) {
		aborts.Go(func() {
			var out struct{ AbortRun receipt }
			err := s.try(`mutation($id: ID!) { abortRun(id: $id, wait: true) { `+receiptFields+` } }`, map[string]any{"id": r.ID}, &out)
			if got := out.AbortRun.Outcome; err != nil || got != "STOPPED" && got != "ALREADY_ENDED" {
				t.Errorf("round %d: aborting %s came to %s: %v", round, r.ID, got, err)
			}
			if r.marker != "" {
				if left := processesWith(r.marker); len(left) > 0 {
					t.Errorf("round %d: %s has processes after its abort: %v", round, r.ID, left)
				}
			}
		})
	}
	aborts.Wait()
	for _, r := range runs {
		log := s.log(r.Session.ID, filter{})
		checkNoGap(t, log)
		if last := headOf(log[len(log)-1]); last.Type != "RUN_ENDED" {
			t.Errorf("round %d: the log of %s ends with %s", round, r.ID, last.Type)
		}
		n := 0
		for _, raw := range log {
			if headOf(raw).Type == "RUN_ENDED" {
				n++
			}
		}
		if n != 1 {
			t.Errorf("round %d: %s has %d RunEnded events", round, r.ID, n)
		}
		for _, sub := range subs {
			if sub.session == r.Session.ID {
				sub.want = log
			}
		}
	}
	close(ended)
	wg.Wait()
	for i, sub := range subs {
		if sub.err != nil {
			t.Errorf("round %d: subscriber %d: %v", round, i, sub.err)
		}
		sub.check(t, fmt.Sprintf("round %d: subscriber %d", round, i))
	}
}

// agentsFolder holds the agents of these tests: one that asks a question, and a
// parent with two levels of children.
func agentsFolder(t *testing.T) string {
	t.Helper()
	dir := dataFolder(t)
	for name, text := range map[string]string{
		"asker.yaml":      "name: asker\ndriver: replay\nturns:\n  - text: {say: Wait for it}\n  - ask: {text: Go on?}\n  - text: {say: Thanks}\n",
		"parent.yaml":     "name: parent\ndriver: replay\nturns:\n  - delegate: {agent: child, prompt: work}\n",
		"child.yaml":      "name: child\ndriver: replay\nturns:\n  - delegate: {agent: grandchild, prompt: work harder}\n",
		"grandchild.yaml": "name: grandchild\ndriver: replay\nturns:\n  - tool: {command: [sh, -c, \"trap '' TERM; echo up; while :; do sleep 1; done\"]}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func deref(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}
