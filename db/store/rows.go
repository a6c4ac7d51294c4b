package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/weirhq/weir/runtime/run"
)

// usageSums are the columns that runs, snapshots and rollups share.
type usageSums struct {
	Input           int64  `bun:"input_tokens"`
	CacheRead       int64  `bun:"cache_read_tokens"`
	CacheWriteShort int64  `bun:"cache_write_short_tokens"`
	CacheWriteLong  int64  `bun:"cache_write_long_tokens"`
	Output          int64  `bun:"output_tokens"`
	Reasoning       int64  `bun:"reasoning_tokens"`
	ComputeUS       int64  `bun:"compute_us"`
	CostNanoUSD     *int64 `bun:"cost_nano_usd"`
	CostSource      string `bun:"cost_source"`
	Provenance      string `bun:"provenance"`
	Records         int64  `bun:"records"`
	Unpriced        int64  `bun:"unpriced"`
}

func (u usageSums) usage() run.Usage {
	return run.Usage{
		Tokens:        run.Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWriteShort: u.CacheWriteShort, CacheWriteLong: u.CacheWriteLong, Output: u.Output, Reasoning: u.Reasoning},
		ComputeMicros: u.ComputeUS, CostNanoUSD: u.CostNanoUSD, CostSource: run.CostSource(u.CostSource),
		Provenance: run.Provenance(u.Provenance), Records: u.Records, Unpriced: u.Unpriced,
	}
}

func sumsOf(u run.Usage) usageSums {
	return usageSums{
		Input: u.Input, CacheRead: u.CacheRead, CacheWriteShort: u.CacheWriteShort, CacheWriteLong: u.CacheWriteLong,
		Output: u.Output, Reasoning: u.Reasoning, ComputeUS: u.ComputeMicros, CostNanoUSD: u.CostNanoUSD,
		CostSource: string(u.CostSource), Provenance: string(u.Provenance), Records: u.Records, Unpriced: u.Unpriced,
	}
}

type runRow struct {
	bun.BaseModel `bun:"table:runs,alias:r"`

	ID            string  `bun:"id,pk"`
	Session       string  `bun:"session_id"`
	Parent        string  `bun:"parent_id"`
	Agent         string  `bun:"agent"`
	Team          string  `bun:"team"`
	Stage         string  `bun:"stage"`
	Driver        string  `bun:"driver"`
	Provider      string  `bun:"provider"`
	Model         string  `bun:"model"`
	Status        string  `bun:"status"`
	Reason        string  `bun:"reason"`
	Attempt       int64   `bun:"attempt"`
	RestartOf     string  `bun:"restart_of"`
	CreatedUS     int64   `bun:"created_us"`
	NotBeforeUS   int64   `bun:"not_before_us"`
	StartedUS     int64   `bun:"started_us"`
	EndedUS       *int64  `bun:"ended_us"`
	Error         string  `bun:"error"`
	Result        string  `bun:"result"`
	Input         string  `bun:"input"`
	Definition    string  `bun:"definition"`
	Owner         string  `bun:"owner"`
	Token         int64   `bun:"token"`
	IdemKey       *string `bun:"idem_key"`
	IdemHash      string  `bun:"idem_hash"`
	AbortUS       int64   `bun:"abort_requested_us"`
	SignalledUS   int64   `bun:"abort_signalled_us"`
	ProcessGoneUS int64   `bun:"abort_process_gone_us"`
	SandboxGoneUS int64   `bun:"abort_sandbox_gone_us"`
	Survivors     string  `bun:"abort_survivors"`
	Outcome       string  `bun:"abort_outcome"`
	Silent        bool    `bun:"abort_silent"`
	Trigger       string  `bun:"abort_trigger"`
	AbortReason   string  `bun:"abort_reason"`
	usageSums
}

