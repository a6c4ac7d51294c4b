package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// DefaultServer is where a server listens unless it was told otherwise.
const DefaultServer = "http://127.0.0.1:8080"

const (
	defaultPatience = 5 * time.Minute
	// answerTime is longer than a server waits for the end of a run, and for a
	// large answer over a slow line.
	answerTime = 2 * time.Minute
	maxAnswer  = 256 << 20
)

// Options say which server a client talks to.
type Options struct {
	// Server is the base URL, with or without scheme and path; "" is DefaultServer.
	Server string
	Token  string
	// Notice is told when a connection is lost and found again; nil: nobody is.
	Notice func(text string)
	// Patience is how long a server that answered before may be away; 0: 5 minutes.
	Patience time.Duration
	// Answer is how long one answer may take; 0: 2 minutes.
	Answer time.Duration
}

var errNoAnswer = errors.New("the answer took too long")

// Client talks to one server. Its methods may be called at the same time.
type Client struct {
	base     *url.URL
	token    string
	notice   func(string)
	patience time.Duration
	answer   time.Duration
	http     *http.Client
	met      atomic.Bool // the server has answered
}

// NewClient makes a client without touching the network.
func NewClient(o Options) (*Client, error) {
	text := o.Server
	if text == "" {
		text = DefaultServer
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	base, err := url.Parse(text)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" {
		return nil, usagef("--server %q is not the URL of a server, such as %s", o.Server, DefaultServer)
	}
	base.Path = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/graphql")
	if strings.ContainsFunc(o.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, usagef("the token holds a space or a character outside ASCII; give it with WEIR_TOKEN or --token-file")
	}
	c := &Client{base: base, token: o.Token, notice: o.Notice, patience: o.Patience, answer: o.Answer}
	if c.notice == nil {
		c.notice = func(string) {}
	}
	if c.patience == 0 {
		c.patience = defaultPatience
	}
	if c.answer == 0 {
		c.answer = answerTime
	}
	// A connection pool of its own, so that Close ends what this client opened.
	c.http = &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		IdleConnTimeout:       30 * time.Second,
		ExpectContinueTimeout: time.Second,
	}}
	return c, nil
}

// Close ends the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// URL is the server's address, without a slash at its end.
func (c *Client) URL() string { return c.base.Redacted() }

// PageURL is where the page shows a session.
func (c *Client) PageURL(session string) string {
	return c.URL() + "/?session=" + url.QueryEscape(session)
}

func (c *Client) header() http.Header {
	h := http.Header{}
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	return h
}

// gqlError is an entry of an answer's errors.
type gqlError struct {
	Message    string `json:"message"`
	Extensions struct {
		Code string `json:"code"`
	} `json:"extensions"`
}

// Do runs a query or a mutation and decodes its data into out. Its error is a
// *run.Error, in the server's words where the server answered; UNAVAILABLE means
// that the server did not answer, and that it is unknown whether it acted.
func (c *Client) Do(ctx context.Context, query string, variables map[string]any, out any) error {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	asked := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, c.answer, errNoAnswer)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base.String()+"/graphql", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.Header = c.header()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/graphql-response+json, application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return c.unanswered(asked, ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return c.unanswered(asked, ctx, err)
	}
	var answer struct {
		Data   json.RawMessage `json:"data"`
		Errors []gqlError      `json:"errors"`
	}
	if json.Unmarshal(raw, &answer) != nil || (len(answer.Errors) == 0 && (answer.Data == nil || string(answer.Data) == "null")) {
		return c.stranger(resp.StatusCode)
	}
	c.met.Store(true)
	if len(answer.Errors) > 0 {
		return c.refused(answer.Errors[0])
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Data, out); err != nil {
		return c.otherForm(err)
	}
	return nil
}

// otherForm is the error for an answer that is not what was asked for.
func (c *Client) otherForm(err error) error {
	return run.Errorf(run.Internal, "the server at %s answers in another form than this weir knows (%w); use the same version of both", c.URL(), err)
}

// errNothing: the answer to a mutation lacks what it made.
var errNothing = errors.New("it holds nothing")

// unanswered is the error for a request that got no answer, or half of one; asked
// is the context of its caller, limited the one that bounds the answer.
func (c *Client) unanswered(asked, limited context.Context, err error) error {
	if asked.Err() == nil && limited.Err() != nil {
		return away(errNoAnswer, "the server at %s did not answer within %s: check --server or WEIR_SERVER", c.URL(), seconds(c.answer))
	}
	return c.unreachable(asked, err)
}

// refused is a server's error, with the remedy where the command line has one.
func (c *Client) refused(e gqlError) error {
	code, text := run.Code(e.Extensions.Code), e.Message
	switch code {
	case "":
		code = run.Internal
	case run.Unauthenticated:
		return c.unauthenticated()
	default:
	}
	return run.Errorf(code, "%s", oneLine(text))
}

func (c *Client) unauthenticated() error {
	if c.token == "" {
		return run.Errorf(run.Unauthenticated, "the server at %s asks for a token: set WEIR_TOKEN, or name a file with --token-file", c.URL())
	}
	return run.Errorf(run.Unauthenticated, "the server at %s does not know this token: check WEIR_TOKEN, --token-file or --token", c.URL())
}

// stranger is the error for an answer that is not GraphQL.
func (c *Client) stranger(status int) error {
	if status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout {
		return run.Errorf(run.Unavailable, "the server at %s answers %d %s", c.URL(), status, http.StatusText(status))
	}
	return run.Errorf(run.Invalid, "what answers at %s is not a Weir server (%d %s); name its address with --server or WEIR_SERVER", c.URL(), status, http.StatusText(status))
}

// unreachable says why nobody answered.
func (c *Client) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var dns *net.DNSError
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return away(err, "no server listens at %s: start one with weir serve, or name another with --server or WEIR_SERVER", c.URL())
	case errors.As(err, &dns):
		return away(err, "the host of %s has no address (%s): name another server with --server or WEIR_SERVER", c.URL(), dns.Err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return run.Errorf(run.Unavailable, "the server at %s closed the connection without an answer", c.URL())
	}
	return run.Errorf(run.Unavailable, "the server at %s cannot be reached (%w): check --server or WEIR_SERVER", c.URL(), err)
}

// away is an error of the network with its cause.
func away(cause error, format string, args ...any) error {
	return &run.Error{Code: run.Unavailable, Message: fmt.Sprintf(format, args...), Err: cause}
}

// patiently repeats f, which must be safe to repeat, while a server is away that
// has answered before. The first contact fails at once.
func (c *Client) patiently(ctx context.Context, f func() error) error {
	var lost time.Time
	for attempt := 0; ; attempt++ {
		err := f()
		if run.CodeOf(err) != run.Unavailable || !c.met.Load() {
			if err == nil && !lost.IsZero() {
				c.notice("connected again after " + seconds(time.Since(lost)))
			}
			return err
		}
		if lost.IsZero() {
			lost = time.Now()
			c.notice(err.Error() + "; trying again")
		}
		if time.Since(lost) > c.patience {
			return err
		}
		if err := pause(ctx, attempt); err != nil {
			return err
		}
	}
}
