package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/graph/scalar"
	"github.com/weirhq/weir/runtime/run"
)

// The limits of arguments.
const (
	defaultEvents  = 200
	maxEvents      = 1000
	defaultRows    = 50
	maxRows        = 200
	defaultRecords = 200
	maxRecords     = 1000
	defaultPoints  = 1000
	maxPointsAsked = 10_000
	maxNames       = 200  // metric names, run ids or event types in one argument
	maxCompared    = 50   // runs in one comparison
	maxText        = 1000 // bytes of a title, a reason, a name or a search
)

func sessionID(id string) (run.SessionID, error) {
	if !run.ValidID("ses", id) {
		return "", run.Errorf(run.NotFound, "there is no session %s; a session's id looks like %s", show(id), sampleID("ses"))
	}
	return run.SessionID(id), nil
}

func runID(id string) (run.ID, error) {
	if !run.ValidID("run", id) {
		return "", run.Errorf(run.NotFound, "there is no run %s; a run's id looks like %s", show(id), sampleID("run"))
	}
	return run.ID(id), nil
}

func sampleID(prefix string) string { return prefix + "_01jq0v6h3k8m5x2t9w4c7y1n6b" }

func runIDs(name string, ids []string, most int) ([]run.ID, error) {
	if len(ids) > most {
		return nil, run.Errorf(run.Invalid, "%s has %d ids; at most %d are allowed", name, len(ids), most)
	}
	out := make([]run.ID, len(ids))
	for i, id := range ids {
		rid, err := runID(id)
		if err != nil {
			return nil, err
		}
		out[i] = rid
	}
	return out, nil
}

// count reads a page size.
func count(name string, n *int, standard, most int) (int, error) {
	if n == nil {
		return standard, nil
	}
	if *n < 1 || *n > most {
		return 0, run.Errorf(run.Invalid, "%s is %d; it must be from 1 to %d", name, *n, most)
	}
	return *n, nil
}

func pageQuery(prefix string, first *int, after *string) (run.PageQuery, error) {
	n, err := count("first", first, defaultRows, maxRows)
	if err != nil {
		return run.PageQuery{}, err
	}
	cursor := value(after)
	if cursor != "" && !run.ValidID(prefix, cursor) {
		return run.PageQuery{}, run.Errorf(run.Invalid, "after is %s, which is no cursor; give the endCursor of the page before", show(cursor))
	}
	return run.PageQuery{First: n, After: cursor}, nil
}

func eventQuery(
	session string, after, before *int64, first, last *int, types []model.EventType, runArg *string,
) (run.EventQuery, error) {
	var q run.EventQuery
	var err error
	if q.Session, err = sessionID(session); err != nil {
		return q, err
	}
	if q.After = value(after); q.After < 0 {
		return q, run.Errorf(run.Invalid, "after is %d; it must be 0 (the start) or the seq of an event", q.After)
	}
	switch {
	case last != nil && first != nil:
		return q, run.Errorf(run.Invalid, "first is %d and last is %d; give one of them", *first, *last)
	case last != nil && q.After != 0:
		return q, run.Errorf(run.Invalid, "after is %d together with last; after goes with first, before goes with last", q.After)
	case last == nil && before != nil:
		return q, run.Errorf(run.Invalid, "before is %d without last; before goes with last, after goes with first", *before)
	case last != nil:
		if q.Last, err = count("last", last, 0, maxEvents); err != nil {
			return q, err
		}
		if before != nil {
			if q.Before = *before; q.Before < 1 {
				return q, run.Errorf(run.Invalid, "before is %d; it must be the seq of an event, 1 or more", q.Before)
			}
		}
	default:
		if q.First, err = count("first", first, defaultEvents, maxEvents); err != nil {
			return q, err
		}
	}
	if len(types) > maxNames {
		return q, run.Errorf(run.Invalid, "types has %d entries; at most %d are allowed", len(types), maxNames)
	}
	for _, t := range types {
		q.Filter.Types = append(q.Filter.Types, run.EventType(t))
	}
	if runArg != nil {
		q.Filter.Run, err = runID(*runArg)
	}
	return q, err
}

func metricQuery(names []string, points *int, from, to *int64) (run.MetricQuery, error) {
	n, err := count("maxPoints", points, defaultPoints, maxPointsAsked)
	if err != nil {
		return run.MetricQuery{}, err
	}
	if len(names) > maxNames {
		return run.MetricQuery{}, run.Errorf(run.Invalid, "names has %d entries; at most %d are allowed", len(names), maxNames)
	}
	for _, name := range names {
		if err := plain("names", name); err != nil {
			return run.MetricQuery{}, err
		}
	}
	if from != nil && to != nil && *from > *to {
		return run.MetricQuery{}, run.Errorf(run.Invalid, "fromStep is %d and toStep is %d; fromStep must not be greater", *from, *to)
	}
	return run.MetricQuery{Names: names, MaxPoints: n, FromStep: from, ToStep: to}, nil
}

func runFilter(f *model.RunFilter) (run.RunFilter, error) {
	var out run.RunFilter
	if f == nil {
		return out, nil
	}
	var err error
	if out.IDs, err = runIDs("ids", f.Ids, maxNames); err != nil {
		return out, err
	}
	if f.SessionID != nil {
		if out.Session, err = sessionID(*f.SessionID); err != nil {
			return out, err
		}
	}
	for _, s := range f.Status {
		out.Statuses = append(out.Statuses, run.Status(s))
	}
	out.Agent = value(f.Agent)
	out.RootOnly = value(f.RootOnly)
	return out, plain("agent", out.Agent)
}

