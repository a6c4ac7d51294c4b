package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// Paging bounds a list.
type Paging struct {
	Limit int    `help:"At most this many." default:"20" placeholder:"N"`
	After string `help:"Begin after this cursor, which the page before has printed." placeholder:"CURSOR"`
}

const pageSize = 100

// pagesOf reads pages until the limit is reached or the list has ended.
func pagesOf[T any](p Paging, page func(first int, after string) (Page[T], error)) (Page[T], error) {
	if p.Limit < 1 {
		return Page[T]{}, usagef("--limit %d must be at least 1", p.Limit)
	}
	all := Page[T]{EndCursor: p.After, HasMore: true}
	for all.HasMore && len(all.Nodes) < p.Limit {
		next, err := page(min(pageSize, p.Limit-len(all.Nodes)), all.EndCursor)
		if err != nil {
			return all, err
		}
		all.Nodes = append(all.Nodes, next.Nodes...)
		all.HasMore = next.HasMore && len(next.Nodes) > 0
		if next.EndCursor != "" {
			all.EndCursor = next.EndCursor
		}
	}
	return all, nil
}

// rawOf is the JSON of a page.
func rawOf[T any](p Page[T], raw func(T) json.RawMessage) list {
	l := list{Nodes: []json.RawMessage{}, HasMore: p.HasMore}
	if p.EndCursor != "" {
		l.EndCursor = &p.EndCursor
	}
	for _, n := range p.Nodes {
		l.Nodes = append(l.Nodes, raw(n))
	}
	return l
}

func pageVariables(first int, after string, filter map[string]any) map[string]any {
	v := map[string]any{"first": first, "filter": filter}
	if after != "" {
		v["after"] = after
	}
	return v
}

// SessionsCommand lists sessions.
type SessionsCommand struct {
	Connection `embed:""`
	Paging     `embed:""`

	Search string `help:"Part of the title or of the id." placeholder:"TEXT"`
	Live   bool   `help:"Only those with a live run."`
}

// Run implements the command.
func (s *SessionsCommand) Run(ctx context.Context, i *IO) error {
	c, err := s.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	filter := map[string]any{}
	if s.Search != "" {
		filter["search"] = s.Search
	}
	if s.Live {
		filter["live"] = true
	}
	page, err := pagesOf(s.Paging, func(first int, after string) (Page[Session], error) {
		var out struct{ Sessions Page[Session] }
		err := c.Do(ctx, sessionsText, pageVariables(first, after, filter), &out)
		return out.Sessions, err
	})
	if err != nil {
		return err
	}
	if s.JSON {
		return i.document(rawOf(page, func(s Session) json.RawMessage { return s.Raw }))
	}
	return i.sessions(page)
}

// sessions prints a table of sessions.
func (i *IO) sessions(page Page[Session]) error {
	rows := [][]string{{"SESSION", "STATE", "CREATED", "EVENTS", "LIVE RUN", "TITLE"}}
	for _, s := range page.Nodes {
		live := ""
		if s.ActiveRun != nil {
			live = s.ActiveRun.Agent + " " + strings.ToLower(s.ActiveRun.Status)
		}
		rows = append(rows, []string{s.ID, s.State, stamp(&s.CreatedAt), fmt.Sprint(int64(s.LastSeq)), live, s.Title})
	}
	return i.table(rows, page.HasMore, "weir sessions", page.EndCursor, layout{drop: []int{3, 4, 2}, flexible: []int{5, 1}})
}

// RunsCommand lists runs.
type RunsCommand struct {
	Connection `embed:""`
	Paging     `embed:""`

	Session string   `help:"Only runs of this session." placeholder:"ID"`
	Status  []string `help:"Only runs in these states: QUEUED, RUNNING, WAITING, DONE, FAILED, TIMED_OUT, CANCELLED." placeholder:"STATUS"`
	Agent   string   `help:"Only runs of this agent." placeholder:"NAME"`
	Root    bool     `help:"Only runs without a parent."`
}

