package httpapi

import (
	"mime"
	"strconv"
	"strings"
)

const (
	typeJSON     = "application/json"
	typeResponse = "application/graphql-response+json"
	typeStream   = "text/event-stream"
)

// accepted is what a client said it takes.
type accepted struct {
	kind   string // the type it likes best of ours; JSON when it names none
	stream bool   // it takes an event stream, if perhaps not best
}

// accept reads the header Accept: the highest quality wins, the order among equals.
func accept(header []string) accepted {
	best, a := 0.0, accepted{kind: typeJSON}
	for part := range strings.SplitSeq(strings.Join(header, ","), ",") {
		kind, attrs, err := mime.ParseMediaType(strings.TrimSpace(part))
		if err != nil {
			continue
		}
		quality := 1.0
		if text, ok := attrs["q"]; ok {
			if quality, err = strconv.ParseFloat(text, 64); err != nil || !(quality > 0) {
				continue
			}
		}
		switch kind {
		case typeStream:
			a.stream = true
		case typeResponse, typeJSON:
		case "*/*", "application/*":
			kind = typeJSON
		default:
			continue
		}
		if quality > best {
			best, a.kind = quality, kind
		}
	}
	return a
}
