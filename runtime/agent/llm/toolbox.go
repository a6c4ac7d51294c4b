package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// toolbox makes the tools that the definition names.
func toolbox(t agent.Task, c agent.LLM, h agent.Host) box {
	b := box{byName: map[string]*tool{}}
	files := files{workspace: t.Workspace}
	for _, def := range c.Tools {
		var n tool
		switch def.Name {
		case agent.ToolExecute:
			n = execute(h)
		case agent.ToolRead:
			n = files.reader()
		case agent.ToolWrite:
			n = files.writer()
		case agent.ToolList:
			n = files.lister()
		case agent.ToolDelegate:
			n = delegate(h, def.Agents)
		case agent.ToolAsk:
			n = ask(h)
		default:
			continue
		}
		n.spec.Name, n.policy = def.Name, def.Policy
		b.specs = append(b.specs, n.spec)
		b.byName[def.Name] = &n
	}
	return b
}

// arguments reads those of a call. What the model wrote wrongly it is told.
func arguments(c chat.Call, to any) error {
	d := json.NewDecoder(strings.NewReader(string(c.Arguments)))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("the arguments of %s are not as its schema says: %w", c.Name, err)
	}
	return nil
}

func execute(h agent.Host) tool {
	return tool{
		spec: chat.Tool{
			Description: "Runs Python code or a shell command in the sandbox, in the session's folder, and gives what it prints. Set code or command. Nothing is kept but files.",
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{` +
				`"code":{"type":"string","description":"Python source"},` +
				`"command":{"type":"string","description":"a command line for sh"},` +
				`"timeout_seconds":{"type":"number","description":"after which it is stopped"}}}`),
		},
		do: func(ctx context.Context, c chat.Call) (string, bool, error) {
			var a struct {
				Code    string  `json:"code"`
				Command string  `json:"command"`
				Timeout float64 `json:"timeout_seconds"`
			}
			if err := arguments(c, &a); err != nil {
				return "", true, err
			}
			x := agent.Exec{Code: a.Code, CallID: c.ID}
			switch {
			case (a.Code == "") == (a.Command == ""):
				return "Set either code or command.", true, nil
			case a.Timeout < 0 || a.Timeout > maxTimeout.Seconds():
				return fmt.Sprintf("timeout_seconds is %g; it is between 0 and %g.", a.Timeout, maxTimeout.Seconds()), true, nil
			case a.Command != "":
				x.Command = []string{"sh", "-c", a.Command}
			}
			x.Timeout = time.Duration(a.Timeout * float64(time.Second))
			res, out, err := h.Execute(ctx, x)
			if err != nil {
				return "", true, err
			}
			return agent.ToolText(res, out), res.IsError(), nil
		},
	}
}

// maxTimeout bounds what a model can ask for; the sandbox's own limit holds too.
const maxTimeout = 7 * 24 * time.Hour

func delegate(h agent.Host, agents []string) tool {
	names, _ := json.Marshal(agents) // texts always can be
	return tool{
		beside: true,
		spec: chat.Tool{
			Description: "Gives a task to another agent, waits for it and gives its answer. It works in the same folder and knows nothing but the prompt.",
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["agent","prompt"],"properties":{` +
				`"agent":{"type":"string","enum":` + string(names) + `},` +
				`"prompt":{"type":"string","description":"the whole task"}}}`),
		},
		do: func(ctx context.Context, c chat.Call) (string, bool, error) {
			var a struct {
				Agent  string `json:"agent"`
				Prompt string `json:"prompt"`
			}
			if err := arguments(c, &a); err != nil {
				return "", true, err
			}
			for _, name := range agents {
				if name == a.Agent {
					child, err := h.Delegate(ctx, agent.Delegation{Agent: a.Agent, Prompt: a.Prompt})
					return child.Result, false, err
				}
			}
			return fmt.Sprintf("There is no agent %q for you. There are: %s.", a.Agent, strings.Join(agents, ", ")), true, nil
		},
	}
}

func ask(h agent.Host) tool {
	return tool{
		beside: true, again: true,
		spec: chat.Tool{
			Description: "Asks the user a question and waits for the answer.",
			Schema: json.RawMessage(`{"type":"object","additionalProperties":false,"required":["question"],"properties":{` +
				`"question":{"type":"string"},` +
				`"schema":{"type":"object","description":"a JSON schema of the answer, when it is to be more than a text"}}}`),
		},
		do: func(ctx context.Context, c chat.Call) (string, bool, error) {
			var a struct {
				Question string          `json:"question"`
				Schema   json.RawMessage `json:"schema"`
			}
			if err := arguments(c, &a); err != nil {
				return "", true, err
			}
			if len(a.Schema) == 0 || string(a.Schema) == "null" {
				a.Schema = json.RawMessage(`{"type":"string"}`)
			}
			answer, err := h.Ask(ctx, callKey+c.ID, a.Question, a.Schema)
			if err != nil {
				return "", true, err
			}
			var text string
			if json.Unmarshal(answer, &text) != nil { // no text: its JSON
				text = string(answer)
			}
			return text, false, nil
		},
	}
}
