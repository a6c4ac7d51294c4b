package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// seconds reads a duration that `make soak` lengthens.
func seconds(t *testing.T, name string, def int) time.Duration {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return time.Duration(def) * time.Second
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s=%q is not a number of seconds", name, v)
	}
	return time.Duration(n) * time.Second
}

// writerCode prints n metric lines, some plain lines and some stderr, evenly
// over the given seconds.
const writerCode = `
import sys, time
n, total = %d, %f
begin = time.monotonic()
for i in range(n):
    print('{"step":%%d,"metrics":{"loss":%%f,"acc":%%f}}' %% (i, 1/(i+1), i/n), flush=True)
    if i %% 10 == 0:
        print("plain line", i, "äöü \u20ac", flush=True)
    if i %% 50 == 0:
        print("to stderr", i, file=sys.stderr, flush=True)
    ahead = begin + total * (i + 1) / n - time.monotonic()
    if ahead > 0:
        time.sleep(ahead)
`

// TestResume is P1 and P2: subscribers that come and go at random, from random
// cursors, slowly, with filters, each see exactly the log. WEIR_RESUME_SECONDS
// makes it longer, with twice the subscribers and events.
func TestResume(t *testing.T) {
	t.Parallel()
	needPython(t)
	total := seconds(t, "WEIR_RESUME_SECONDS", 20)
	subscribers, bursts, least := 25, 30, 10_000
	if os.Getenv("WEIR_RESUME_SECONDS") != "" {
		subscribers, bursts, least = 50, 60, 20_000
	}
	onBothStores(t, func(t *testing.T, url string) {
		t.Parallel()
		s := newServer(t, url, "--agents", chatterFolder(t, bursts, total-5*time.Second))
		s.start()
		const sessions = 5
		runs := make([]startedRun, sessions)
		for i := range runs {
			if i < 2 { // lines that come together are one event: the busier the server, the fewer
				runs[i] = s.startRun(map[string]any{"agent": "script", "code": fmt.Sprintf(writerCode, 3000, (total - 2*time.Second).Seconds())})
			} else {
				runs[i] = s.startRun(map[string]any{"agent": "chatter", "prompt": "go"})
			}
		}
		ended := make(chan struct{})
		ctx := background(t, total+8*time.Minute)
		var wg sync.WaitGroup
		subs := make([]*reader, subscribers)
		for i := range subs {
			r := runs[i%sessions]
			subs[i] = &reader{server: s, session: r.Session.ID, filter: randomFilter(i/sessions, r.ID), rng: rand.New(rand.NewPCG(uint64(i), 7)), seen: map[int64]json.RawMessage{}}
			wg.Go(func() { subs[i].follow(ctx, ended) })
		}
		for _, r := range runs {
			if got := s.waitStatus(r.ID, total+5*time.Minute, "DONE", "FAILED", "TIMED_OUT", "CANCELLED"); got.Status != "DONE" {
				t.Errorf("run %s ended %s: %v", r.ID, got.Status, got.Error)
			}
		}
		logs := map[string][]json.RawMessage{}
		events := 0
		for _, r := range runs {
			logs[r.Session.ID] = s.log(r.Session.ID, filter{})
			checkNoGap(t, logs[r.Session.ID])
			events += len(logs[r.Session.ID])
		}
		if events < least {
			t.Errorf("the sessions wrote %d events, want at least %d", events, least)
		}
		for _, sub := range subs {
			sub.want = sub.filter.choose(logs[sub.session])
		}
		close(ended)
		wg.Wait()
		connections := 0
		for i, sub := range subs {
			connections += sub.connections
			if sub.err != nil {
				t.Errorf("subscriber %d: %v", i, sub.err)
			}
			sub.check(t, fmt.Sprintf("subscriber %d", i))
		}
		t.Logf("%d events, %d subscribers over %d connections", events, subscribers, connections)
	})
}

