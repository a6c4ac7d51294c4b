package stream_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a kept log in memory: what it gives out is what was appended, and
// it calls its listeners as the store does, after the commit and in order.
type memory struct {
	mu       sync.Mutex
	events   map[run.SessionID][]*run.Event
	runs     map[run.ID]run.Run
	firstSeq map[run.SessionID]int64 // what retention has left
	listener func([]*run.Event, []run.ID)
	reads    int
	down     bool
	totals   run.UsageTotals
}

func newMemory() *memory {
	return &memory{
		events: map[run.SessionID][]*run.Event{}, runs: map[run.ID]run.Run{}, firstSeq: map[run.SessionID]int64{},
		listener: func([]*run.Event, []run.ID) {},
	}
}

// open gives a log and a stream that listens to it.
func open(opts stream.Options) (*memory, *stream.Stream) {
	m := newMemory()
	s := stream.New(m, opts)
	m.listener = s.Committed
	return m, s
}

func (m *memory) create(id run.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events[id] = []*run.Event{}
}

// append commits n events per session; published tells whether this process
// wrote them, so that its listener hears of them.
func (m *memory) append(published bool, id run.SessionID, drafts ...*run.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range drafts {
		e.Session = id
		e.Seq = int64(len(m.events[id])) + 1
		e.Body = fmt.Appendf(e.Body, `{"text":"%s/%d"}`, id, e.Seq)
		m.events[id] = append(m.events[id], e)
	}
	if published {
		m.listener(drafts, nil)
	}
}

func (m *memory) set(r run.Run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs[r.ID] = r
	m.listener(nil, []run.ID{r.ID})
}

func (m *memory) Events(_ context.Context, q run.EventQuery) (run.EventPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.down {
		return run.EventPage{}, run.Errorf(run.Unavailable, "the store is gone")
	}
	all, ok := m.events[q.Session]
	if !ok {
		return run.EventPage{}, run.Errorf(run.NotFound, "no session %q", q.Session)
	}
	page := run.EventPage{LastSeq: int64(len(all)), Scanned: q.After}
	if first := m.firstSeq[q.Session]; first > q.After+1 {
		page.Events = append(page.Events, &run.Event{
			Session: q.Session, Seq: first - 1, Type: run.TypeGapEvent,
			Body: fmt.Appendf(nil, `{"fromSeq":%d,"toSeq":%d}`, q.After+1, first-1),
		})
		page.Scanned = first - 1
	}
	for page.Scanned < page.LastSeq {
		if len(page.Events) >= q.First {
			page.HasMore = true
			break
		}
		e := all[page.Scanned]
		if q.Filter.Match(e) {
			page.Events = append(page.Events, e)
		}
		page.Scanned++
	}
	return page, nil
}

func (m *memory) Session(_ context.Context, id run.SessionID) (run.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.events[id]; !ok {
		return run.Session{}, run.Errorf(run.NotFound, "no session %q", id)
	}
	return run.Session{ID: id, LastSeq: int64(len(m.events[id]))}, nil
}

func (m *memory) remove(id run.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.events, id)
}

func (m *memory) Run(_ context.Context, id run.ID) (run.Run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	r, ok := m.runs[id]
	if !ok {
		return run.Run{}, run.Errorf(run.NotFound, "no run %q", id)
	}
	return r, nil
}

func (m *memory) ActiveUsage(context.Context) (run.UsageTotals, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if m.down {
		return run.UsageTotals{}, run.Errorf(run.Unavailable, "the store is gone")
	}
	return m.totals, nil
}

// use sets what the active runs have used; published tells whether this process
// did it.
func (m *memory) use(published bool, input int64, nano *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.totals.Runs, m.totals.Usage.Input, m.totals.Usage.CostNanoUSD = 1, input, nano
	if published {
		m.listener(nil, []run.ID{"run_1"})
	}
}