func (r *runRow) run() (run.Run, error) {
	out := run.Run{
		ID: run.ID(r.ID), Session: run.SessionID(r.Session), Parent: run.ID(r.Parent),
		Agent: r.Agent, Team: r.Team, Stage: r.Stage, Driver: r.Driver, Provider: r.Provider, Model: r.Model,
		State:   run.State{Status: run.Status(r.Status), Reason: run.ExitReason(r.Reason)},
		Attempt: int(r.Attempt), RestartOf: run.ID(r.RestartOf),
		CreatedAt: timeOf(r.CreatedUS), NotBefore: timeOf(r.NotBeforeUS), StartedAt: timeOf(r.StartedUS),
		Error: r.Error, Result: r.Result, Usage: r.usage(), Owner: r.Owner, Token: r.Token,
	}
	if r.EndedUS != nil {
		out.EndedAt = timeOf(*r.EndedUS)
	}
	if err := json.Unmarshal([]byte(r.Input), &out.Input); err != nil {
		return out, fmt.Errorf("decoding the input of run %s: %w", r.ID, err)
	}
	if r.Definition != "" {
		out.Definition = json.RawMessage(r.Definition)
	}
	if r.AbortUS != 0 {
		receipt := run.Receipt{
			Run: out.ID, RequestedAt: timeOf(r.AbortUS), SignalledAt: timeOf(r.SignalledUS), ProcessGoneAt: timeOf(r.ProcessGoneUS),
			SandboxGoneAt: timeOf(r.SandboxGoneUS), Outcome: run.AbortOutcome(r.Outcome), Silent: r.Silent,
			Trigger: run.Trigger(r.Trigger), Reason: r.AbortReason,
		}
		if r.Survivors != "" {
			if err := json.Unmarshal([]byte(r.Survivors), &receipt.Survivors); err != nil {
				return out, fmt.Errorf("decoding the survivors of run %s: %w", r.ID, err)
			}
		}
		out.Abort = &receipt
	}
	return out, nil
}

func rowOfRun(r run.Run) (*runRow, error) {
	input, err := json.Marshal(r.Input)
	if err != nil {
		return nil, run.Errorf(run.Invalid, "the input of the run cannot be stored: %w", err)
	}
	row := &runRow{
		ID: string(r.ID), Session: string(r.Session), Parent: string(r.Parent),
		Agent: clean(r.Agent), Team: clean(r.Team), Stage: clean(r.Stage), Driver: clean(r.Driver), Provider: clean(r.Provider), Model: clean(r.Model),
		Status: string(r.State.Status), Reason: string(r.State.Reason), Attempt: int64(max(r.Attempt, 1)), RestartOf: string(r.RestartOf),
		CreatedUS: micros(r.CreatedAt), NotBeforeUS: micros(r.NotBefore), StartedUS: micros(r.StartedAt), Error: clean(r.Error), Result: clean(r.Result),
		Input: cleanJSON(input), Definition: cleanJSON(r.Definition), Owner: clean(r.Owner), Token: r.Token,
		usageSums: sumsOf(r.Usage),
	}
	if !r.EndedAt.IsZero() {
		us := r.EndedAt.UnixMicro()
		row.EndedUS = &us
	}
	if a := r.Abort; a != nil {
		row.setReceipt(a)
	}
	return row, nil
}

func (r *runRow) setReceipt(a *run.Receipt) {
	r.AbortUS, r.SignalledUS, r.ProcessGoneUS, r.SandboxGoneUS = micros(a.RequestedAt), micros(a.SignalledAt), micros(a.ProcessGoneAt), micros(a.SandboxGoneAt)
	r.Survivors, r.Outcome, r.Silent, r.Trigger, r.AbortReason = survivorsJSON(a.Survivors), string(a.Outcome), a.Silent, string(a.Trigger), clean(a.Reason)
}

func survivorsJSON(pids []int) string {
	if len(pids) == 0 {
		return ""
	}
	b, _ := json.Marshal(pids) // a list of integers always encodes
	return string(b)
}

type executionRow struct {
	bun.BaseModel `bun:"table:executions,alias:x"`

	ID        string `bun:"id,pk"`
	Run       string `bun:"run_id"`
	Backend   string `bun:"backend"`
	Isolation string `bun:"isolation"`
	Command   string `bun:"command"`
	StartedUS int64  `bun:"started_us"`
	EndedUS   int64  `bun:"ended_us"`
	Class     string `bun:"class"`
	ExitCode  *int64 `bun:"exit_code"`
	Signal    string `bun:"signal"`
	ElapsedUS int64  `bun:"elapsed_us"`
	GPU       string `bun:"gpu"`
	IsError   bool   `bun:"is_error"`
	Loss      string `bun:"loss"`
	Message   string `bun:"err_message"`
}

