package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/run"
)

const (
	maxBody = 64 << 20 // bytes of one event; PostgreSQL's message ends at 1 GiB
	maxKey  = 2500     // bytes of stage, tag and name together: an index row of PostgreSQL holds about 2,700, and a name of 512 characters has up to 2,048
	ordBits = 20       // points of one event: 2^20
)

// prepared is a batch after everything that needs no database was done, in the
// caller's goroutine.
type prepared struct {
	run.Batch
	events []*run.Event // Seq is set by each try, At when it was zero
	zeroAt []bool
	points []flatPoint
	booked []*run.Event // of the usage records that were written or changed; made by each try
	size   int64
}

// log gives all events in their order. Usage comes after what the batch says,
// but before a run's end.
func (p *prepared) log() []*run.Event {
	if len(p.booked) == 0 {
		return p.events
	}
	if u := p.Update; u != nil && u.To != nil && u.To.Status.Final() {
		return slices.Concat(p.booked, p.events)
	}
	return slices.Concat(p.events, p.booked)
}

// flatPoint is a metric point on its way to its row.
type flatPoint struct {
	event int // index into events
	place int // within the event
	key   run.SeriesKey
	step  int64
	value float64
	spec  run.Special
	atUS  int64
}

// weight counts the events of a batch, with those that its usage will become.
func (p *prepared) weight() int { return len(p.events) + len(p.Usage) }

// Append commits a batch and gives back its events, numbered.
func (s *Store) Append(ctx context.Context, b run.Batch) ([]*run.Event, error) {
	p, err := s.prepare(b)
	if err != nil {
		return nil, err
	}
	if err := s.w.do(ctx, &op{batch: p, size: p.size}); err != nil {
		return nil, err
	}
	return p.log(), nil
}

func (s *Store) prepare(b run.Batch) (*prepared, error) {
	if b.Session == "" {
		return nil, run.Errorf(run.Invalid, "the batch names no session")
	}
	p := &prepared{Batch: b, events: make([]*run.Event, 0, len(b.Drafts)), zeroAt: make([]bool, 0, len(b.Drafts)), size: 512}
	for _, d := range b.Drafts {
		if err := p.add(s, d); err != nil {
			return nil, err
		}
	}
	for _, u := range b.Usage {
		p.size += int64(len(u.Raw)) + 512
	}
	for _, e := range b.Executions {
		p.size += 512 + int64(len(e.ErrMessage))
	}
	p.size += 256 * int64(len(b.Artifacts)+len(b.Questions))
	if b.Update != nil && b.Update.Result != nil {
		p.size += int64(len(*b.Update.Result))
	}
	return p, nil
}

func (p *prepared) add(s *Store, d run.Draft) error {
	e, err := newEvent(p.Session, d)
	if err != nil {
		return err
	}
	index := len(p.events)
	p.events = append(p.events, e)
	p.zeroAt = append(p.zeroAt, d.At.IsZero())
	p.size += int64(len(e.Body)) + 128
	m, ok := d.Payload.(*run.MetricsLogged)
	if !ok {
		return nil
	}
	if d.Run == "" {
		return run.Errorf(run.Invalid, "metric points need a run")
	}
	if len(m.Points) > 1<<ordBits {
		return run.Errorf(run.Invalid, "one event has %d metric points; the most is %d", len(m.Points), 1<<ordBits)
	}
	bad, why := 0, ""
	for i := range m.Points {
		f, fault := flatten(d.Run, m.Points[i])
		if fault != "" {
			bad, why = bad+1, fault
			continue
		}
		f.event, f.place = index, i
		p.points = append(p.points, f)
	}
	p.size += 64 * int64(len(m.Points))
	if bad > 0 {
		return p.lost(s, index, bad, why)
	}
	return nil
}

