package graph

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/graph/model"
	"github.com/weirhq/weir/graph/scalar"
	"github.com/weirhq/weir/runtime/run"
)

func toEvents(events []*run.Event) []model.Event { return each(events, toEvent) }

// base holds the fields that all event types share.
type base struct {
	seq               int64
	at                time.Time
	typ               model.EventType
	session           string
	run, agent, stage *string
}

// toEvent gives the GraphQL form of an event. It cannot fail: an event that
// cannot be read shows as a Warning in its place, so that it neither ends the
// streams of its session nor leaves a hole in them.
func toEvent(e *run.Event) model.Event {
	b := base{
		seq: e.Seq, at: e.At, typ: model.EventType(e.Type), session: string(e.Session),
		run: text(e.Run), agent: text(e.Agent), stage: text(e.Stage),
	}
	p, err := e.Payload()
	if err != nil {
		return unreadable(b, err)
	}
	switch p := p.(type) {
	case *run.RunStarted:
		return &model.RunStarted{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Prompt: text(p.Prompt), ParentID: text(p.Parent), Driver: p.Driver, Model: text(p.Model), Attempt: p.Attempt,
		}
	case *run.StateChanged:
		return &model.StateChanged{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			State: p.State, Status: named[model.RunStatus](p.Status),
		}
	case *run.MessageDelta:
		return &model.MessageDelta{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			MessageID: p.MessageID, Text: p.Text,
		}
	case *run.AgentMessage:
		return &model.AgentMessage{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			MessageID: p.MessageID, Text: p.Text, Partial: p.Partial,
		}
	case *run.AgentThought:
		return &model.AgentThought{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Text: p.Text,
		}
	case *run.ToolCallStarted:
		return &model.ToolCallStarted{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			CallID: p.CallID, Name: p.Name, Arguments: scalar.JSON(p.Arguments),
		}
	case *run.ToolCallFinished:
		return &model.ToolCallFinished{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			CallID: p.CallID, Name: p.Name, Text: p.Text, IsError: p.IsError, Seconds: p.Seconds,
		}
	case *run.ExecutionStarted:
		return &model.ExecutionStarted{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			ExecutionID: string(p.ExecutionID), Backend: text(p.Backend), Isolation: text(p.Isolation),
			Command: p.Command, ToolCallID: text(p.CallID),
		}
	case *run.OutputWritten:
		return &model.OutputWritten{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			ExecutionID: string(p.ExecutionID), Stream: model.OutputStream(p.Stream), Text: p.Text, Offset: p.Offset,
		}
	case *run.ExecutionFinished:
		return &model.ExecutionFinished{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			ExecutionID: string(p.ExecutionID), ExitClass: model.ExitClass(p.ExitClass), ExitCode: p.ExitCode,
			Signal: text(p.Signal), IsError: p.IsError, Seconds: p.Seconds, Loss: toLoss(p.Loss),
		}
	case *run.MetricsLogged:
		return &model.MetricsLogged{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			ExecutionID: string(p.ExecutionID), Points: each(p.Points, toPoint),
		}
	case *run.ChartConfigured:
		return &model.ChartConfigured{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Config: scalar.JSON(p.Config),
		}
	case *run.MediaLogged:
		if !model.MediaKind(strings.ToUpper(p.Kind)).IsValid() {
			return unreadable(b, fmt.Errorf("unknown kind of media %q", p.Kind))
		}
		return &model.MediaLogged{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Kind: model.MediaKind(strings.ToUpper(p.Kind)), Key: p.Key, Step: p.Step, RunTag: text(p.RunTag), Data: scalar.JSON(p.Data),
		}
	case *run.UsageRecorded:
		return &model.UsageRecorded{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			RequestKey: p.RequestKey, Provider: text(p.Provider), Model: text(p.Model), Tier: text(p.Tier), UsageStream: text(p.Stream),
			Backend: text(p.Backend), Gpu: text(p.GPU), IsError: p.IsError, Usage: recordUsage(p), ToolCalls: callCounts(p.ToolCalls),
			ComputedNanoUsd: p.ComputedNanoUSD, PriceID: text(p.PriceID), Superseded: p.Superseded,
		}
	case *run.BudgetReached:
		return toBudgetReached(b, p)
	case *run.QuestionAsked:
		return &model.QuestionAsked{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			QuestionID: p.QuestionID, Text: p.Text, Schema: scalar.JSON(p.Schema),
		}
	case *run.QuestionAnswered:
		return &model.QuestionAnswered{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			QuestionID: p.QuestionID, Outcome: model.QuestionState(p.Outcome), Answer: scalar.JSON(p.Answer),
		}
	case *run.ReportReady:
		return &model.ReportReady{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Path: p.Path,
		}
	case *run.FilesReady:
		return &model.FilesReady{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Files: each(p.Files, toFile),
		}
	case *run.HookFinished:
		return &model.HookFinished{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Name: p.Name, IsError: p.IsError, Problem: text(p.Text),
		}
	case *run.AbortRequested:
		return &model.AbortRequested{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Reason: text(p.Reason),
		}
	case *run.AgentAborted:
		return &model.AgentAborted{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Reason: text(p.Reason),
		}
	case *run.AgentTimedOut:
		return &model.AgentTimedOut{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Text: p.Text,
		}
	case *run.AgentErrored:
		return &model.AgentErrored{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Text: p.Text,
		}
	case *run.AgentEscalated:
		return &model.AgentEscalated{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Text: p.Text, Crashes: p.Crashes,
		}
	case *run.RunEnded:
		return &model.RunEnded{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Status: named[model.RunStatus](p.Status), ExitReason: named[model.ExitReason](p.ExitReason), Error: text(p.Error),
		}
	case *run.Warning:
		return &model.Warning{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			Text: p.Text,
		}
	case *run.GapEvent:
		return &model.GapEvent{
			Seq: b.seq, At: b.at, Type: b.typ, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
			FromSeq: p.From, ToSeq: p.To,
		}
	}
	return unreadable(b, fmt.Errorf("event type %q has no form in the API", e.Type))
}

func unreadable(b base, err error) model.Event {
	return &model.Warning{
		Seq: b.seq, At: b.at, Type: model.EventTypeWarning, SessionID: b.session, RunID: b.run, Agent: b.agent, Stage: b.stage,
		Text: fmt.Sprintf("the %s event %d cannot be shown: %v", b.typ, b.seq, err),
	}
}

func recordUsage(p *run.UsageRecorded) *model.Usage {
	u := run.Usage{Tokens: p.Tokens, ComputeMicros: p.ComputeMicros, CostNanoUSD: p.CostNanoUSD, CostSource: p.CostSource, Provenance: p.Provenance, Records: 1}
	if p.CostNanoUSD == nil {
		u.Unpriced = 1
	}
	return toUsage(u)
}

func callCounts(calls map[string]int64) scalar.JSON {
	if len(calls) == 0 {
		return nil
	}
	b, _ := json.Marshal(calls) // strings and integers always encode
	return scalar.JSON(b)
}

func toFile(f run.FileInfo) *model.EventFile {
	return &model.EventFile{Path: f.Path, Kind: f.Kind, Size: f.Size, Sha256: f.SHA256}
}
