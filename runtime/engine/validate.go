package engine

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

const (
	maxInput   = 1 << 20 // bytes of a prompt, of the code, of one environment value, of labels, of config
	maxPayload = 1 << 20 // bytes of a result or an answer
	maxName    = 256     // bytes of a title, a model or an idempotency key
	maxStage   = 64      // characters
	maxEnv     = 256     // variables
	// maxServicePrompt is what an environment variable can carry.
	maxServicePrompt = 100 << 10
	// maxRunSeconds is 30 days; more is taken for a mistake.
	maxRunSeconds = 30 * 24 * 3600
	// scriptDriver is the driver that runs code and has no use for a prompt.
	scriptDriver = "script"
)

// checkInput refuses what no run of this agent can do, naming the value and the remedy.
func checkInput(in run.Input, def agent.Definition) error {
	if err := checkText("prompt", in.Prompt, maxInput); err != nil {
		return err
	}
	if err := checkText("model", in.Model, maxName); err != nil {
		return err
	}
	if err := checkWork(in, def); err != nil {
		return err
	}
	if in.Stage != nil {
		if err := checkStage(*in.Stage); err != nil {
			return err
		}
	}
	if len(in.Env) > maxEnv {
		return run.Errorf(run.Invalid, "env has %d variables; at most %d are allowed", len(in.Env), maxEnv)
	}
	if err := sandbox.ValidateEnv(in.Env); err != nil {
		return err
	}
	if err := checkSeconds("timeoutSeconds", in.TimeoutSeconds); err != nil {
		return err
	}
	if err := checkObject("labels", in.Labels); err != nil {
		return err
	}
	if err := checkObject("config", in.Config); err != nil {
		return err
	}
	if def.Driver == scriptDriver && len(in.Config) > maxConfigEnv { // it would work without it
		return run.Errorf(run.Invalid, "config has %d bytes; a program gets at most %d of them, as %s: keep what is large in a file, and name that", len(in.Config), maxConfigEnv, configName)
	}
	return nil
}

// checkWork decides whether there is something to do, and only one thing.
func checkWork(in run.Input, def agent.Definition) error {
	if in.Code != "" && len(in.Command) > 0 {
		return run.Errorf(run.Invalid, "both code and command are given: give exactly one of them")
	}
	if err := sandbox.ValidateCode(in.Code); err != nil {
		return err
	}
	if err := sandbox.ValidateCommand(in.Command); err != nil {
		return err
	}
	given := in.Code != "" || len(in.Command) > 0
	if def.Driver == scriptDriver {
		if !given && def.Code == "" && len(def.Command) == 0 {
			return run.Errorf(run.Invalid, "agent %q has nothing to run: give code (Python source) or command (an argument list) to startRun; a message carries only text", def.Name)
		}
		return nil
	}
	if given {
		return run.Errorf(run.Invalid, "agent %q has the driver %s, which takes a prompt and neither code nor command; to run code use the agent \"script\"", def.Name, def.Driver)
	}
	if def.Driver == agent.DriverService { // it gets its work by itself
		return checkText("the prompt of a service", in.Prompt, maxServicePrompt)
	}
	if strings.TrimSpace(in.Prompt) == "" {
		return run.Errorf(run.Invalid, "the prompt %q is empty: agent %q has the driver %s and needs words to work on", clip(in.Prompt, 40), def.Name, def.Driver)
	}
	return nil
}

func checkText(what, s string, limit int) error {
	switch {
	case len(s) > limit:
		return run.Errorf(run.Invalid, "%s has %d bytes; at most %d are allowed", what, len(s), limit)
	case !utf8.ValidString(s):
		return run.Errorf(run.Invalid, "%s is not valid UTF-8: %q", what, clip(clean(s, maxInput), 60))
	case strings.IndexByte(s, 0) >= 0:
		return run.Errorf(run.Invalid, "%s has a NUL byte at byte %d: remove it", what, strings.IndexByte(s, 0))
	}
	return nil
}

func checkStage(s string) error {
	for _, c := range s {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
		if !letter {
			return run.Errorf(run.Invalid, "the stage %q has the character %q; allowed are letters, digits, _ and -", clip(clean(s, maxInput), 80), c)
		}
	}
	if len(s) > maxStage {
		return run.Errorf(run.Invalid, "the stage %q has %d characters; at most %d are allowed", clip(s, 80), len(s), maxStage)
	}
	return nil
}

func checkSeconds(what string, v float64) error {
	switch {
	case math.IsNaN(v):
		return run.Errorf(run.Invalid, "%s is not a number", what)
	case v < 0:
		return run.Errorf(run.Invalid, "%s is %g; it must be positive (leave it out for no limit)", what, v)
	case v > maxRunSeconds:
		return run.Errorf(run.Invalid, "%s is %g; at most %d (30 days) are allowed", what, v, maxRunSeconds)
	case v > 0 && v < 0.001:
		return run.Errorf(run.Invalid, "%s is %g; at least 0.001 is needed", what, v)
	}
	return nil
}

func checkObject(what string, raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if len(raw) > maxInput {
		return run.Errorf(run.Invalid, "%s has %d bytes; at most %d are allowed", what, len(raw), maxInput)
	}
	var object map[string]json.RawMessage
	if !utf8.Valid(raw) || json.Unmarshal(raw, &object) != nil {
		return run.Errorf(run.Invalid, "%s must be a JSON object, not %s", what, clip(clean(string(raw), maxInput), 60))
	}
	return nil
}

func checkKey(key string) error {
	return checkText("idempotencyKey", key, maxName)
}

// checkID keeps everything that cannot be an id away from the store.
func checkID(prefix, what, id string) error {
	if !run.ValidID(prefix, id) {
		return run.Errorf(run.NotFound, "there is no %s %q", what, clip(clean(id, maxInput), 60))
	}
	return nil
}
