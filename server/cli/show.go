package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ShowCommand shows one run or session.
type ShowCommand struct {
	Connection `embed:""`

	ID string `arg:"" help:"A run or a session."`
}

// Run implements the command.
func (s *ShowCommand) Run(ctx context.Context, i *IO) error {
	c, err := s.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case isRun(s.ID):
		r, err := c.Run(ctx, s.ID)
		if err != nil {
			return err
		}
		if s.JSON {
			return i.jsonLine(r.Raw)
		}
		return i.print("%s", r.text(c))
	case strings.HasPrefix(s.ID, "ses_"):
		return s.session(ctx, i, c)
	}
	return missing(s.ID)
}

func (s *ShowCommand) session(ctx context.Context, i *IO, c *Client) error {
	session, err := c.Session(ctx, s.ID)
	if err != nil {
		return err
	}
	var out struct{ Runs Page[Run] }
	if err := c.Do(ctx, runsText, pageVariables(pageSize, "", map[string]any{"sessionId": s.ID}), &out); err != nil {
		return err
	}
	if s.JSON {
		return i.document(struct {
			Session json.RawMessage `json:"session"`
			Runs    list            `json:"runs"`
		}{session.Raw, rawOf(out.Runs, func(r Run) json.RawMessage { return r.Raw })})
	}
	var b lines
	b.add("session", session.ID)
	b.add("title", session.Title)
	b.add("state", session.State)
	b.add("created", stamp(&session.CreatedAt))
	b.add("events", strconv.FormatInt(int64(session.LastSeq), 10))
	b.add("page", c.PageURL(session.ID))
	if err := i.print("%s\n", b.String()); err != nil {
		return err
	}
	return i.runs(out.Runs)
}

// lines are names with values, aligned; empty values are left out.
type lines struct{ strings.Builder }

func (l *lines) add(name, value string) {
	if value = oneLine(value); value != "" {
		fmt.Fprintf(l, "%-11s %s\n", name, value)
	}
}

func (r *Run) text(c *Client) string {
	var b lines
	b.add("run", r.ID)
	b.add("session", r.Session.ID)
	b.add("page", c.PageURL(r.Session.ID))
	if r.Parent != nil {
		b.add("parent", r.Parent.ID)
	}
	b.add("status", strings.TrimSpace(string(r.Status)+" "+string(r.ExitReason)))
	b.add("error", headline(r.Error))
	b.add("agent", r.Agent)
	b.add("stage", r.Stage)
	b.add("model", r.Model)
	if r.Attempt > 1 {
		b.add("attempt", strconv.Itoa(r.Attempt))
	}
	b.add("prompt", clip(r.Input.Prompt, 500))
	b.add("command", ShellWords(r.Input.Command))
	if r.Input.Code != "" {
		b.add("code", r.Input.lines())
	}
	b.add("sandbox", object(r.Input.Sandbox))
	b.add("labels", object(r.Labels))
	b.add("config", object(r.Config))
	b.add("created", stamp(&r.CreatedAt))
	b.add("started", stamp(r.StartedAt))
	b.add("ended", stamp(r.EndedAt))
	b.add("took", took(r))
	b.add("usage", r.UsageInclusive.text())
	for _, e := range r.Executions {
		b.add("execution", e.text())
		for _, o := range e.Outputs {
			b.add(strings.ToLower(o.Stream), size(int64(o.Bytes))+"  "+c.URL()+o.URL)
		}
	}
	for _, s := range r.Metrics {
		b.add("metric", s.text())
	}
	for _, f := range r.Artifacts {
		b.add("file", f.Path+"  "+size(int64(f.Size)))
	}
	for _, q := range r.Questions {
		b.add("question", q.ID+" "+strings.ToLower(q.State)+": "+q.Text)
	}
	for _, child := range r.Children {
		b.add("child", child.ID+" "+child.Agent+" "+child.Status)
	}
	if r.Abort != nil {
		_, rest, _ := strings.Cut(r.Abort.text(), "\n")
		b.add("abort", outcomeText(r.Abort))
		fmt.Fprint(&b, rest)
	}
	if r.Result != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimRight(clean(r.Result), "\n"))
	}
	return b.String()
}

// headline is the line of an error that says most, its last one, behind the exit
// code where it begins with that.
func headline(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if len(lines) > 1 && strings.HasPrefix(lines[0], "the command ended ") {
		return lines[0] + " " + last
	}
	return last
}

// lines says how long the code is.
func (in Input) lines() string {
	return count(strings.Count(strings.TrimSuffix(in.Code, "\n"), "\n")+1, "line") + " of Python"
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// object is a JSON object in one line, or nothing for an empty one.
func object(raw json.RawMessage) string {
	if text := string(raw); text != "null" && text != "{}" {
		return text
	}
	return ""
}

func (u Usage) text() string {
	var parts []string
	for _, p := range []struct {
		n    Long
		name string
	}{
		{u.Input, "input"},
		{u.CacheRead, "cache read"},
		{u.CacheWriteShort + u.CacheWriteLong, "cache write"},
		{u.Output, "output"},
	} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s tokens", p.n, p.name))
		}
	}
	if u.ComputeSeconds > 0 {
		parts = append(parts, fmt.Sprintf("%.1f s of compute", u.ComputeSeconds))
	}
	if u.CostUsd != nil {
		parts = append(parts, money(u.CostUsd))
	}
	if u.Unpriced > 0 {
		parts = append(parts, count(u.Unpriced, "record")+" without a known price")
	}
	return strings.Join(parts, ", ")
}

func (e Execution) text() string {
	parts := []string{e.ID, e.Backend}
	if e.Isolation != "" {
		parts = append(parts, e.Isolation)
	}
	if e.ExitClass == "" {
		return strings.Join(append(parts, "still runs"), " ")
	}
	parts = append(parts, string(e.ExitClass))
	if e.ExitCode != nil {
		parts = append(parts, fmt.Sprintf("exit code %d", *e.ExitCode))
	}
	if e.Signal != "" {
		parts = append(parts, e.Signal)
	}
	if e.Seconds != nil {
		parts = append(parts, fmt.Sprintf("%.1f s", *e.Seconds))
	}
	parts = append(parts, fmt.Sprintf("%d lines", e.Loss.LinesRead))
	if e.Loss.LinesRejected > 0 {
		parts = append(parts, fmt.Sprintf("%d rejected", e.Loss.LinesRejected))
	}
	if e.Loss.BytesTruncated > 0 {
		parts = append(parts, size(int64(e.Loss.BytesTruncated))+" dropped")
	}
	return strings.Join(parts, " ")
}

func (s Series) text() string {
	name := s.Name
	if s.RunTag != "" {
		name += " (" + s.RunTag + ")"
	}
	if len(s.Buckets) == 0 {
		return name
	}
	last := s.Buckets[len(s.Buckets)-1]
	var low, high *float64
	for _, b := range s.Buckets {
		if b.Min != nil && (low == nil || *b.Min < *low) {
			low = b.Min
		}
		if b.Max != nil && (high == nil || *b.Max > *high) {
			high = b.Max
		}
	}
	return fmt.Sprintf("%s  last %s, min %s, max %s", name, number(last.Last), number(low), number(high))
}

// number is a value in six digits; one that is not finite travels as null.
func number(f *float64) string {
	if f == nil {
		return "not finite"
	}
	return strconv.FormatFloat(*f, 'g', 6, 64)
}