func rowOfExecution(e run.Execution) (*executionRow, error) {
	command, err := json.Marshal(e.Command)
	if err != nil {
		return nil, fmt.Errorf("encoding a command: %w", err)
	}
	loss, err := json.Marshal(e.Loss)
	if err != nil {
		return nil, fmt.Errorf("encoding a loss account: %w", err)
	}
	row := &executionRow{
		ID: string(e.ID), Run: string(e.Run), Backend: clean(e.Backend), Isolation: clean(e.Isolation), Command: cleanJSON(command),
		StartedUS: micros(e.StartedAt), EndedUS: micros(e.EndedAt), Class: string(e.Class), Signal: clean(e.Signal),
		ElapsedUS: e.Elapsed.Microseconds(), GPU: clean(e.GPU), IsError: e.IsError, Loss: cleanJSON(loss), Message: clean(e.ErrMessage),
	}
	if e.ExitCode != nil {
		code := int64(*e.ExitCode)
		row.ExitCode = &code
	}
	return row, nil
}

func (r *executionRow) execution() (run.Execution, error) {
	e := run.Execution{
		ID: run.ExecutionID(r.ID), Run: run.ID(r.Run), Backend: r.Backend, Isolation: r.Isolation,
		StartedAt: timeOf(r.StartedUS), EndedAt: timeOf(r.EndedUS), Class: run.ExitClass(r.Class), Signal: r.Signal,
		Elapsed: time.Duration(r.ElapsedUS) * time.Microsecond, GPU: r.GPU, IsError: r.IsError, ErrMessage: r.Message,
	}
	if r.ExitCode != nil {
		code := int(*r.ExitCode)
		e.ExitCode = &code
	}
	if err := json.Unmarshal([]byte(r.Command), &e.Command); err != nil {
		return e, fmt.Errorf("decoding the command of execution %s: %w", r.ID, err)
	}
	if err := json.Unmarshal([]byte(r.Loss), &e.Loss); err != nil {
		return e, fmt.Errorf("decoding the losses of execution %s: %w", r.ID, err)
	}
	return e, nil
}

type artifactRow struct {
	bun.BaseModel `bun:"table:artifacts,alias:a"`

	Run        string `bun:"run_id,pk"`
	Path       string `bun:"path,pk"`
	Session    string `bun:"session_id"`
	Kind       string `bun:"kind"`
	Size       int64  `bun:"size"`
	SHA256     string `bun:"sha256"`
	ModifiedUS int64  `bun:"modified_us"`
}

func (r *artifactRow) artifact() run.Artifact {
	return run.Artifact{Run: run.ID(r.Run), Path: r.Path, Kind: r.Kind, Size: r.Size, SHA256: r.SHA256, Modified: timeOf(r.ModifiedUS)}
}

type questionRow struct {
	bun.BaseModel `bun:"table:questions,alias:q"`

	ID         string `bun:"id,pk"`
	Run        string `bun:"run_id"`
	Session    string `bun:"session_id"`
	Key        string `bun:"key"`
	Text       string `bun:"text"`
	Schema     string `bun:"schema"`
	AskedUS    int64  `bun:"asked_us"`
	AnsweredUS int64  `bun:"answered_us"`
	State      string `bun:"state"`
	Answer     string `bun:"answer"`
}

func rowOfQuestion(q run.Question) *questionRow {
	return &questionRow{
		ID: q.ID, Run: string(q.Run), Session: string(q.Session), Key: clean(q.Key), Text: clean(q.Text), Schema: cleanJSON(q.Schema),
		AskedUS: micros(q.AskedAt), AnsweredUS: micros(q.AnsweredAt), State: string(q.State), Answer: cleanJSON(q.Answer),
	}
}

func (r *questionRow) question() run.Question {
	return run.Question{
		ID: r.ID, Run: run.ID(r.Run), Session: run.SessionID(r.Session), Key: r.Key, Text: r.Text, Schema: rawJSON(r.Schema),
		AskedAt: timeOf(r.AskedUS), AnsweredAt: timeOf(r.AnsweredUS), State: run.QuestionState(r.State), Answer: rawJSON(r.Answer),
	}
}

func rawJSON(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
