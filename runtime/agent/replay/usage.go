package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/meter"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/textfile"
)

// usage books a model call, by the counts of the turn or by what files say.
func (p *player) usage(ctx context.Context, i int, u agent.UsageTurn) error {
	if u.Format != "" {
		return p.usageFiles(ctx, i, u)
	}
	cost, err := agent.NanoUSD(u.CostUSD)
	if err != nil {
		return fmt.Errorf("booking the usage of turn %d: %w", i+1, err)
	}
	raw, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encoding the usage of turn %d: %w", i+1, err)
	}
	r := run.UsageRecord{
		Run: p.task.Run.ID, RequestKey: key(i), Kind: run.ModelCall, At: time.Now(), Rank: run.FromResult,
		Provenance: run.Measured, Provider: u.Provider, Model: u.Model, CostNanoUSD: cost, Raw: raw,
		Tokens: run.Tokens{
			Input: u.Input, CacheRead: u.CacheRead, CacheWriteShort: u.CacheWriteShort,
			CacheWriteLong: u.CacheWriteLong, Output: u.Output, Reasoning: u.Reasoning,
		},
	}
	if r.Provider == "" {
		r.Provider = p.task.Run.Provider
	}
	if r.Model == "" {
		r.Model = p.task.Run.Model
	}
	if cost != nil {
		r.CostSource = run.AgentReported
	}
	return p.host.Usage(ctx, r)
}

// usageFiles books what files in the workspace tell. A stream is this run's own:
// the same totals, played again, are used again.
func (p *player) usageFiles(ctx context.Context, i int, u agent.UsageTurn) error {
	source := meter.Source{
		Format: u.Format, Model: u.Model, Provider: u.Provider, Prompt: p.task.Run.Input.Prompt,
		Scope: key(i), Stream: u.Stream, StreamPrefix: string(p.task.Run.ID) + "/",
	}
	if source.Model == "" {
		source.Model = p.task.Run.Model
	}
	r, err := meter.NewReader(source)
	if err != nil {
		return fmt.Errorf("reading the usage of turn %d: %w", i+1, err)
	}
	book := func(records []run.UsageRecord) error {
		for _, rec := range records {
			if rec.Provider == "" {
				rec.Provider = p.task.Run.Provider
			}
			if err := p.host.Usage(ctx, rec); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range u.Names() {
		if err := p.usageFile(ctx, r, name, book); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("booking the usage of turn %d from %q: %w", i+1, name, err)
		}
	}
	records, report := r.Close()
	if err := book(records); err != nil {
		return err
	}
	if len(report.Incomplete) > 0 {
		return p.host.Emit(ctx, &run.Warning{
			Text: fmt.Sprintf("The usage of turn %d is incomplete: %s.", i+1, strings.Join(report.Incomplete, "; ")),
		})
	}
	return nil
}

// usageFile reads one file. The agent's commands write into the workspace, so
// what stands there may be anything: only a regular file inside it is read.
func (p *player) usageFile(ctx context.Context, r *meter.Reader, name string, book func([]run.UsageRecord) error) error {
	root, err := os.OpenRoot(p.task.Workspace)
	if err != nil {
		return fmt.Errorf("opening the workspace: %w", err)
	}
	defer func() { _ = root.Close() }() // only read
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if path := new(fs.PathError); errors.As(err, &path) {
		return path.Err // who calls names the file
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err == nil {
		err = textfile.Check(info)
	}
	if err != nil {
		return err
	}
	return r.Read(ctx, f, book)
}
