package cli

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/weirhq/weir/runtime/run"
)

// holding is a client of a server that answers everything with body.
func holding(t *testing.T, body string) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return client(t, s.URL, Options{})
}

// Another program may answer in GraphQL, too: where it holds nothing, that is an error.
func TestAnswersThatHoldNothing(t *testing.T) {
	t.Parallel()
	const events = `{"data":{"events":{"nodes":[null],"lastSeq":1}}}`
	for name, c := range map[string]struct {
		body string
		ask  func(c *Client) error
		want string
	}{
		"NoData":  {`{"data":null}`, func(c *Client) error { return c.Do(t.Context(), agentsText, nil, new(struct{ Agents []Agent })) }, "is not a Weir server"},
		"NoStart": {`{"data":{"startRun":null}}`, func(c *Client) error { _, err := c.Start(t.Context(), map[string]any{}); return err }, "use the same version"},
		"NoAbort": {`{"data":{"abortRun":null}}`, func(c *Client) error { _, err := c.Abort(t.Context(), AbortOrder{}); return err }, "use the same version"},
		"NoEvent": {events, func(c *Client) error { _, err := c.Events(t.Context(), Query{}, 1); return err }, "use the same version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.ask(holding(t, c.body)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	s := server(t, func(_ int64, send func(string)) websocket.StatusCode {
		send(`{"id":"1","type":"next","payload":{"data":{"events":[null]}}}`)
		return 0
	})
	if _, err := follow(t, client(t, s.URL, Options{}), Query{Session: "ses_1"}, 1); run.CodeOf(err) != run.Internal {
		t.Errorf("following gave %v", err)
	}
}

func TestListsThatHoldNothing(t *testing.T) {
	t.Parallel()
	for _, doc := range []bool{false, true} {
		for _, body := range []string{
			`{"data":{"runs":{"nodes":[null]},"sessions":{"nodes":[null]},"agents":[null]}}`,
			`{"data":{"runs":null,"sessions":null,"agents":null}}`,
		} {
			at := Connection{Server: holding(t, body).URL(), JSON: doc}
			out, _ := pipe()
			notes, _ := pipe()
			i := &IO{Out: out, Err: notes, Getenv: none}
			for _, list := range []func() error{
				func() error { return (&RunsCommand{Connection: at, Paging: Paging{Limit: 1}}).Run(t.Context(), i) },
				func() error { return (&SessionsCommand{Connection: at, Paging: Paging{Limit: 1}}).Run(t.Context(), i) },
				func() error { return (&AgentsCommand{Connection: at}).Run(t.Context(), i) },
			} {
				if err := list(); err != nil {
					t.Errorf("%s: %v", body, err)
				}
			}
		}
	}
}

// A server that takes a request and says nothing, or never ends its answer, is
// left after a while, and asked no second time.
func TestAnswersThatDoNotCome(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{"Nothing": "", "Half": `{"data":`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := make(chan struct{}, 10)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls <- struct{}{}
				_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
				_, _ = io.WriteString(w, first)
				if first != "" {
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			t.Cleanup(s.Close)
			_, err := start(t.Context(), client(t, s.URL, Options{Answer: 300 * time.Millisecond}), map[string]any{})
			if run.CodeOf(err) != run.Unavailable || !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), "did not answer within 300ms") || len(calls) != 1 {
				t.Errorf("got %v after %d calls", err, len(calls))
			}
		})
	}
}

// The last line may hold what a server sent.
func TestTheLastLineIsHarmless(t *testing.T) {
	t.Parallel()
	_, say := Exit(run.Errorf(run.NotFound, "no run x\x1b]0;title\x07 here\u009b2J\nsecond line"))
	if got := Line(say); got != "weir: no run x here; second line" {
		t.Errorf("got %q", got)
	}
}
