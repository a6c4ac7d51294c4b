package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// stubborn are scripts that do not want to end.
var stubborn = map[string]string{
	"IgnoresTerm": `
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True: time.sleep(1)`,
	"DoubleForks": `
import os, signal, time
print("up", flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.close(1); os.close(2)
        time.sleep(600)
    os._exit(0)
time.sleep(600)`,
	"HoldsThePipe": `
import os, signal, time
print("up", flush=True)
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
time.sleep(600)`,
}

// TestAbort is P4 for scripts that resist: gone within grace + 1 s, and the
// receipt says so.
func TestAbort(t *testing.T) {
	needPython(t)
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		s := newServer(t, url, "--agents", agentsFolder(t), "--concurrency", "20")
		s.start()
		for name, code := range stubborn {
			for _, silent := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/silent=%v", name, silent), func(t *testing.T) {
					marker := fmt.Sprintf("E2E_ABORT=%s-%v-%d", name, silent, time.Now().UnixNano())
					r := s.startRun(map[string]any{
						"agent": "script", "code": code, "sandbox": map[string]any{"graceSeconds": 1},
						"env": []map[string]any{{"name": "E2E_ABORT", "value": strings.TrimPrefix(marker, "E2E_ABORT=")}},
					})
					s.waitOutput(r, "up")
					if len(processesWith(marker)) == 0 {
						t.Fatal("the script is not to be found among the processes; the check for survivors would be blind")
					}
					begin := time.Now()
					got := s.abort(r.ID, silent, true)
					if took := time.Since(begin); took > 2*time.Second {
						t.Errorf("the abort took %s, want at most grace + 1 s = 2 s", took)
					}
					if left := processesWith(marker); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
					checkStopped(t, got, true)
					info := s.run(r.ID)
					reason := "ABORTED"
					if silent {
						reason = "REPLACED" // the quiet swap
					}
					if info.Status != "CANCELLED" || deref(info.ExitReason) != reason {
						t.Errorf("the run is %s %s", info.Status, deref(info.ExitReason))
					}
					s.checkAbortEvents(t, r, silent)
				})
			}
		}
		t.Run("Finished", func(t *testing.T) {
			r := s.startRun(map[string]any{"agent": "script", "command": []string{"true"}})
			s.waitStatus(r.ID, 10*time.Second, "DONE")
			before := s.lastSeq(r.Session.ID)
			for range 2 {
				if got := s.abort(r.ID, false, true); got.Outcome != "ALREADY_ENDED" || len(got.Survivors) != 0 {
					t.Errorf("aborting a finished run gave %+v", got)
				}
			}
			if after := s.lastSeq(r.Session.ID); after != before {
				t.Errorf("aborting a finished run wrote %d events", after-before)
			}
			if info := s.run(r.ID); info.Status != "DONE" {
				t.Errorf("it is %s now", info.Status)
			}
		})
		t.Run("Twice", func(t *testing.T) {
			r := s.startRun(map[string]any{"agent": "script", "code": stubborn["IgnoresTerm"], "sandbox": map[string]any{"graceSeconds": 1}})
			s.waitOutput(r, "up")
			first := s.abort(r.ID, false, false)
			if first.Outcome != "PENDING" || first.RequestedAt == nil {
				t.Errorf("the first abort gave %+v", first)
			}
			second := s.abort(r.ID, false, true)
			checkStopped(t, second, true)
			if deref(first.RequestedAt) != deref(second.RequestedAt) {
				t.Errorf("the second abort moved requestedAt from %s to %s", deref(first.RequestedAt), deref(second.RequestedAt))
			}
			s.checkAbortEvents(t, r, false)
		})
		t.Run("BeforeTheProcessExists", func(t *testing.T) {
			busy := s.startRun(map[string]any{"agent": "script", "command": []string{"sleep", "60"}})
			s.waitStatus(busy.ID, 10*time.Second, "RUNNING")
			queued := s.startRun(map[string]any{"agent": "script", "sessionId": busy.Session.ID, "onBusy": "QUEUE", "command": []string{"echo", "never"}})
			if queued.Status != "QUEUED" {
				t.Fatalf("it is %s", queued.Status)
			}
			got := s.abort(queued.ID, false, true)
			checkStopped(t, got, false)
			if got.SignalledAt != nil {
				t.Errorf("a run that never had a process was signalled at %s", *got.SignalledAt)
			}
			s.abort(busy.ID, false, true)
			if info := s.run(queued.ID); info.Status != "CANCELLED" || len(info.Executions) != 0 {
				t.Errorf("the queued run is %s with %d executions", info.Status, len(info.Executions))
			}
			// Aborted in the very moment of the start.
			for range 20 {
				r := s.startRun(map[string]any{"agent": "script", "command": []string{"sleep", "60"}})
				got := s.abort(r.ID, false, true)
				checkStopped(t, got, false)
			}
		})
		t.Run("TwoLevelsOfChildren", func(t *testing.T) {
			r := s.startRun(map[string]any{"agent": "parent", "prompt": "go", "sandbox": map[string]any{"graceSeconds": 1}})
			s.waitOutput(r, "up")
			begin := time.Now()
			got := s.abort(r.ID, false, true)
			if took := time.Since(begin); took > 2*time.Second {
				t.Errorf("the abort took %s, want at most grace + 1 s = 2 s", took)
			}
			checkStopped(t, got, true)
			var out struct{ Runs struct{ Nodes []runInfo } }
			s.must(`query($s: ID!) { runs(filter: {sessionId: $s}) { nodes { id status exitReason } } }`, map[string]any{"s": r.Session.ID}, &out)
			if len(out.Runs.Nodes) != 3 {
				t.Errorf("the tree has %d runs, want 3", len(out.Runs.Nodes))
			}
			for _, n := range out.Runs.Nodes {
				if n.Status != "CANCELLED" || deref(n.ExitReason) != "ABORTED" {
					t.Errorf("run %s is %s %s", n.ID, n.Status, deref(n.ExitReason))
				}
			}
			log := s.log(r.Session.ID, filter{})
			ends := 0
			for _, raw := range log {
				if headOf(raw).Type == "RUN_ENDED" {
					ends++
				}
			}
			if ends != 3 {
				t.Errorf("the log has %d RunEnded, want 3", ends)
			}
			if last := headOf(log[len(log)-1]); last.Type != "RUN_ENDED" || last.Run != r.ID {
				t.Errorf("the last event is %s of %s, want RUN_ENDED of the parent", last.Type, last.Run)
			}
		})
		t.Run("Unknown", func(t *testing.T) {
			err := s.try(`mutation { abortRun(id: "run_01hzzzzzzzzzzzzzzzzzzzzzzz") { outcome } }`, nil, nil)
			if err == nil || !strings.HasPrefix(err.Error(), "NOT_FOUND") {
				t.Errorf("aborting an unknown run gave %v", err)
			}
		})
	})
}

