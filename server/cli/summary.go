package cli

import (
	"fmt"
)

// maxSummary is how many metrics and files a summary names.
const maxSummary = 8

// Summary says in a few lines how a run ended, what its metrics came to, and what
// files it left.
func Summary(o Outcome) []string {
	r := o.Run
	head := "took no time"
	if r.StartedAt != nil && r.EndedAt != nil {
		head = "took " + seconds(r.EndedAt.Sub(*r.StartedAt))
	}
	for _, e := range r.Executions {
		if e.ExitCode != nil {
			head += fmt.Sprintf(", exit code %d", *e.ExitCode)
		}
		if e.Signal != "" {
			head += ", " + e.Signal
		}
	}
	lines := []string{head}
	for n, s := range r.Metrics {
		if n == maxSummary {
			lines = append(lines, fmt.Sprintf("  and %s more", count(len(r.Metrics)-n, "metric")))
			break
		}
		lines = append(lines, "  "+oneLine(s.text()))
	}
	for n, f := range r.Artifacts {
		if n == maxSummary {
			lines = append(lines, fmt.Sprintf("  and %s more", count(len(r.Artifacts)-n, "file")))
			break
		}
		lines = append(lines, "  "+f.Kind+" "+oneLine(f.Path)+", "+size(int64(f.Size)))
	}
	return lines
}
