package agent

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// LLM says how a model is asked and what it may do.
type LLM struct {
	API     string `yaml:"api" json:"api,omitempty"`         // "": the provider's, see Provider
	BaseURL string `yaml:"baseUrl" json:"baseUrl,omitempty"` // "": the provider's
	KeyEnv  string `yaml:"keyEnv" json:"keyEnv,omitempty"`   // the server's variable that holds the key; "": the provider's

	Instructions    string `yaml:"instructions" json:"instructions,omitempty"`
	Reasoning       string `yaml:"reasoning" json:"reasoning,omitempty"`             // "": the provider's default
	MaxOutputTokens int64  `yaml:"maxOutputTokens" json:"maxOutputTokens,omitempty"` // of one answer
	MaxTurns        int    `yaml:"maxTurns" json:"maxTurns,omitempty"`               // answers in a run
	Tools           []Tool `yaml:"tools" json:"tools"`                               // nil: the default ones
}

// Tool is one that the model may call.
type Tool struct {
	Name   string   `yaml:"name" json:"name"`
	Policy string   `yaml:"policy" json:"policy,omitempty"`
	Agents []string `yaml:"agents" json:"agents,omitempty"` // of delegate_task: whom
}

// The tools.
const (
	ToolExecute  = "execute_code"
	ToolRead     = "read_file"
	ToolWrite    = "write_file"
	ToolList     = "list_files"
	ToolDelegate = "delegate_task"
	ToolAsk      = "ask_user"
)

// The policies: a call is done, shown to a person first, or refused.
const (
	PolicyAllow = "allow"
	PolicyAsk   = "ask"
	PolicyDeny  = "deny"
)

const (
	defaultMaxTurns = 100
	maxMaxTurns     = 10_000
	maxInstructions = 1 << 20
)

var (
	toolNames = []string{ToolExecute, ToolRead, ToolWrite, ToolList, ToolDelegate, ToolAsk}
	policies  = []string{PolicyAllow, PolicyAsk, PolicyDeny}
	levels    = []string{"none", "low", "medium", "high", "max"}
)

// WithDefaults fills in what is left open. Nil is all defaults.
func (l *LLM) WithDefaults() LLM {
	var d LLM
	if l != nil {
		d = *l
	}
	if d.MaxTurns == 0 {
		d.MaxTurns = defaultMaxTurns
	}
	if d.Tools == nil {
		d.Tools = []Tool{{Name: ToolExecute}, {Name: ToolRead}, {Name: ToolWrite}, {Name: ToolList}}
	}
	d.Tools = slices.Clone(d.Tools)
	for i, t := range d.Tools {
		if t.Policy == "" {
			d.Tools[i].Policy = PolicyAllow
		}
	}
	return d
}

// The APIs that models are asked over.
const (
	APIMessages  = "anthropic-messages"
	APIResponses = "openai-responses"
	APIChat      = "openai-chat"
	APIGemini    = "gemini"
)

var apis = []string{APIMessages, APIResponses, APIChat, APIGemini}

// Provider says where a provider's models are.
type Provider struct {
	API     string
	BaseURL string // "": the SDK's own
	KeyEnv  string // "": it needs no key
}

// providers are those that need no baseUrl.
var providers = map[string]Provider{
	"anthropic":  {API: APIMessages, KeyEnv: "ANTHROPIC_API_KEY"},
	"openai":     {API: APIResponses, KeyEnv: "OPENAI_API_KEY"},
	"google":     {API: APIGemini, KeyEnv: "GEMINI_API_KEY"},
	"openrouter": {API: APIChat, BaseURL: "https://openrouter.ai/api/v1", KeyEnv: "OPENROUTER_API_KEY"},
	"mistral":    {API: APIChat, BaseURL: "https://api.mistral.ai/v1", KeyEnv: "MISTRAL_API_KEY"},
	"deepseek":   {API: APIChat, BaseURL: "https://api.deepseek.com/v1", KeyEnv: "DEEPSEEK_API_KEY"},
	"xai":        {API: APIChat, BaseURL: "https://api.x.ai/v1", KeyEnv: "XAI_API_KEY"},
	"groq":       {API: APIChat, BaseURL: "https://api.groq.com/openai/v1", KeyEnv: "GROQ_API_KEY"},
	"ollama":     {API: APIChat, BaseURL: "http://127.0.0.1:11434/v1"},
	"vllm":       {API: APIChat, BaseURL: "http://127.0.0.1:8000/v1"},
	"lmstudio":   {API: APIChat, BaseURL: "http://127.0.0.1:1234/v1"},
	"llamacpp":   {API: APIChat, BaseURL: "http://127.0.0.1:8080/v1"},
}