func checkStopped(t *testing.T, got receipt, signalled bool) {
	t.Helper()
	if got.Outcome != "STOPPED" || len(got.Survivors) != 0 {
		t.Errorf("the receipt says %+v", got)
	}
	if got.RequestedAt == nil || signalled && (got.SignalledAt == nil || got.ProcessGoneAt == nil || got.SandboxGoneAt == nil) {
		t.Fatalf("the receipt lacks a time: %+v", got)
	}
	// Without a process there is nothing that could be signalled or gone.
	times := []string{*got.RequestedAt}
	for _, at := range []*string{got.SignalledAt, got.ProcessGoneAt, got.SandboxGoneAt} {
		if at != nil {
			times = append(times, *at)
		}
	}
	for i := 1; i < len(times); i++ {
		a, errA := time.Parse(time.RFC3339Nano, times[i-1])
		b, errB := time.Parse(time.RFC3339Nano, times[i])
		if errA != nil || errB != nil || b.Before(a) {
			t.Errorf("the times of the receipt are out of order: %v", times)
		}
	}
}

func (s *server) checkAbortEvents(t *testing.T, r startedRun, silent bool) {
	t.Helper()
	count := map[string]int{}
	var last string
	for _, raw := range s.log(r.Session.ID, filter{}) {
		last = headOf(raw).Type
		count[last]++
		if last == "STATE_CHANGED" && strings.Contains(string(raw), `"cancelled"`) {
			count["cancelled"]++
		}
	}
	want := 1
	if silent {
		want = 0
	}
	for _, typ := range []string{"ABORT_REQUESTED", "AGENT_ABORTED", "cancelled"} {
		if count[typ] != want {
			t.Errorf("the log has %d %s, want %d", count[typ], typ, want)
		}
	}
	if last != "RUN_ENDED" || count["RUN_ENDED"] != 1 {
		t.Errorf("the log ends with %s and has %d RUN_ENDED", last, count["RUN_ENDED"])
	}
}

// waitOutput waits until the session has printed text.
func (s *server) waitOutput(r startedRun, text string) {
	s.t.Helper()
	eventually(s.t, 15*time.Second, "there is output "+text, func() error {
		for _, raw := range s.log(r.Session.ID, filter{types: []string{"OUTPUT_WRITTEN"}}) {
			if strings.Contains(string(raw), text) {
				return nil
			}
		}
		return fmt.Errorf("not yet")
	})
}
