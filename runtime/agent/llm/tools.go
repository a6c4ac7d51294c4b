package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/run"
)

// tool is what a model can call.
type tool struct {
	spec   chat.Tool
	policy string
	beside bool // may run beside its neighbours
	again  bool // may be done again after a restart
	do     func(ctx context.Context, c chat.Call) (text string, isError bool, err error)
}

// box holds the tools of a run.
type box struct {
	specs  []chat.Tool
	byName map[string]*tool
}

// result is what a call came to.
type result struct {
	text    string
	isError bool
}

func refuse(format string, args ...any) result {
	return result{text: fmt.Sprintf(format, args...), isError: true}
}

// calls does the open calls, in their order: one after the other, but for those
// in a row that may run beside each other.
func (l *loop) calls(ctx context.Context) error {
	open := slices.Clone(l.talk.open)
	for len(open) > 0 {
		n := 1
		for n < len(open) && n < maxBeside && l.beside(open[n-1]) && l.beside(open[n]) {
			n++
		}
		results, errs := make([]result, n), make([]error, n)
		var group sync.WaitGroup
		for i, c := range open[:n] {
			group.Go(func() { results[i], errs[i] = l.call(ctx, c) })
		}
		group.Wait()
		for i, c := range open[:n] {
			if errs[i] != nil {
				return errs[i]
			}
			l.talk.result(chat.Result{ID: c.ID, Name: c.Name, Text: results[i].text, IsError: results[i].isError})
		}
		if err := l.repeats.note(ctx, l.host, open[:n], results); err != nil {
			return err
		}
		open = open[n:]
	}
	return nil
}

// maxBeside bounds the calls that run at once.
const maxBeside = 8

func (l *loop) beside(c chat.Call) bool {
	t := l.tools.byName[c.Name]
	return t != nil && t.beside
}

// call does one call and shows what it came to. A failure is for the model to
// see; the error is for what ends the run.
func (l *loop) call(ctx context.Context, c chat.Call) (result, error) {
	began := time.Now()
	r, err := l.work(ctx, c)
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		r = result{text: err.Error(), isError: true}
	}
	r.text = fit(r.text)
	return r, l.host.Emit(ctx, &run.ToolCallFinished{
		CallID: c.ID, Name: c.Name, Text: r.text, IsError: r.isError, Seconds: time.Since(began).Seconds(),
	})
}

func (l *loop) work(ctx context.Context, c chat.Call) (result, error) {
	t := l.tools.byName[c.Name]
	switch {
	case t == nil:
		return refuse("There is no tool %q. There are: %s.", c.Name, strings.Join(l.tools.names(), ", ")), nil
	case c.Broken != "":
		return refuse("The arguments are no JSON object, so nothing was done. If they were cut, ask for less at once. They begin: %s", clip(c.Broken, 200)), nil
	case t.policy == agent.PolicyDeny:
		return refuse("The tool %s may not be used here.", c.Name), nil
	case l.resumed && t.beside && !t.again: // also when it was approved: it may be under way
		return refuse("The server restarted meanwhile; whether this call was done is not known. Call it again if that does no harm."), nil
	case t.policy == agent.PolicyAsk && len(c.Arguments) > maxShown:
		return refuse("The arguments have %d bytes. A person has to approve this call and is shown %d at most: make it smaller.", len(c.Arguments), maxShown), nil
	case t.policy == agent.PolicyAsk:
		verdict, err := l.approve(ctx, c)
		if err != nil {
			return result{}, err
		}
		if !verdict.approved() {
			return refuse("A person denied this call%s.", verdict.because()), nil
		}
		if len(verdict.Arguments) > 0 {
			c.Arguments = verdict.Arguments
		}
	}
	text, isError, err := t.do(ctx, c)
	return result{text, isError}, err
}

func (b box) names() []string {
	names := make([]string, len(b.specs))
	for i, s := range b.specs {
		names[i] = s.Name
	}
	return names
}

// verdict is a person's answer about a call.
type verdict struct {
	Decision  string          `json:"decision"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

func (v verdict) approved() bool { return v.Decision == "approve" }

func (v verdict) because() string {
	if v.Reason == "" {
		return ""
	}
	return ": " + v.Reason
}

// callKey begins the keys of questions about calls: other keys are the engine's.
const callKey = "call/"

// approvalSchema is what an answer about a call looks like.
var approvalSchema = json.RawMessage(`{"type":"object","required":["decision"],"properties":{` +
	`"decision":{"type":"string","enum":["approve","deny"]},` +
	`"arguments":{"type":"object","description":"in place of the call's own"},` +
	`"reason":{"type":"string","description":"the agent is told"}}}`)

// approve shows a call to a person and waits for the verdict.
func (l *loop) approve(ctx context.Context, c chat.Call) (verdict, error) {
	text := fmt.Sprintf("May the agent call %s?\n%s", c.Name, c.Arguments)
	answer, err := l.host.Ask(ctx, callKey+c.ID+"/approval", text, approvalSchema)
	if err != nil {
		return verdict{}, err
	}
	return readVerdict(answer), nil
}

// readVerdict takes what is no clear word for a denial.
func readVerdict(answer json.RawMessage) verdict {
	var v verdict
	if json.Unmarshal(answer, &v) != nil || !v.approved() && v.Decision != "deny" {
		return verdict{Decision: "deny", Reason: "the answer was neither approve nor deny"}
	}
	if len(v.Arguments) > 0 && v.Arguments[0] != '{' {
		return verdict{Decision: "deny", Reason: "the edited arguments were no object"}
	}
	return v
}

// maxShown is how much of a call's arguments a question shows.
const maxShown = 32 << 10

// Of a tool's text the model gets its beginning and its end.
const (
	maxResult = 32 << 10
	headShare = maxResult * 3 / 4
)

// fit cuts a text to what a model is given.
func fit(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxResult {
		return s
	}
	head := clip(s, headShare)
	tail := s[len(s)-(maxResult-headShare):]
	for tail != "" && tail[0]&0xC0 == 0x80 {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", head, len(s)-len(head)-len(tail), tail)
}

// clip cuts at the end of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