// Endpoint is where the agent's model is.
func (d Definition) Endpoint() Provider {
	p, known := providers[d.Provider]
	if !known {
		p = Provider{API: APIChat}
	}
	if l := d.LLM; l != nil {
		if l.API != "" {
			p.API = l.API
		}
		if l.BaseURL != "" {
			p.BaseURL = l.BaseURL
		}
		if l.KeyEnv != "" {
			p.KeyEnv = l.KeyEnv
		}
	}
	return p
}

func (f *file) checkLLM() {
	d := &f.def
	if len(d.Command) > 0 || d.Code != "" {
		f.add("", "command and code belong to driver %s; a model gets the tool %s", DriverScript, ToolExecute)
	}
	if len(d.Turns) > 0 {
		f.add("$.turns", "turns belong to driver %s, not to %s", DriverReplay, DriverLLM)
	}
	if d.Model == "" {
		f.add("", "model is missing; name one of the provider's")
	}
	if d.Provider == "" {
		f.add("", "provider is missing, such as anthropic, openai, google, openrouter or ollama; another one needs llm.baseUrl")
	}
	l := d.LLM
	if l == nil {
		l = &LLM{}
	}
	if _, known := providers[d.Provider]; !known && d.Provider != "" && l.BaseURL == "" {
		f.add("$.provider", "the provider %q is not known; set llm.baseUrl to its API", clip(d.Provider))
	}
	if l.API != "" && !slices.Contains(apis, l.API) {
		f.add("$.llm.api", "unknown API %q; it is one of %s", clip(l.API), strings.Join(apis, ", "))
	}
	if u, err := url.Parse(l.BaseURL); l.BaseURL != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil) {
		f.add("$.llm.baseUrl", "the base URL %q must be http:// or https:// with a host, without user and query; keys belong into llm.keyEnv", clip(l.BaseURL))
	}
	if l.KeyEnv != "" && !isVariable(l.KeyEnv) {
		f.add("$.llm.keyEnv", "keyEnv %q must be the name of an environment variable, not the key itself", clip(l.KeyEnv))
	}
	if l.Reasoning != "" && !slices.Contains(levels, l.Reasoning) {
		f.add("$.llm.reasoning", "unknown reasoning %q; it is one of %s", clip(l.Reasoning), strings.Join(levels, ", "))
	}
	if len(l.Instructions) > maxInstructions {
		f.add("$.llm.instructions", "the instructions have %d bytes, at most %d are allowed", len(l.Instructions), maxInstructions)
	}
	if l.MaxTurns < 0 || l.MaxTurns > maxMaxTurns {
		f.add("$.llm.maxTurns", "maxTurns is %d; it is between 1 and %d", l.MaxTurns, maxMaxTurns)
	}
	if l.MaxOutputTokens < 0 {
		f.add("$.llm.maxOutputTokens", "maxOutputTokens is %d; it is above 0", l.MaxOutputTokens)
	}
	f.checkTools(l.Tools)
}

func (f *file) checkTools(tools []Tool) {
	seen := map[string]bool{}
	for i, t := range tools {
		at := fmt.Sprintf("$.llm.tools[%d]", i)
		switch {
		case !slices.Contains(toolNames, t.Name):
			f.add(at, "unknown tool %q; it is one of %s", clip(t.Name), strings.Join(toolNames, ", "))
		case seen[t.Name]:
			f.add(at, "the tool %s is there twice", t.Name)
		}
		seen[t.Name] = true
		if t.Policy != "" && !slices.Contains(policies, t.Policy) {
			f.add(at, "unknown policy %q of %s; it is one of %s", clip(t.Policy), clip(t.Name), strings.Join(policies, ", "))
		}
		if t.Name == ToolDelegate && len(t.Agents) == 0 {
			f.add(at, "%s needs agents: the names of those whom it may ask", ToolDelegate)
		}
		if t.Name != ToolDelegate && len(t.Agents) > 0 {
			f.add(at, "agents belong to the tool %s", ToolDelegate)
		}
	}
}

func isVariable(s string) bool {
	for i, c := range []byte(s) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return len(s) <= 128
}
