package openai

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// dialect says how a server's Chat Completions differ. What is not known is
// asked with the fields that were there from the beginning.
type dialect struct {
	own          bool // OpenAI's: max_completion_tokens, prompt_cache_key, all levels
	usageUnasked bool // it tells the usage always, and refuses stream_options
	nineChars    bool // ids of calls are nine letters and digits
	onOff        bool // it reasons much or not at all
	most         string
}

func dialectOf(provider, baseURL string) dialect {
	host := ""
	if u, err := url.Parse(baseURL); err == nil {
		host = u.Hostname()
	}
	at := func(name, domain string) bool {
		return provider == name || host == domain || strings.HasSuffix(host, "."+domain)
	}
	switch {
	case provider == "" && baseURL == "", at(ownProvider, "openai.com"):
		return dialect{own: true}
	case at("mistral", "mistral.ai"):
		return dialect{usageUnasked: true, nineChars: true, onOff: true}
	case at("openrouter", "openrouter.ai"):
		return dialect{most: "xhigh"}
	}
	return dialect{most: "high"}
}

func (d dialect) effort(model string, l chat.Level) string {
	switch {
	case l == "":
		return ""
	case d.own:
		return effortOf(model, l)
	case d.onOff:
		if l == chat.High || l == chat.Max {
			return "high"
		}
		return "none"
	case l == chat.Max:
		return d.most
	}
	return string(l)
}

const maxChatCallID = 40 // characters that OpenAI takes

var nine = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func (d dialect) callID(id string) string {
	if d.nineChars && !nine.MatchString(id) {
		return shortID(id+"          ", 9) // longer than nine: always made anew
	}
	return shortID(id, maxChatCallID)
}
