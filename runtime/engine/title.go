package engine

import (
	"strings"
	"unicode"

	"github.com/weirhq/weir/runtime/run"
)

func checkTitle(q run.StartRequest) error {
	if q.Title == "" {
		return nil
	}
	if q.Session != "" {
		return run.Errorf(run.Invalid, "title names a new session, and sessionId %s is given; leave one of them out", q.Session)
	}
	return checkText("title", q.Title, maxName)
}

// titleFor names a session that was made for its first run.
func titleFor(in run.Input) string {
	line := firstLine(in.Prompt)
	if line == "" && len(in.Command) > 0 {
		line = commandTitle(in.Command)
	}
	if line == "" {
		line = commentTitle(in.Code)
	}
	if line == "" {
		return in.Agent
	}
	return strings.TrimSpace(clip(clean(line, maxInput), 80))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// commandTitle is the first line of what would be typed; an argument with spaces
// is not quoted, for nobody runs a title.
func commandTitle(command []string) string {
	return firstLine(strings.Join(command, " "))
}

// commentTitle is the first line of the comment or docstring that Python code
// begins with, past the lines for the system ("#!", an encoding); "" for none.
func commentTitle(code string) string {
	code = strings.TrimPrefix(code, "\ufeff")
	for {
		code = strings.TrimSpace(code)
		line, rest, more := strings.Cut(code, "\n")
		text, comment := strings.CutPrefix(line, "#")
		if !comment {
			return docTitle(code)
		}
		if !strings.HasPrefix(text, "!") && !strings.Contains(text, "-*-") && !strings.Contains(text, "coding:") {
			// "# %%" begins a notebook cell, "####" is a rule.
			if text = strings.Trim(text, "#%=-* \t\r"); strings.ContainsFunc(text, unicode.IsLetter) {
				return text
			}
		}
		if !more {
			return ""
		}
		code = rest
	}
}

func docTitle(code string) string {
	for _, quote := range []string{`"""`, "'''"} {
		if text, ok := strings.CutPrefix(code, quote); ok {
			text, _, _ = strings.Cut(text, quote)
			return firstLine(text)
		}
	}
	return ""
}
