package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// TailCommand shows a session or a run as it goes on.
type TailCommand struct {
	Connection `embed:""`

	ID       string   `arg:"" help:"A run or a session."`
	After    int64    `help:"Begin after this event; the last one seen." placeholder:"SEQ"`
	Types    []string `help:"Only events of these types, such as RUN_ENDED,WARNING." placeholder:"TYPE"`
	Raw      bool     `help:"Only what the programs wrote."`
	NoFollow bool     `help:"End with what there is now."`
}

// errInterrupted is the cause of an end by Ctrl-C.
var errInterrupted = errors.New("interrupted")

// Run implements the command.
func (t *TailCommand) Run(ctx context.Context, i *IO) error {
	types, err := t.types()
	if err != nil {
		return err
	}
	if t.After < 0 {
		return usagef("--after %d is not the number of an event; they begin with 1", t.After)
	}
	c, err := t.client(i)
	if err != nil {
		return err
	}
	defer c.Close()
	q := Query{Session: t.ID, After: t.After, Types: types}
	view := i.view(t.JSON, t.Raw)
	defer view.close()
	take := func(e *Event) error {
		show(view, e)
		return view.failed()
	}
	if isRun(t.ID) {
		r, err := c.Run(ctx, t.ID)
		if err != nil {
			return err
		}
		after, err := begin(ctx, c, r)
		if err != nil {
			return err
		}
		q.Session, q.After = r.Session.ID, max(q.After, after)
		if len(types) > 0 { // needed to know whose events these are, and the end
			q.Types = append(slices.Clone(types), string(run.TypeRunStarted), string(run.TypeRunEnded))
		}
		take = family(t.ID, ending(t.ID, types, take))
	} else if !strings.HasPrefix(t.ID, "ses_") {
		return missing(t.ID)
	}
	seen := q.After
	counted := func(e *Event) error {
		err := take(e)
		if err == nil || errors.Is(err, ErrStop) {
			seen = int64(e.Seq)
		}
		return err
	}
	if t.NoFollow {
		err = pages(ctx, c, q, counted)
	} else {
		err = c.Follow(ctx, q, counted)
	}
	if ctx.Err() != nil {
		view.settle()
		i.Notice(fmt.Sprintf("left at event %d; weir tail %s --after %d goes on there", seen, t.ID, seen))
		return &ExitError{Code: CodeAborted}
	}
	return err
}

// ending stops at the end of a run, and shows of the types only those that were
// asked for.
func ending(id string, types []string, take func(*Event) error) func(*Event) error {
	return func(e *Event) error {
		if len(types) == 0 || e.Type == run.TypeGapEvent || slices.Contains(types, string(e.Type)) {
			if err := take(e); err != nil {
				return err
			}
		}
		if e.Type == run.TypeRunEnded && e.RunID == id {
			return ErrStop
		}
		return nil
	}
}

// pages reads a log up to where it ends now.
func pages(ctx context.Context, c *Client, q Query, take func(*Event) error) error {
	for {
		page, err := c.Events(ctx, q, 1000)
		if err != nil {
			return err
		}
		for _, e := range page.Nodes {
			if err := take(e); errors.Is(err, ErrStop) {
				return nil
			} else if err != nil {
				return err
			}
			q.After = int64(e.Seq)
		}
		if !page.HasMore || len(page.Nodes) == 0 {
			return nil
		}
	}
}

// types are the event types asked for, in the API's spelling.
func (t *TailCommand) types() ([]string, error) {
	if t.Raw {
		if len(t.Types) > 0 {
			return nil, usagef("--raw and --types exclude each other")
		}
		return []string{string(run.TypeOutputWritten)}, nil
	}
	var known []string
	for _, k := range run.EventTypes() {
		known = append(known, string(k))
	}
	return words("--types", t.Types, known)
}

// fewWords can all be named.
const fewWords = 12

// words checks words of the API, which may be written small and with hyphens.
func words(flag string, given, known []string) ([]string, error) {
	var out []string
	for _, text := range given {
		word := strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(text), "-", "_"))
		if !slices.Contains(known, word) {
			near := DidYouMean(word, known)
			if near != "" && len(known) > fewWords {
				return nil, usagef("%s %q is not known%s", flag, text, near)
			}
			return nil, usagef("%s %q is not one of %s%s", flag, text, strings.Join(known, ", "), near)
		}
		out = append(out, word)
	}
	return out, nil
}
