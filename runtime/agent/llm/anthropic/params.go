package anthropic

import (
	"encoding/json"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"github.com/weirhq/weir/runtime/agent/llm/chat"
)

// params writes a request. The conversation is cached as far as it goes: the API
// finds the longest beginning that it has seen.
func params(q chat.Request) sdk.MessageNewParams {
	p := sdk.MessageNewParams{
		Model: q.Model, MaxTokens: q.MaxOutput, CacheControl: sdk.CacheControlEphemeralParam{},
	}
	p.CacheControl.Type = "ephemeral"
	if p.MaxTokens == 0 {
		p.MaxTokens = defaultMaxOutput
	}
	if q.Instructions != "" {
		p.System = []sdk.TextBlockParam{{Text: q.Instructions}}
	}
	for _, t := range q.Tools {
		tool := sdk.ToolParam{Name: t.Name, InputSchema: param.Override[sdk.ToolInputSchemaParam](t.Schema)}
		if t.Description != "" {
			tool.Description = param.NewOpt(t.Description)
		}
		p.Tools = append(p.Tools, sdk.ToolUnionParam{OfTool: &tool})
	}
	switch q.Reasoning {
	case "":
	case chat.None:
		p.Thinking = sdk.ThinkingConfigParamUnion{OfDisabled: &sdk.ThinkingConfigDisabledParam{}}
	default:
		p.Thinking = sdk.ThinkingConfigParamUnion{OfAdaptive: &sdk.ThinkingConfigAdaptiveParam{Display: "summarized"}}
		p.OutputConfig.Effort = sdk.OutputConfigEffort(q.Reasoning)
	}
	for _, m := range q.Messages {
		switch blocks := content(m.Parts); {
		case len(blocks) == 0:
		case m.Role == chat.Assistant:
			p.Messages = append(p.Messages, sdk.NewAssistantMessage(blocks...))
		default:
			p.Messages = append(p.Messages, sdk.NewUserMessage(blocks...))
		}
	}
	return p
}

func content(parts []chat.Part) []sdk.ContentBlockParamUnion {
	var blocks []sdk.ContentBlockParamUnion
	for _, part := range parts {
		switch part := part.(type) {
		case chat.Text:
			if part.Text != "" { // the API refuses empty ones
				blocks = append(blocks, sdk.NewTextBlock(part.Text))
			}
		case chat.Reasoning:
			var o opaque
			switch err := json.Unmarshal(part.Opaque, &o); {
			case err != nil: // another provider's, or none
			case o.Own.Data != "":
				blocks = append(blocks, sdk.NewRedactedThinkingBlock(o.Own.Data))
			case o.Own.Signature != "":
				blocks = append(blocks, sdk.NewThinkingBlock(o.Own.Signature, part.Text))
			}
		case chat.Call:
			args := part.Arguments
			if len(args) == 0 {
				args = json.RawMessage("{}")
			}
			blocks = append(blocks, sdk.NewToolUseBlock(part.ID, args, part.Name))
		case chat.Result:
			text := part.Text
			if text == "" {
				text = "(no output)"
			}
			blocks = append(blocks, sdk.NewToolResultBlock(part.ID, text, part.IsError))
		}
	}
	return blocks
}
