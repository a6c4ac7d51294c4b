// Package metricline turns one line of a program's output into what it means:
// metric points, a chart configuration, media, or plain text. It is pure: no
// input makes it fail, block or keep anything between lines.
package metricline

import (
	"encoding/json"

	"github.com/weirhq/weir/runtime/run"
)

// Record is what one line held; at most one field group is set. The zero
// Record is plain text.
type Record struct {
	Points []run.Point // without stage and time: the caller knows them
	Chart  json.RawMessage
	Media  *run.MediaLogged
	// Rejected is set when the line looked like a metric line and was not one:
	// the reason with the beginning of the line, for the loss accounting.
	Rejected string
}

// Plain tells whether the line is nothing but output.
func (r Record) Plain() bool { return len(r.Points) == 0 && r.Chart == nil && r.Media == nil }
