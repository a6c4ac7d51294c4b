package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
)

// TestPostgresOutage: PostgreSQL goes away in mid-run and comes back. The run
// goes on, nothing is lost, and meanwhile the API says UNAVAILABLE.
func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	needPython(t)
	cluster := pgtest.Start(t)
	s := newServer(t, cluster.Database(t))
	s.start()
	r := s.startRun(map[string]any{"agent": "script", "code": fmt.Sprintf(writerCode, 1500, 8.0)})
	s.waitOutput(r, "plain line 100")
	ended := make(chan struct{})
	ctx := background(t, 2*time.Minute)
	sub := &reader{server: s, session: r.Session.ID, seen: map[int64]json.RawMessage{}, up: make(chan struct{})}
	up, finished := sub.up, make(chan struct{})
	go func() {
		defer close(finished)
		sub.steady(ctx, ended)
	}()
	select {
	case <-up:
	case <-finished:
		t.Fatal(sub.err)
	}
	cluster.Stop(t)
	eventually(t, 15*time.Second, "a start is refused as UNAVAILABLE", func() error {
		err := s.try(`mutation { startRun(input: {agent: "script", command: ["true"]}) { id } }`, nil, nil)
		switch {
		case err == nil:
			return errors.New("it was accepted")
		case !strings.HasPrefix(err.Error(), "UNAVAILABLE"):
			return fmt.Errorf("it gave another error: %w", err)
		}
		return nil
	})
	<-time.After(2 * time.Second) // long enough for writes to pile up
	cluster.Start(t)
	got := s.waitStatus(r.ID, 60*time.Second, "DONE", "FAILED")
	if got.Status != "DONE" {
		t.Errorf("the run ended %s: %s", got.Status, deref(got.Error))
	}
	log := s.log(r.Session.ID, filter{})
	checkNoGap(t, log)
	sub.want = log
	close(ended)
	<-finished
	if sub.err != nil {
		t.Error(sub.err)
	}
	sub.check(t, "the subscriber through the outage")
	steps := map[string]int{}
	for _, raw := range log {
		var e struct {
			Points []struct {
				Step json.Number
				Name string
			}
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatal(err)
		}
		for _, p := range e.Points {
			if p.Name == "loss" {
				steps[p.Step.String()]++
			}
		}
	}
	for i := range 1500 {
		if n := steps[fmt.Sprint(i)]; n != 1 {
			t.Fatalf("step %d was logged %d times", i, n)
		}
	}
	var out struct {
		Run struct {
			Metrics []struct {
				Name    string
				Buckets []struct{ Count json.Number }
			}
		}
	}
	s.must(`query($id: ID!) { run(id: $id) { metrics(maxPoints: 100) { name buckets { count } } } }`, map[string]any{"id": r.ID}, &out)
	for _, series := range out.Run.Metrics {
		sum := int64(0)
		for _, b := range series.Buckets {
			n, _ := b.Count.Int64()
			sum += n
		}
		if sum != 1500 {
			t.Errorf("the curve %s holds %d points, want 1500", series.Name, sum)
		}
	}
}
