package app

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/weirhq/weir/runtime/run"
)

// completeCommand is what the completion scripts call with the shell and the
// words typed so far; the last one is being typed.
const completeCommand = "__complete"

// completionCommand prints the script that teaches a shell to complete.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run implements the command.
func (c *completionCommand) Run(to *call) error {
	_, err := io.WriteString(to.stdout, scripts()[c.Shell])
	return err
}

// scripts ask the program itself, so that they never become stale.
func scripts() map[string]string {
	return map[string]string{
		"bash": `# weir: completion for bash. Use it with: source <(weir completion bash)
_weir() {
  local IFS=$'\n'
  COMPREPLY=($("${COMP_WORDS[0]}" ` + completeCommand + ` bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _weir weir
`,
		"zsh": `#compdef weir
# weir: completion for zsh. Use it with: source <(weir completion zsh)
_weir() {
  local -a found
  found=("${(@f)$("${words[1]}" ` + completeCommand + ` zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe weir found; else _files; fi
}
if [[ "${funcstack[1]}" = _weir ]]; then _weir "$@"; else compdef _weir weir; fi
`,
		"fish": `# weir: completion for fish. Use it with: weir completion fish | source
complete -c weir -a '(weir ` + completeCommand + ` fish (commandline -opc)[2..-1] (commandline -ct))'
`,
	}
}

// candidate is a word that could come next.
type candidate struct{ word, help string }

// complete prints the candidates for the last of words, one a line; nothing
// where the name of a file or a free text is wanted.
func complete(app *kong.Application, words []string, out io.Writer) error {
	if len(words) == 0 {
		return nil
	}
	shell, words := words[0], words[1:]
	last := ""
	if len(words) > 0 {
		words, last = words[:len(words)-1], words[len(words)-1]
	}
	for _, c := range candidates(app, words, last) {
		if !strings.HasPrefix(c.word, last) {
			continue
		}
		line := c.word
		switch help, _, _ := strings.Cut(c.help, "\n"); {
		case help == "":
		case shell == "zsh":
			line = strings.ReplaceAll(c.word, ":", `\:`) + ":" + help
		case shell == "fish":
			line += "\t" + help
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

// candidates are the words that can follow.
func candidates(app *kong.Application, before []string, last string) []candidate {
	node := app.Node
	var value *kong.Flag // whose value comes next
	for _, word := range before {
		switch {
		case value != nil:
			value = nil
		case word == "--" || len(node.Positional) > 0 && node.Positional[0].Passthrough && !strings.HasPrefix(word, "-"):
			return nil // what follows is the program's
		case strings.HasPrefix(word, "-"):
			if f := flagOf(leaf(node), word); f != nil && !f.IsBool() && !strings.Contains(word, "=") {
				value = f
			}
		default:
			for _, child := range node.Children {
				if child.Name == word {
					node = child
					break
				}
			}
		}
	}
	var out []candidate
	switch {
	case value != nil:
		for _, word := range wordsOf(value.Value) {
			out = append(out, candidate{word: word})
		}
	case strings.HasPrefix(last, "-"):
		for _, group := range leaf(node).AllFlags(true) {
			for _, f := range group {
				out = append(out, candidate{"--" + f.Name, f.Help})
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				out = append(out, candidate{child.Name, child.Help})
			}
		}
		for _, arg := range node.Positional {
			for _, word := range wordsOf(arg) {
				out = append(out, candidate{word: word})
			}
		}
	}
	return out
}

// leaf is the command that a node stands for.
func leaf(node *kong.Node) *kong.Node {
	if node.DefaultCmd != nil {
		return node.DefaultCmd
	}
	return node
}

func flagOf(node *kong.Node, word string) *kong.Flag {
	name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || (f.Short != 0 && string(f.Short) == name) {
				return f
			}
		}
	}
	return nil
}

// wordsOf are the words that a value can be; none for a free one.
func wordsOf(v *kong.Value) []string {
	var words []string
	switch {
	case v.Enum != "":
		words = strings.Split(v.Enum, ",")
	case v.Name == "types":
		for _, t := range run.EventTypes() {
			words = append(words, string(t))
		}
	case v.Name == "by":
		for _, d := range run.UsageDimensions() {
			words = append(words, strings.ToLower(string(d)))
		}
	case v.Name == "status":
		for _, s := range run.Statuses() {
			words = append(words, string(s))
		}
	}
	return words
}
