package graph

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/graph/scalar"
	"github.com/weirhq/weir/runtime/run"
)

func each[F, T any](from []F, convert func(F) T) []T {
	to := make([]T, len(from))
	for i, f := range from {
		to[i] = convert(f)
	}
	return to
}

// text gives null for "".
func text[S ~string](s S) *string { return named[string](s) }

// named gives s as another string type, null for "".
func named[T, S ~string](s S) *T {
	if s == "" {
		return nil
	}
	t := T(s)
	return &t
}

// instant gives null for the zero time.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func toSession(s run.Session) *model.Session {
	return &model.Session{
		ID:          string(s.ID),
		Title:       text(s.Title),
		CreatedAt:   s.CreatedAt,
		LastSeq:     s.LastSeq,
		State:       text(s.State),
		ActiveRunID: string(s.ActiveRun),
	}
}

func toRun(r run.Run) *model.Run {
	return &model.Run{
		ID:         string(r.ID),
		SessionID:  string(r.Session),
		ParentID:   string(r.Parent),
		Agent:      r.Agent,
		Team:       text(r.Team),
		Stage:      text(r.Stage),
		Driver:     r.Driver,
		Provider:   text(r.Provider),
		Model:      text(r.Model),
		Status:     model.RunStatus(r.State.Status),
		ExitReason: named[model.ExitReason](r.State.Reason),
		Attempt:    r.Attempt,
		RestartOf:  text(r.RestartOf),
		CreatedAt:  r.CreatedAt,
		StartedAt:  instant(r.StartedAt),
		EndedAt:    instant(r.EndedAt),
		Error:      text(r.Error),
		Result:     text(r.Result),
		Input:      toInput(r.Input),
		Labels:     scalar.JSON(r.Input.Labels),
		Config:     scalar.JSON(r.Input.Config),
		Usage:      toUsage(r.Usage),
		Abort:      toReceipt(r.Abort),
	}
}

// toInput leaves the environment out: it may hold secrets.
func toInput(in run.Input) *model.RunInput {
	out := &model.RunInput{
		Agent:   in.Agent,
		Prompt:  text(in.Prompt),
		Stage:   in.Stage,
		Model:   text(in.Model),
		Code:    text(in.Code),
		Command: in.Command,
		Budget:  toBudget(in.Budget),
	}
	if in.TimeoutSeconds != 0 {
		out.TimeoutSeconds = &in.TimeoutSeconds
	}
	if in.Sandbox != (run.SandboxRequest{}) {
		// The request has finite numbers and text only; such a struct always encodes.
		out.Sandbox, _ = json.Marshal(in.Sandbox)
	}
	return out
}

func toUsage(u run.Usage) *model.Usage {
	out := &model.Usage{
		Input:           u.Input,
		CacheRead:       u.CacheRead,
		CacheWriteShort: u.CacheWriteShort,
		CacheWriteLong:  u.CacheWriteLong,
		Output:          u.Output,
		Reasoning:       u.Reasoning,
		ComputeSeconds:  float64(u.ComputeMicros) / 1e6,
		CostNanoUsd:     u.CostNanoUSD,
		CostSource:      named[model.CostSource](u.CostSource),
		Provenance:      model.Provenance(u.Provenance),
		Unpriced:        int(u.Unpriced),
	}
	if u.Provenance == "" {
		out.Provenance = model.ProvenanceUnknown
	}
	if u.CostNanoUSD != nil {
		usd := float64(*u.CostNanoUSD) / 1e9
		out.CostUsd = &usd
	}
	return out
}

func toReceipt(r *run.Receipt) *model.AbortReceipt {
	if r == nil {
		return nil
	}
	return &model.AbortReceipt{
		RunID:         string(r.Run),
		RequestedAt:   instant(r.RequestedAt),
		SignalledAt:   instant(r.SignalledAt),
		ProcessGoneAt: instant(r.ProcessGoneAt),
		SandboxGoneAt: instant(r.SandboxGoneAt),
		Survivors:     r.Survivors,
		Outcome:       model.AbortOutcome(r.Outcome),
	}
}

