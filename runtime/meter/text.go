package meter

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxName = 256      // bytes of a model, an id or a stream
	maxRaw  = 16 << 10 // bytes of a kept payload
	maxText = 512      // bytes of a text that is shown
)

// clip cuts a text for people.
func clip(s string, limit int) string {
	s = clean(s)
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for s != "" && !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

// clean makes a text that every store can keep.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// name makes an id that every store can keep; long ones stay different.
func name(s string) string {
	s = clean(s)
	if len(s) <= maxName {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return strings.ToValidUTF8(s[:maxName-40], "") + "~" + hex.EncodeToString(sum[:16])
}

// kept is a payload as it is kept beside its record, nil when it is too long.
func kept(raw json.RawMessage) []byte {
	if len(raw) == 0 || len(raw) > maxRaw {
		return nil
	}
	return []byte(clean(string(raw)))
}

// bracket is what Claude Code puts behind a model to say how it is used, as
// the [1m] of claude-opus-4-8[1m].
var bracket = regexp.MustCompile(`\[[^\]]*\]$`)

// model cleans the name of a model.
func model(s string) string { return name(bracket.ReplaceAllString(s, "")) }

var (
	modelDate   = regexp.MustCompile(`[-@]20\d{2}-?\d{2}-?\d{2}$`)
	modelPlace  = regexp.MustCompile(`-v\d+(:\d+)?$`)
	modelVendor = regexp.MustCompile(`^(.*/)?([a-z]{2,6}\.)?(anthropic\.)?`)
)

// sameModel makes the names alike that one model has in different places. It
// only names streams, never the model of a record.
func sameModel(s string) string {
	s = modelPlace.ReplaceAllString(model(s), "")
	return modelVendor.ReplaceAllString(modelDate.ReplaceAllString(s, ""), "")
}

// timestamp reads a time of a payload, zero when it says none that can be true.
func timestamp(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return plausible(t)
}

func plausible(t time.Time) time.Time {
	if t.Year() < 2000 || t.After(time.Now().Add(time.Minute)) {
		return time.Time{}
	}
	return t.UTC()
}
