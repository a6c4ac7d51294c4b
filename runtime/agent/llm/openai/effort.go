package openai

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

var version = regexp.MustCompile(`^gpt-(\d+)(?:\.(\d+))?`)

// base is a model's name without a vendor before it.
func base(model string) string { return model[strings.LastIndex(model, "/")+1:] }

// reasons tells whether a model of OpenAI's can reason; a name that is not known can.
func reasons(model string) bool {
	m := base(model)
	for _, old := range []string{"gpt-3", "gpt-4", "chatgpt-"} {
		if strings.HasPrefix(m, old) {
			return false
		}
	}
	return !strings.HasPrefix(m, "gpt-5") || !strings.Contains(m, "-chat")
}

// effortOf is a level as a model of OpenAI's takes it. Where a model reasons
// always, none is the least that it has.
func effortOf(model string, l chat.Level) string {
	if l == "" || !reasons(model) {
		return ""
	}
	m := base(model)
	least, most := "none", "max"
	if v := version.FindStringSubmatch(m); v != nil {
		major, _ := strconv.Atoi(v[1]) // digits
		minor, _ := strconv.Atoi(v[2])
		switch {
		case major > 5 || minor >= 6:
		case minor >= 2 || strings.Contains(m, "codex-max"):
			most = "xhigh"
		default:
			most = "high"
		}
		if major == 5 && minor == 0 {
			least = "minimal"
		}
		if major == 5 && strings.Contains(m, "codex") {
			least = "low"
		}
	} else if len(m) > 1 && m[0] == 'o' && m[1] >= '1' && m[1] <= '9' {
		least, most = "low", "high"
	}
	if l == chat.None {
		return least
	}
	if l == chat.Max {
		return most
	}
	return string(l)
}
