package agent_test

import (
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
)

// What a definition says wrongly of its model is told by line.
func TestFaultsOfModels(t *testing.T) {
	t.Parallel()
	const head = "name: x\ndriver: llm\n"
	const good = head + "provider: anthropic\nmodel: m\n"
	for name, c := range map[string]struct{ text, want string }{
		"nothing said":         {head, "x.yaml: model is missing; x.yaml: provider is missing"},
		"unknown provider":     {head + "provider: acme\nmodel: m\n", `x.yaml:3: the provider "acme" is not known; set llm.baseUrl`},
		"unknown API":          {good + "llm: {api: soap}\n", `x.yaml:5: unknown API "soap"`},
		"a URL without a host": {good + "llm: {baseUrl: api.acme.test/v1}\n", `x.yaml:5: the base URL "api.acme.test/v1" must be http`},
		"a key in the URL":     {good + "llm: {baseUrl: 'https://u:secret@acme.test'}\n", "x.yaml:5: the base URL"},
		"a key as a name":      {good + "llm: {keyEnv: sk-ant-123}\n", `x.yaml:5: keyEnv "sk-ant-123" must be the name`},
		"unknown level":        {good + "llm: {reasoning: very}\n", `x.yaml:5: unknown reasoning "very"`},
		"no turns":             {good + "llm: {maxTurns: -1}\n", "x.yaml:5: maxTurns is -1"},
		"no output":            {good + "llm: {maxOutputTokens: -1}\n", "x.yaml:5: maxOutputTokens is -1"},
		"unknown tool":         {good + "llm:\n  tools:\n    - {name: web}\n", `x.yaml:7: unknown tool "web"`},
		"a tool twice":         {good + "llm:\n  tools:\n    - {name: read_file}\n    - {name: read_file}\n", "x.yaml:8: the tool read_file is there twice"},
		"unknown policy":       {good + "llm:\n  tools:\n    - {name: read_file, policy: maybe}\n", `x.yaml:7: unknown policy "maybe"`},
		"delegation to nobody": {good + "llm:\n  tools:\n    - {name: delegate_task}\n", "x.yaml:7: delegate_task needs agents"},
		"agents of a reader":   {good + "llm:\n  tools:\n    - {name: read_file, agents: [a]}\n", "x.yaml:7: agents belong to the tool delegate_task"},
		"a command":            {good + "command: [ls]\n", "command and code belong to driver script"},
		"another driver's":     {"name: x\ndriver: script\ncommand: [ls]\nllm: {maxTurns: 1}\n", "x.yaml:4: llm belongs to driver llm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range load(t, map[string]string{"x.yaml": c.text}).Problems() {
				got = append(got, p.String())
			}
			all := strings.Join(got, "; ")
			for _, want := range strings.Split(c.want, "; ") {
				if !strings.Contains(all, want) {
					t.Errorf("problems %q, want %q", all, want)
				}
			}
		})
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	at := agent.Definition{Provider: "ollama"}.Endpoint()
	if at != (agent.Provider{API: agent.APIChat, BaseURL: "http://127.0.0.1:11434/v1"}) {
		t.Errorf("ollama is at %+v", at)
	}
	at = agent.Definition{Provider: "acme", LLM: &agent.LLM{BaseURL: "https://acme.test", KeyEnv: "K", API: agent.APIMessages}}.Endpoint()
	if at != (agent.Provider{API: agent.APIMessages, BaseURL: "https://acme.test", KeyEnv: "K"}) {
		t.Errorf("acme is at %+v", at)
	}
	at = agent.Definition{Provider: "anthropic", LLM: &agent.LLM{BaseURL: "http://127.0.0.1:1"}}.Endpoint()
	if at != (agent.Provider{API: agent.APIMessages, BaseURL: "http://127.0.0.1:1", KeyEnv: "ANTHROPIC_API_KEY"}) {
		t.Errorf("anthropic is at %+v", at)
	}
}
