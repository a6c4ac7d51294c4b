package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirhq/weir/server/config"
)

// doctorCommand checks this machine as serve would use it. It removes what it makes for that.
type doctorCommand struct {
	config.Serve `embed:""`

	JSON bool `name:"json" help:"Print the checks as JSON."`
}

// verdict is how a check came out.
type verdict string

const (
	fine    verdict = "OK"
	warning verdict = "WARNING" // serve works, but not everything or not as well
	problem verdict = "PROBLEM" // serve does not start, or can run nothing in its sandbox
)

// finding is one checked thing.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	What    string  `json:"what"`
	Meaning string  `json:"meaning,omitempty"`
	Remedy  string  `json:"remedy,omitempty"` // one command or step
}

// errUnfit ends a doctor that found problems: what they are has been printed.
var errUnfit = errors.New("this machine is not ready for weir serve")

// Run implements the command.
func (d *doctorCommand) Run(c *call) error {
	found := d.examine(c.ctx, c.getenv)
	bad, doubtful := 0, 0
	for _, f := range found {
		switch f.Verdict {
		case problem:
			bad++
		case warning:
			doubtful++
		case fine:
		}
	}
	var err error
	if d.JSON {
		e := json.NewEncoder(c.stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(struct {
			OK      bool      `json:"ok"`
			Version string    `json:"version"`
			Checks  []finding `json:"checks"`
		}{bad == 0, Version(), found})
	} else {
		err = report(c.stdout, found, bad, doubtful)
	}
	switch {
	case err != nil:
		return fmt.Errorf("printing what was found: %w", err)
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	case bad > 0:
		return errUnfit
	}
	return nil
}

const (
	reportWidth = 80
	reportLeft  = 19 // where the text begins
)

// report prints the findings for a person. Remedies are not broken into lines:
// they are there to be copied.
func report(w io.Writer, found []finding, bad, doubtful int) error {
	var b strings.Builder
	for _, f := range found {
		head := fmt.Sprintf("%-8s %-9s ", f.Verdict, f.Check)
		b.WriteString(fill(head, f.What))
		if f.Meaning != "" {
			b.WriteString(fill("", f.Meaning))
		}
		if f.Remedy != "" {
			b.WriteString(strings.Repeat(" ", reportLeft) + "-> " + f.Remedy + "\n")
		}
	}
	b.WriteByte('\n')
	switch {
	case bad > 0:
		fmt.Fprintf(&b, "%s and %s. Mend the problems, then run weir doctor again.\n", count(bad, "problem"), count(doubtful, "warning"))
	case doubtful > 0:
		fmt.Fprintf(&b, "weir serve works here, with %s.\n", count(doubtful, "warning"))
	default:
		b.WriteString("weir serve works here.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, noun string) string {
	if n == 0 {
		return "no " + noun + "s"
	}
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// fill breaks a text at spaces, so that it stands beside the head. A word that
// is longer than a line stays whole.
func fill(head, text string) string {
	var b strings.Builder
	line := fmt.Sprintf("%-*s", reportLeft, head)
	at := len(line)
	for _, word := range strings.Fields(text) {
		if len(line) > at && len(line)+1+len(word) > reportWidth {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", reportLeft)
			at = len(line)
		}
		if len(line) > at {
			line += " "
		}
		line += word
	}
	b.WriteString(line + "\n")
	return b.String()
}