func sessionFilter(f *model.SessionFilter) (run.SessionFilter, error) {
	if f == nil {
		return run.SessionFilter{}, nil
	}
	search := value(f.Search)
	return run.SessionFilter{Text: search, Live: f.Live}, plain("search", search)
}

func startRequest(in model.StartRunInput) (run.StartRequest, error) {
	req := run.StartRequest{
		Input: run.Input{
			Agent:          in.Agent,
			Prompt:         value(in.Prompt),
			Stage:          in.Stage,
			Model:          value(in.Model),
			Code:           value(in.Code),
			Command:        in.Command,
			TimeoutSeconds: value(in.TimeoutSeconds),
		},
		Title:          value(in.Title),
		OnBusy:         onBusy(in.OnBusy),
		IdempotencyKey: value(in.IdempotencyKey),
	}
	for _, e := range in.Env {
		req.Input.Env = append(req.Input.Env, run.EnvVar{Name: e.Name, Value: e.Value})
	}
	err := positive("timeoutSeconds", in.TimeoutSeconds)
	if err != nil {
		return req, err
	}
	if in.SessionID != nil {
		if req.Session, err = sessionID(*in.SessionID); err != nil {
			return req, err
		}
	}
	if req.Input.Sandbox, err = sandboxRequest(in.Sandbox); err != nil {
		return req, err
	}
	if req.Input.Budget, err = budget(in.Budget); err != nil {
		return req, err
	}
	if req.Input.Labels, err = object("labels", in.Labels); err != nil {
		return req, err
	}
	req.Input.Config, err = object("config", in.Config)
	return req, err
}

func sandboxRequest(in *model.SandboxInput) (run.SandboxRequest, error) {
	if in == nil {
		return run.SandboxRequest{}, nil
	}
	err := errors.Join(
		positive("sandbox.timeoutSeconds", in.TimeoutSeconds),
		positive("sandbox.memoryMiB", in.MemoryMiB),
		positive("sandbox.cpus", in.Cpus),
		positive("sandbox.pids", in.Pids),
		positive("sandbox.diskMiB", in.DiskMiB),
		positive("sandbox.maxOutputBytes", in.MaxOutputBytes),
		positive("sandbox.graceSeconds", in.GraceSeconds),
	)
	return run.SandboxRequest{
		Backend:        value(in.Backend),
		Image:          value(in.Image),
		Profile:        value(in.Profile),
		TimeoutSeconds: value(in.TimeoutSeconds),
		MemoryMiB:      int64(value(in.MemoryMiB)),
		CPUs:           value(in.Cpus),
		PIDs:           int64(value(in.Pids)),
		DiskMiB:        int64(value(in.DiskMiB)),
		MaxOutputBytes: value(in.MaxOutputBytes),
		OnOutputLimit:  string(value(in.OnOutputLimit)),
		Network:        value(in.Network),
		GPU:            value(in.Gpu),
		GraceSeconds:   value(in.GraceSeconds),
	}, err
}

// positive refuses an explicit zero, which would otherwise pass for "not given".
func positive[T int | int64 | float64](name string, v *T) error {
	if v == nil || *v > 0 {
		return nil
	}
	return run.Errorf(run.Invalid, "%s is %v; it must be greater than 0, or left out for the default", name, *v)
}

func messageRequest(in model.SendMessageInput) (run.MessageRequest, error) {
	sid, err := sessionID(in.SessionID)
	return run.MessageRequest{
		Session:        sid,
		Text:           in.Text,
		Agent:          value(in.Agent),
		OnBusy:         onBusy(in.OnBusy),
		IdempotencyKey: value(in.IdempotencyKey),
	}, err
}

func onBusy(b *model.OnBusy) run.OnBusy {
	if b == nil {
		return run.Reject
	}
	return run.OnBusy(*b)
}

// object reads an argument that must be a JSON object; null is the same as absent.
func object(name string, j scalar.JSON) (json.RawMessage, error) {
	b := bytes.TrimSpace(j)
	if len(b) == 0 || bytes.Equal(b, []byte("null")) {
		return nil, nil
	}
	if b[0] != '{' {
		return nil, run.Errorf(run.Invalid, "%s is %s; it must be a JSON object", name, clip(string(b)))
	}
	return json.RawMessage(b), nil
}

// plain refuses text that a store could not keep or search for.
func plain(name, s string) error {
	switch {
	case len(s) > maxText:
		return run.Errorf(run.Invalid, "%s has %d bytes; at most %d are allowed", name, len(s), maxText)
	case strings.ContainsRune(s, 0):
		return run.Errorf(run.Invalid, "%s contains a NUL byte (at byte %d); remove it", name, strings.IndexByte(s, 0))
	case !utf8.ValidString(s):
		return run.Errorf(run.Invalid, "%s is not valid UTF-8", name)
	}
	return nil
}

// value gives what p points to, or the zero value.
func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func show(s string) string { return strconv.Quote(clip(s)) }

// clip keeps a wrong value short enough to be named in a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