func toExecution(e run.Execution) *model.Execution {
	out := &model.Execution{
		ID:        string(e.ID),
		Backend:   e.Backend,
		Isolation: text(e.Isolation),
		Command:   e.Command,
		ExitClass: named[model.ExitClass](e.Class),
		ExitCode:  e.ExitCode,
		Signal:    text(e.Signal),
		Gpu:       text(e.GPU),
		IsError:   e.IsError,
		StartedAt: e.StartedAt,
		EndedAt:   instant(e.EndedAt),
		Loss:      toLoss(e.Loss),
	}
	if !e.EndedAt.IsZero() {
		seconds := e.Elapsed.Seconds()
		out.Seconds = &seconds
	}
	return out
}

func toOutput(x run.ExecutionID, o run.Output) *model.ExecutionOutput {
	return &model.ExecutionOutput{
		Stream: model.OutputStream(o.Stream),
		Bytes:  o.Bytes,
		URL:    "/executions/" + string(x) + "/" + strings.ToLower(string(o.Stream)),
	}
}

func toLoss(l run.Loss) *model.Loss {
	return &model.Loss{
		BytesRead:       l.BytesRead,
		LinesRead:       l.LinesRead,
		LinesParsed:     l.LinesParsed,
		LinesRejected:   l.LinesRejected,
		BytesTruncated:  l.BytesTruncated,
		BytesNotKept:    l.BytesNotKept,
		RejectedSamples: l.RejectedSamples,
	}
}

func toArtifact(a run.Artifact) *model.Artifact {
	return &model.Artifact{Path: a.Path, Kind: a.Kind, Size: a.Size, Sha256: a.SHA256, ModifiedAt: a.Modified}
}

func toQuestion(q run.Question) *model.Question {
	return &model.Question{
		ID:         q.ID,
		RunID:      string(q.Run),
		Text:       q.Text,
		Schema:     scalar.JSON(q.Schema),
		AskedAt:    q.AskedAt,
		AnsweredAt: instant(q.AnsweredAt),
		State:      model.QuestionState(q.State),
		Answer:     scalar.JSON(q.Answer),
	}
}

func toSeries(s run.Series) *model.MetricSeries {
	return &model.MetricSeries{
		Name:    s.Key.Name,
		RunID:   string(s.Key.Run),
		RunTag:  text(s.Key.RunTag),
		Stage:   text(s.Key.Stage),
		Attempt: s.Key.Attempt,
		AsOfSeq: s.AsOfSeq,
		Buckets: each(s.Buckets, toBucket),
	}
}

func toBucket(b run.Bucket) *model.MetricBucket {
	out := &model.MetricBucket{
		FromStep:         b.FromStep,
		ToStep:           b.ToStep,
		Count:            b.Count,
		FirstAt:          b.FirstAt,
		LastAt:           b.LastAt,
		Nan:              int(b.NaN),
		PositiveInfinity: int(b.PositiveInfinity),
		NegativeInfinity: int(b.NegativeInfinity),
	}
	if b.Finite() > 0 {
		out.Min, out.Max, out.First, out.Last = &b.Min, &b.Max, &b.First, &b.Last
	}
	return out
}

func toPoint(p run.Point) *model.MetricPoint {
	out := &model.MetricPoint{Step: p.Step, Name: p.Name, RunTag: text(p.RunTag), Stage: text(p.Stage), At: p.At}
	switch p.Special {
	case run.Finite:
		out.Value = &p.Value
	case run.NaN:
		out.Special = named[model.FloatSpecial](model.FloatSpecialNan)
	case run.PositiveInfinity:
		out.Special = named[model.FloatSpecial](model.FloatSpecialPositiveInfinity)
	case run.NegativeInfinity:
		out.Special = named[model.FloatSpecial](model.FloatSpecialNegativeInfinity)
	}
	return out
}

func toAgent(a AgentInfo) *model.Agent {
	return &model.Agent{
		Name:     a.Name,
		Team:     text(a.Team),
		Role:     text(a.Role),
		Driver:   a.Driver,
		Provider: text(a.Provider),
		Model:    text(a.Model),
		Stage:    text(a.Stage),
		Problem:  text(a.Problem),
	}
}

func toServer(s ServerInfo) *model.ServerInfo {
	return &model.ServerInfo{
		Version: s.Version,
		Replica: s.Replica,
		Store:   s.Store,
		Sandboxes: each(s.Sandboxes, func(b SandboxInfo) *model.SandboxInfo {
			return &model.SandboxInfo{Backend: b.Backend, Available: b.Available, Reason: text(b.Reason), Isolation: text(b.Isolation)}
		}),
		Prices: toPrices(s.Prices),
	}
}
