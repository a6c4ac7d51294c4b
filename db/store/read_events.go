package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

const (
	defaultEvents = 200
	pageRows      = 500     // of one query
	pageBytes     = 4 << 20 // of one page, but at least one event
	scanWindow    = 5000    // seqs that one filtered query looks at
)

// Events gives a page of a session's log. It ends early, with HasMore, when it
// has grown to about 4 MiB. What retention has cut shows as a GapEvent in front.
// Each query is short, so that a reader never holds up the database.
func (s *Store) Events(ctx context.Context, q run.EventQuery) (run.EventPage, error) {
	var page run.EventPage
	if q.After < 0 || q.Before < 0 || q.First < 0 || q.Last < 0 {
		return page, run.Errorf(run.Invalid, "after, before, first and last must not be negative (%d, %d, %d, %d)", q.After, q.Before, q.First, q.Last)
	}
	if q.First > 0 && q.Last > 0 {
		return page, run.Errorf(run.Invalid, "ask for the first or for the last events, not for both")
	}
	if q.First > maxPage || q.Last > maxPage {
		return page, run.Errorf(run.Invalid, "first and last are at most %d", maxPage)
	}
	sess, err := s.session(ctx, s.read, q.Session)
	if err != nil {
		return page, err
	}
	page.LastSeq = sess.LastSeq
	r := eventReader{s: s, sess: sess, q: q}
	if q.Last > 0 {
		err = r.backward(ctx, &page)
	} else {
		err = r.forward(ctx, &page)
	}
	return page, err
}

type eventReader struct {
	s     *Store
	sess  sessionRow
	q     run.EventQuery
	bytes int
}

// forward reads the first events after a seq.
func (r *eventReader) forward(ctx context.Context, page *run.EventPage) error {
	want := r.q.First
	if want == 0 {
		want = defaultEvents
	}
	end := r.sess.LastSeq // the snapshot that this page is of
	if r.q.Before > 0 {
		end = min(end, r.q.Before-1)
	}
	at := r.q.After
	if r.sess.FirstSeq > at+1 && at < end {
		gap := r.gap(at+1, min(r.sess.FirstSeq-1, end))
		page.Events = append(page.Events, gap)
		at = gap.Seq
	}
	page.Scanned = max(at, 0)
	n := 0
	for at < end && n < want && r.bytes < pageBytes {
		window := min(end, at+r.window(want-n))
		rows, err := r.query(ctx, at, window, want-n, "")
		if err != nil {
			return err
		}
		page.Events = append(page.Events, rows...)
		n += len(rows)
		if full := len(rows) == min(want-n+len(rows), pageRows); full || r.bytes >= pageBytes {
			window = lastSeq(rows, window)
		}
		at = window
		page.Scanned = at
	}
	page.HasMore = at < end
	return nil
}

// backward reads the last events before a seq, and gives them in ascending order.
func (r *eventReader) backward(ctx context.Context, page *run.EventPage) error {
	at := r.sess.LastSeq + 1
	if r.q.Before > 0 {
		at = min(at, r.q.Before)
	}
	floor := max(r.q.After, r.sess.FirstSeq-1)
	page.Scanned = at - 1
	n := 0
	for at-1 > floor && n < r.q.Last && r.bytes < pageBytes {
		window := max(floor, at-1-r.window(r.q.Last-n))
		rows, err := r.query(ctx, window, at-1, r.q.Last-n, " DESC")
		if err != nil {
			return err
		}
		page.Events = append(page.Events, rows...)
		n += len(rows)
		if full := len(rows) == min(r.q.Last-n+len(rows), pageRows); full || r.bytes >= pageBytes {
			window = lastSeq(rows, window+1) - 1
		}
		at = window + 1
	}
	page.HasMore = at-1 > floor
	if to := min(at, r.sess.FirstSeq) - 1; !page.HasMore && at <= r.sess.FirstSeq && to > r.q.After {
		page.Events = append(page.Events, r.gap(r.q.After+1, to))
	}
	slices.Reverse(page.Events)
	return nil
}

// window is how many seqs a query looks at: as many as it wants rows, unless a
// filter will pass over some.
func (r *eventReader) window(want int) int64 {
	if r.q.Filter.Run == "" && len(r.q.Filter.Types) == 0 {
		return int64(min(want, pageRows))
	}
	return scanWindow
}

func lastSeq(events []*run.Event, otherwise int64) int64 {
	if len(events) == 0 {
		return otherwise
	}
	return events[len(events)-1].Seq
}

// gap stands for events that are not kept any more.
func (r *eventReader) gap(from, to int64) *run.Event {
	return &run.Event{
		Session: r.q.Session, Seq: to, At: timeOf(r.sess.CreatedUS), Type: run.TypeGapEvent,
		Body: fmt.Appendf(nil, `{"fromSeq":%d,"toSeq":%d}`, from, to),
	}
}

// query reads the matching events with after < seq <= upTo, at most limit. It
// stops early when the page is large enough.
func (r *eventReader) query(ctx context.Context, after, upTo int64, limit int, order string) ([]*run.Event, error) {
	var b strings.Builder
	args := []any{r.sess.SID, after, upTo}
	b.WriteString("SELECT seq, at_us, kind, run_id, agent, stage, body FROM events WHERE sid = ? AND seq > ? AND seq <= ?")
	if len(r.q.Filter.Types) > 0 {
		b.WriteString(" AND kind IN (0")
		for _, t := range r.q.Filter.Types {
			fmt.Fprintf(&b, ", %d", t.Code())
		}
		b.WriteString(")")
	}
	if r.q.Filter.Run != "" {
		b.WriteString(" AND run_id = ?")
		args = append(args, string(r.q.Filter.Run))
	}
	fmt.Fprintf(&b, " ORDER BY seq%s LIMIT %d", order, min(limit, pageRows))
	rows, err := r.s.read.QueryContext(ctx, b.String(), args...)
	if err != nil {
		return nil, r.s.readError("reading events", err)
	}
	defer func() { _ = rows.Close() }()
	var out []*run.Event
	for r.bytes < pageBytes && rows.Next() {
		e := &run.Event{Session: r.q.Session}
		var kind int
		var atUS int64
		if err := rows.Scan(&e.Seq, &atUS, &kind, &e.Run, &e.Agent, &e.Stage, &e.Body); err != nil {
			return nil, r.s.readError("reading an event", err)
		}
		e.At = timeOf(atUS)
		if e.Type, err = run.EventTypeOf(kind); err != nil {
			return nil, err
		}
		r.bytes += len(e.Body) + 128
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, r.s.readError("reading events", err)
	}
	return out, nil
}
