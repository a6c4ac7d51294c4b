package gemini

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
)

const (
	maxEvent = 32 << 20
	maxFault = 64 << 10
)

// exchange is what the SDK does not hand on of a request. It reads arguments of
// calls into maps, which lose their order and the digits of large numbers; it
// drops the headers of an error.
type exchange struct {
	status int
	header http.Header
	event  []byte // the JSON of the one that the SDK reads
	fault  []byte // the body of an error
	err    error  // what broke the stream
}

type exchangeKey struct{}

// transport sends the requests of the SDK with the key, and notes what comes back
// in the exchange of their context.
type transport struct {
	base http.RoundTripper
	key  string
}

func (t *transport) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Del("X-Goog-Api-Key")
	if t.key != "" {
		q.Header.Set("X-Goog-Api-Key", t.key)
	}
	base := t.base
	if base == nil {
		base = http.DefaultTransport
	}
	r, err := base.RoundTrip(q)
	x, ok := q.Context().Value(exchangeKey{}).(*exchange)
	if err != nil || !ok {
		return r, err
	}
	x.status, x.header = r.StatusCode, r.Header
	if r.StatusCode/100 == 2 {
		s := bufio.NewScanner(r.Body)
		s.Buffer(nil, maxEvent)
		r.Body = &events{x: x, body: r.Body, lines: s}
		return r, nil
	}
	x.fault, _ = io.ReadAll(io.LimitReader(r.Body, maxFault)) // what came of it
	r.Body = &rest{Reader: bytes.NewReader(x.fault), Closer: r.Body}
	return r, nil
}

// rest is a body whose text was read before.
type rest struct {
	io.Reader
	io.Closer
}

// events is the body of a stream as the SDK can read it: data only. For the SDK a
// comment or another field is a fault, and a broken stream something to log.
type events struct {
	x     *exchange
	body  io.ReadCloser
	lines *bufio.Scanner
	out   []byte
	stray []byte // lines that are no fields: an error may come as plain JSON
	over  bool
}

func (e *events) Close() error { return e.body.Close() }

// Read gives one event at a time, so that exchange.event is the SDK's.
func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.over || !e.next() {
			return 0, io.EOF
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// next takes the next event from the stream.
func (e *events) next() bool {
	var data []byte
	for e.lines.Scan() {
		line := e.lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 {
			if len(data) > 0 {
				return e.emit(data)
			}
			continue
		}
		switch field, value, _ := bytes.Cut(line, []byte(":")); string(field) {
		case "data":
			if len(data) > 0 {
				data = append(data, ' ') // lines of one event; the SDK cuts at empty ones
			}
			data = append(data, bytes.TrimSpace(value)...)
		case "", "event", "id", "retry":
		default:
			if len(e.stray)+len(line) < maxFault {
				e.stray = append(append(e.stray, line...), '\n')
			}
		}
	}
	e.over = true
	e.x.err = e.lines.Err()
	if failed(e.stray) != nil {
		e.x.fault = e.stray
	}
	return e.x.err == nil && json.Valid(data) && e.emit(data)
}

func (e *events) emit(data []byte) bool {
	if failed(data) != nil {
		e.x.fault, e.over = data, true
		return false
	}
	e.x.event = data
	e.out = append(append([]byte("data: "), data...), "\n\n"...)
	return true
}

// failure is an error as the API tells it.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Details []struct {
		Reason     string `json:"reason"`     // of ErrorInfo
		RetryDelay string `json:"retryDelay"` // of RetryInfo
	} `json:"details"`
}

// failed gives the error that a JSON text tells, or nil. It may stand in a list.
func failed(text []byte) *failure {
	type body struct {
		Error *failure `json:"error"`
	}
	var one body
	if json.Unmarshal(text, &one) == nil {
		return one.Error
	}
	var list []body
	if json.Unmarshal(text, &list) == nil && len(list) > 0 {
		return list[0].Error
	}
	return nil
}