// lost counts points that cannot be stored and says so in the log, right after
// the event that carries them.
func (p *prepared) lost(s *Store, index, n int, why string) error {
	s.stats.badPoints.Add(int64(n))
	of := p.events[index]
	s.log.Warn("metric points were not stored", "run", of.Run, "points", n, "reason", why)
	e, err := newEvent(p.Session, run.Draft{
		At: of.At, Run: of.Run, Agent: of.Agent, Stage: of.Stage,
		Payload: &run.Warning{Text: fmt.Sprintf("%d metric points could not be stored: %s", n, why)},
	})
	if err != nil {
		return err
	}
	at := index + 1
	p.events = append(p.events[:at], append([]*run.Event{e}, p.events[at:]...)...)
	p.zeroAt = append(p.zeroAt[:at], append([]bool{p.zeroAt[index]}, p.zeroAt[at:]...)...)
	for i := range p.points {
		if p.points[i].event >= at {
			p.points[i].event++
		}
	}
	return nil
}

// flatten gives a point's row, or why it can have none.
func flatten(id run.ID, pt run.Point) (flatPoint, string) {
	if _, special := run.SplitFloat(pt.Value); special != run.Finite {
		return flatPoint{}, "a value that is no number was not marked as such"
	}
	switch pt.Special {
	case run.Finite, run.NaN, run.PositiveInfinity, run.NegativeInfinity:
	default:
		return flatPoint{}, fmt.Sprintf("unknown special value %d", pt.Special)
	}
	key := run.SeriesKey{Run: id, Stage: clean(pt.Stage), RunTag: clean(pt.RunTag), Name: clean(pt.Name)}
	if n := len(key.Name) + len(key.RunTag) + len(key.Stage); n > maxKey {
		return flatPoint{}, fmt.Sprintf("the name, run tag and stage have %d bytes, at most %d are kept (%.40q...)", n, maxKey, pt.Name)
	}
	return flatPoint{key: key, step: pt.Step, value: pt.Value, spec: pt.Special, atUS: pt.At.UnixMicro()}, ""
}

func newEvent(session run.SessionID, d run.Draft) (*run.Event, error) {
	if d.Payload == nil {
		return nil, run.Errorf(run.Invalid, "an event has no payload")
	}
	typ := d.Payload.Type()
	if typ.Code() == 0 || typ == run.TypeGapEvent {
		return nil, run.Errorf(run.Invalid, "events of type %s cannot be appended", typ)
	}
	body, err := marshalPayload(d.Payload)
	if err != nil {
		return nil, fmt.Errorf("encoding an event of type %s: %w", typ, err)
	}
	if len(body) > maxBody {
		return nil, run.Errorf(run.Invalid, "an event of type %s has %d bytes; the most is %d", typ, len(body), maxBody)
	}
	e := &run.Event{Session: session, Type: typ, Run: d.Run, Agent: clean(d.Agent), Stage: clean(d.Stage), Body: body}
	if !d.At.IsZero() {
		e.At = d.At.UTC().Truncate(time.Microsecond)
	}
	return e, nil
}

// marshalPayload makes the bytes that are stored and published: valid UTF-8
// without NUL, so that neither database changes them.
func marshalPayload(p run.Payload) ([]byte, error) {
	if m, ok := p.(*run.MetricsLogged); ok {
		return marshalPoints(m)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, err
	}
	body := bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
	if !utf8.Valid(body) { // raw JSON inside keeps what it was given
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return body, nil
}

// marshalPoints is marshalPayload for the commonest large event.
func marshalPoints(m *run.MetricsLogged) ([]byte, error) {
	id, err := json.Marshal(m.ExecutionID)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 64+len(m.Points)*80)
	b = append(b, `{"executionId":`...)
	b = append(b, id...)
	b = append(b, `,"points":[`...)
	for i := range m.Points {
		if i > 0 {
			b = append(b, ',')
		}
		pt := m.Points[i]
		if v, special := run.SplitFloat(pt.Value); special != run.Finite {
			pt.Value, pt.Special = v, special // JSON has no such number
		}
		if b, err = pt.AppendJSON(b); err != nil {
			return nil, err
		}
	}
	return append(b, "]}"...), nil
}

// clean makes text that both databases store as it is.
func clean(s string) string {
	for i := range len(s) {
		if s[i] == 0 || s[i] >= utf8.RuneSelf {
			return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
		}
	}
	return s
}

// cleanJSON is clean for JSON, which holds no NUL when it is valid.
func cleanJSON(b []byte) string { return clean(string(b)) }

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