// Run implements the command.
func (r *RunsCommand) Run(ctx context.Context, i *IO) error {
	var known []string
	for _, s := range run.Statuses() {
		known = append(known, string(s))
	}
	status, err := words("--status", r.Status, known)
	if err != nil {
		return err
	}
	c, err := r.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	filter := map[string]any{}
	if r.Session != "" {
		filter["sessionId"] = r.Session
	}
	if len(status) > 0 {
		filter["status"] = status
	}
	if r.Agent != "" {
		filter["agent"] = r.Agent
	}
	if r.Root {
		filter["rootOnly"] = true
	}
	page, err := pagesOf(r.Paging, func(first int, after string) (Page[Run], error) {
		var out struct{ Runs Page[Run] }
		err := c.Do(ctx, runsText, pageVariables(first, after, filter), &out)
		return out.Runs, err
	})
	if err != nil {
		return err
	}
	if r.JSON {
		return i.document(rawOf(page, func(r Run) json.RawMessage { return r.Raw }))
	}
	return i.runs(page)
}

// runs prints a table of runs.
func (i *IO) runs(page Page[Run]) error {
	rows := [][]string{{"RUN", "STATUS", "AGENT", "CREATED", "TOOK", "COST", "WHAT"}}
	for n := range page.Nodes {
		r := &page.Nodes[n]
		rows = append(rows, []string{r.ID, state(r), r.Agent, stamp(&r.CreatedAt), took(r), money(r.Usage.CostUsd), what(r)})
	}
	return i.table(rows, page.HasMore, "weir runs", page.EndCursor, layout{drop: []int{5, 4, 3, 2}, flexible: []int{6, 2}})
}

// AgentsCommand lists the agents.
type AgentsCommand struct {
	Connection `embed:""`
}

// Run implements the command.
func (a *AgentsCommand) Run(ctx context.Context, i *IO) error {
	c, err := a.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	var out struct{ Agents []Agent }
	if err := c.Do(ctx, agentsText, nil, &out); err != nil {
		return err
	}
	if a.JSON {
		return i.document(rawOf(Page[Agent]{Nodes: out.Agents}, func(a Agent) json.RawMessage { return a.Raw }).Nodes)
	}
	rows := [][]string{{"AGENT", "DRIVER", "TEAM", "MODEL", "STAGE", "ROLE"}}
	for _, a := range out.Agents {
		role := a.Role
		if a.Problem != "" {
			role = "unusable: " + a.Problem
		}
		rows = append(rows, []string{a.Name, a.Driver, a.Team, a.Model, a.Stage, role})
	}
	return i.table(rows, false, "", "", layout{drop: []int{2, 4, 3, 1}, flexible: []int{5, 0}})
}

func (i *IO) table(rows [][]string, more bool, command, cursor string, l layout) error {
	if len(rows) == 1 {
		i.Notice("there is nothing to list")
		return nil
	}
	if err := i.Out.Table(rows, l); err != nil {
		return err
	}
	if more {
		i.Notice("there are more: " + command + " --after " + cursor)
	}
	return nil
}

// stamp is an instant in the user's time.
func stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// state is a run's status, with the reason where it says more.
func state(r *Run) string {
	switch r.ExitReason {
	case run.NoReason, run.Completed, run.ExitError, run.Timeout:
		return string(r.Status)
	case run.Crashed, run.Lost, run.Aborted, run.ReplacedReason, run.BudgetReason, run.Shutdown:
	}
	return string(r.Status) + " " + string(r.ExitReason)
}

func took(r *Run) string {
	if r.StartedAt == nil {
		return ""
	}
	end := time.Now()
	if r.EndedAt != nil {
		end = *r.EndedAt
	}
	return seconds(max(0, end.Sub(*r.StartedAt)))
}

func money(usd *float64) string {
	if usd == nil {
		return ""
	}
	return fmt.Sprintf("$%.4f", *usd)
}

// what says in a few words what a run was asked to do.
func what(r *Run) string {
	switch {
	case len(r.Input.Command) > 0:
		return ShellWords(r.Input.Command)
	case r.Input.Code != "":
		return r.Input.lines()
	}
	return r.Input.Prompt
}

// ShellWords writes an argument vector as one would type it.
func ShellWords(argv []string) string {
	var out []string
	for _, a := range argv {
		if a == "" || strings.ContainsAny(a, " \t\n'\"\\$`*?[]{}()<>|&;#~!") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out = append(out, a)
	}
	return strings.Join(out, " ")
}
