package app

import (
	"github.com/weirhq/weir/runtime/agent"
	"github.com/weirhq/weir/runtime/agent/llm"
	"github.com/weirhq/weir/runtime/agent/llm/anthropic"
	"github.com/weirhq/weir/runtime/agent/llm/chat"
	"github.com/weirhq/weir/runtime/agent/llm/gemini"
	"github.com/weirhq/weir/runtime/agent/llm/openai"
)

// openModel makes the adapter of an API; nil for one that is not there.
func openModel(t llm.Target) chat.Model {
	switch t.API {
	case agent.APIResponses:
		return openai.NewResponses(openai.Options{BaseURL: t.BaseURL, Key: t.Key, Provider: t.Provider, Client: t.Client})
	case agent.APIChat:
		return openai.NewChat(openai.Options{BaseURL: t.BaseURL, Key: t.Key, Provider: t.Provider, Client: t.Client})
	case agent.APIGemini:
		return gemini.New(gemini.Options{BaseURL: t.BaseURL, Key: t.Key, Provider: t.Provider, Client: t.Client})
	case agent.APIMessages:
		return anthropic.New(anthropic.Options{BaseURL: t.BaseURL, Key: t.Key, Provider: t.Provider, Client: t.Client})
	}
	return nil
}
