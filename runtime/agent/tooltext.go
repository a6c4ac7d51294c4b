package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/sandbox"
)

// ToolText is what a model would get back from a tool: the output, and how the
// command ended unless it went well.
func ToolText(res sandbox.Result, out Output) string {
	var b strings.Builder
	b.WriteString(out.Stdout)
	if out.Stderr != "" {
		if b.Len() > 0 && !strings.HasSuffix(out.Stdout, "\n") {
			b.WriteByte('\n')
		}
		b.WriteString("stderr:\n")
		b.WriteString(out.Stderr)
	}
	if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
		b.WriteByte('\n')
	}
	switch {
	case res.TimedOut():
		fmt.Fprintf(&b, "stopped after %s: out of time\n", res.Elapsed.Round(10*time.Millisecond))
	case res.Signal != "":
		fmt.Fprintf(&b, "killed by %s (%s)\n", res.Signal, res.Class)
	case res.IsError() && res.ExitCode != nil:
		fmt.Fprintf(&b, "exit code %d\n", *res.ExitCode)
	case res.IsError():
		fmt.Fprintf(&b, "failed: %s\n", res.Class)
	}
	return b.String()
}