// chatterFolder holds an agent that has 114 thoughts a burst, in bursts over the given time.
func chatterFolder(t *testing.T, bursts int, total time.Duration) string {
	t.Helper()
	dir := dataFolder(t)
	var b strings.Builder
	b.WriteString("name: chatter\ndriver: replay\nturns:\n")
	for i := range bursts {
		for j := range 114 {
			fmt.Fprintf(&b, "  - thought: thought %d of burst %d\n", j, i)
		}
		fmt.Fprintf(&b, "  - delaySeconds: %.3f\n", total.Seconds()/float64(bursts)/2)
	}
	if err := os.WriteFile(filepath.Join(dir, "chatter.yaml"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func randomFilter(i int, run string) filter {
	switch i % 5 {
	case 1:
		return filter{types: []string{"METRICS_LOGGED"}}
	case 2:
		return filter{types: []string{"OUTPUT_WRITTEN", "RUN_ENDED", "STATE_CHANGED"}}
	case 3:
		return filter{run: run}
	}
	return filter{}
}

// choose applies the filter to a whole log, as an oracle of its own.
func (f filter) choose(log []json.RawMessage) []json.RawMessage {
	var chosen []json.RawMessage
	for _, raw := range log {
		h := headOf(raw)
		ok := f.run == "" || f.run == h.Run
		if f.types != nil {
			typeOK := false
			for _, want := range f.types {
				typeOK = typeOK || want == h.Type
			}
			ok = ok && typeOK
		}
		if ok {
			chosen = append(chosen, raw)
		}
	}
	return chosen
}

// checkNoGap checks that a whole log is numbered 1, 2, 3 ...
func checkNoGap(t *testing.T, log []json.RawMessage) {
	t.Helper()
	for i, raw := range log {
		if h := headOf(raw); h.Seq != int64(i+1) {
			t.Errorf("event %d of the log has seq %d", i+1, h.Seq)
			return
		}
	}
}

// reader is a subscriber with bad habits: it disconnects, reads slowly and
// resumes from wherever it likes.
type reader struct {
	server  *server
	session string
	filter  filter
	rng     *rand.Rand

	seen        map[int64]json.RawMessage
	last        int64 // highest seq seen with everything before it
	connections int
	up          chan struct{}     // closed by steady with the first batch, if not nil
	want        []json.RawMessage // set before ended is closed
	err         error
}

// follow reads until ended is closed and everything wanted has been seen.
func (r *reader) follow(ctx context.Context, ended <-chan struct{}) {
	for r.err == nil {
		done := false
		select {
		case <-ended:
			done = true
			if len(r.seen) >= len(r.want) {
				return
			}
		case <-ctx.Done():
			r.err = fmt.Errorf("gave up at seq %d with %d events of %d: %w", r.last, len(r.seen), len(r.want), ctx.Err())
			return
		default:
		}
		after := r.last
		if r.rng.IntN(4) == 0 && after > 0 { // look again at what it has seen, mostly at the last of it
			back := min(after, 300)
			if r.rng.IntN(10) == 0 {
				back = after
			}
			after -= r.rng.Int64N(back + 1)
		}
		r.connection(ctx, after, done, ended)
	}
}

// connection reads one connection for a random while.
func (r *reader) connection(ctx context.Context, after int64, toTheEnd bool, ended <-chan struct{}) {
	sub, err := r.server.subscribe(ctx, r.session, after, r.filter)
	if err != nil {
		return // the server may be down; follow tries again
	}
	defer sub.close()
	r.connections++
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	if !toTheEnd {
		// Leave when the log has ended, or at a random moment before.
		leave := time.AfterFunc(time.Duration(200+r.rng.IntN(4000))*time.Millisecond, cancel)
		defer leave.Stop()
		watching.Go(func() {
			select {
			case <-ended:
				cancel()
			case <-ctx.Done():
			}
		})
	}
	prev := after
	for {
		batch, err := sub.next(ctx)
		if err != nil {
			return
		}
		for _, raw := range batch {
			h := headOf(raw)
			if h.Seq <= prev {
				r.err = fmt.Errorf("seq %d came after %d on one subscription", h.Seq, prev)
				return
			}
			prev = h.Seq
			if old, ok := r.seen[h.Seq]; ok && !bytes.Equal(old, raw) {
				r.err = fmt.Errorf("seq %d was %s and is now %s", h.Seq, old, raw)
				return
			}
			r.seen[h.Seq] = bytes.Clone(raw)
			r.last = max(r.last, h.Seq)
		}
		if toTheEnd && len(r.seen) >= len(r.want) {
			return
		}
		if r.rng.IntN(20) == 0 { // read slowly
			select {
			case <-time.After(time.Duration(r.rng.IntN(300)) * time.Millisecond):
			case <-ctx.Done():
				return
			}
		}
		if !toTheEnd && r.rng.IntN(200) == 0 {
			return
		}
	}
}

// check compares what was seen with the paged log, byte for byte.
func (r *reader) check(t *testing.T, who string) {
	t.Helper()
	if len(r.seen) != len(r.want) {
		t.Errorf("%s saw %d events, the log has %d", who, len(r.seen), len(r.want))
	}
	for _, raw := range r.want {
		seq := headOf(raw).Seq
		if got, ok := r.seen[seq]; !ok {
			t.Errorf("%s missed seq %d", who, seq)
			return
		} else if !bytes.Equal(got, raw) {
			t.Errorf("%s saw at seq %d\n%s\nthe log has\n%s", who, seq, got, raw)
			return
		}
	}
}

// steady reads without a break until ended is closed and everything wanted has
// been seen; a lost connection is an error.
func (r *reader) steady(ctx context.Context, ended <-chan struct{}) {
	sub, err := r.server.subscribe(ctx, r.session, r.last, r.filter)
	if err != nil {
		r.err = err
		return
	}
	defer sub.close()
	r.connections++
	for {
		select {
		case <-ended:
			if len(r.seen) >= len(r.want) {
				return
			}
		default:
		}
		batch, err := sub.next(ctx)
		if err != nil {
			r.err = fmt.Errorf("after seq %d: %w", r.last, err)
			return
		}
		for _, raw := range batch {
			h := headOf(raw)
			if h.Seq <= r.last {
				r.err = fmt.Errorf("seq %d came after %d", h.Seq, r.last)
				return
			}
			r.last = h.Seq
			r.seen[h.Seq] = bytes.Clone(raw)
		}
		if r.up != nil {
			close(r.up)
			r.up = nil
		}
		if headOf(batch[len(batch)-1]).Type == "RUN_ENDED" {
			<-ended
		}
	}
}
