package engine

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
)

func TestCheckInput(t *testing.T) {
	t.Parallel()
	scripted := agent.Definition{Name: "script", Driver: "script"}
	talker := agent.Definition{Name: "talker", Driver: "replay"}
	stage := func(s string) *string { return &s }
	big := strings.Repeat("x", maxInput+1)
	for name, c := range map[string]struct {
		def  agent.Definition
		in   run.Input
		want string // a part of the message; "" for good input
	}{
		"code":               {scripted, run.Input{Code: "print(1)"}, ""},
		"command":            {scripted, run.Input{Command: []string{"true"}}, ""},
		"no stage":           {scripted, run.Input{Code: "x", Stage: stage("")}, ""},
		"longest stage":      {scripted, run.Input{Code: "x", Stage: stage(strings.Repeat("a", 64))}, ""},
		"own code":           {agent.Definition{Name: "s", Driver: "script", Code: "x"}, run.Input{}, ""},
		"objects":            {scripted, run.Input{Code: "x", Labels: json.RawMessage(`{"a":1}`), Config: json.RawMessage(` {} `)}, ""},
		"null labels":        {scripted, run.Input{Code: "x", Labels: json.RawMessage(`null`)}, ""},
		"prompt":             {talker, run.Input{Prompt: "hello"}, ""},
		"both":               {scripted, run.Input{Code: "x", Command: []string{"true"}}, "exactly one"},
		"neither":            {scripted, run.Input{}, "nothing to run"},
		"code to a talker":   {talker, run.Input{Prompt: "x", Code: "y"}, `"talker" has the driver replay`},
		"empty prompt":       {talker, run.Input{}, `the prompt "" is empty`},
		"blank prompt":       {talker, run.Input{Prompt: " \n\t"}, `the prompt " \n\t" is empty`},
		"big prompt":         {talker, run.Input{Prompt: big}, "prompt has 1048577 bytes"},
		"big code":           {scripted, run.Input{Code: big}, "code has 1048577 bytes"},
		"big value":          {scripted, run.Input{Code: "x", Env: []run.EnvVar{{Name: "A", Value: big}}}, "1048577"},
		"bad code":           {scripted, run.Input{Code: "a\xff"}, "UTF-8"},
		"bad prompt":         {talker, run.Input{Prompt: "a\xff"}, "UTF-8"},
		"NUL in the prompt":  {talker, run.Input{Prompt: "a\x00"}, "NUL byte at byte 1"},
		"NUL in env":         {scripted, run.Input{Code: "x", Env: []run.EnvVar{{Name: "A", Value: "a\x00"}}}, "NUL"},
		"name with =":        {scripted, run.Input{Code: "x", Env: []run.EnvVar{{Name: "A=B"}}}, "A=B"},
		"NUL in an argument": {scripted, run.Input{Command: []string{"echo", "a\x00"}}, "NUL"},
		"empty program":      {scripted, run.Input{Command: []string{""}}, "empty"},
		"stage with a slash": {scripted, run.Input{Code: "x", Stage: stage("a/b")}, `"a/b"`},
		"long stage":         {scripted, run.Input{Code: "x", Stage: stage(strings.Repeat("a", 65))}, "65 characters"},
		"labels array":       {scripted, run.Input{Code: "x", Labels: json.RawMessage(`[1]`)}, "labels must be a JSON object, not [1]"},
		"config text":        {scripted, run.Input{Code: "x", Config: json.RawMessage(`"x"`)}, "config must be a JSON object"},
		"config large":       {scripted, run.Input{Code: "x", Config: json.RawMessage(`{"a":"` + strings.Repeat("x", 100<<10) + `"}`)}, "a program gets at most 102400 of them"},
		"config not JSON":    {scripted, run.Input{Code: "x", Config: json.RawMessage(`{"a"`)}, "config must be a JSON object"},
		"negative time":      {scripted, run.Input{Code: "x", TimeoutSeconds: -1}, "timeoutSeconds is -1"},
		"no number":          {scripted, run.Input{Code: "x", TimeoutSeconds: math.NaN()}, "not a number"},
		"endless":            {scripted, run.Input{Code: "x", TimeoutSeconds: math.Inf(1)}, "+Inf"},
		"absurd":             {scripted, run.Input{Code: "x", TimeoutSeconds: 1e12}, "1e+12"},
		"too short":          {scripted, run.Input{Code: "x", TimeoutSeconds: 1e-9}, "1e-09"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkInput(c.in, c.def)
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if run.CodeOf(err) != run.Invalid || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v (%s), want INVALID naming %q", err, run.CodeOf(err), c.want)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("the message repeats %d bytes of the input", len(err.Error()))
			}
		})
	}
}

func TestPayloadHash(t *testing.T) {
	t.Parallel()
	hash := func(change func(*run.StartRequest)) string {
		q := run.StartRequest{
			Input:  run.Input{Agent: "script", Code: "x", Labels: json.RawMessage(`{"a": 1, "b": 2}`)},
			OnBusy: run.Reject,
		}
		change(&q)
		h, err := payloadHash(q)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(func(*run.StartRequest) {})
	if h := hash(func(q *run.StartRequest) { q.Input.Labels = json.RawMessage(`{"b":2,"a":1}`) }); h != base {
		t.Error("the order of keys counts")
	}
	if h := hash(func(q *run.StartRequest) { q.IdempotencyKey = "k" }); h != base {
		t.Error("the key counts")
	}
	empty := ""
	for name, change := range map[string]func(*run.StartRequest){
		"code":     func(q *run.StartRequest) { q.Input.Code = "y" },
		"label":    func(q *run.StartRequest) { q.Input.Labels = json.RawMessage(`{"a":1,"b":3}`) },
		"config":   func(q *run.StartRequest) { q.Input.Config = json.RawMessage(`{}`) },
		"no stage": func(q *run.StartRequest) { q.Input.Stage = &empty },
		"session":  func(q *run.StartRequest) { q.Session = "ses_x" },
		"busy":     func(q *run.StartRequest) { q.OnBusy = run.QueueBehind },
		"limit":    func(q *run.StartRequest) { q.Input.Sandbox.MemoryMiB = 1 },
	} {
		if hash(change) == base {
			t.Errorf("another %s makes no difference", name)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                 "plain",
		"a\x00b":                "a\uFFFDb",
		"a\xffb":                "a\uFFFDb",
		"äöüäöüäö":              "äöüäöüäö",
		strings.Repeat("ä", 20): "äääää ... (cut)",
	} {
		if got := clean(in, 20); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
