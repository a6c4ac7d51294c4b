package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

const (
	patience = 3 * time.Second
	// maxAnswer and maxHeader bound what a service may say, in bytes.
	maxAnswer = 64 << 10
	maxHeader = 16 << 10
)

// endpoint is where a service listens: nowhere else is anything sent, whatever
// it answers.
type endpoint struct {
	root   *os.Root // of the workspace
	socket string   // in it; "" for a port
	port   int      // of 127.0.0.1

	patience time.Duration // bounds one exchange, from the connection to the last byte
}

// String is how users know it.
func (e *endpoint) String() string {
	if e.socket != "" {
		return "the socket " + e.socket + " of its workspace (WEIR_SOCKET)"
	}
	return "port " + strconv.Itoa(e.port) + " of 127.0.0.1 (WEIR_PORT)"
}

func (e *endpoint) dial(ctx context.Context) (net.Conn, error) {
	if e.socket != "" {
		return dialSocket(ctx, e.root, e.socket)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(e.port)))
}

// ready tells whether the service listens, and answers at path if there is one.
func (e *endpoint) ready(ctx context.Context, path string) error {
	if path != "" {
		_, err := e.get(ctx, path)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	c, err := e.dial(ctx)
	if err != nil {
		return fmt.Errorf("nothing listens there: %w", err)
	}
	return c.Close()
}

// get asks the service and gives the body of its answer.
func (e *endpoint) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, e.patience)
	defer cancel()
	// No proxy, no connection that is kept, and no address but the service's own.
	t := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return e.dial(ctx) },
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	defer t.CloseIdleConnections()
	client := http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, e.silent(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return nil, fmt.Errorf("a redirect came (status %d), which is not followed", res.StatusCode)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, fmt.Errorf("status %d came", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return nil, e.silent(ctx, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("more than %d bytes came", maxAnswer)
	}
	return bytes.TrimSpace(body), nil
}

// silent says why no answer came.
func (e *endpoint) silent(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer came within %s", e.patience)
	}
	var op *net.OpError
	if errors.As(err, &op) { // without the address, which is made up
		err = op.Err
	}
	return fmt.Errorf("no answer came: %w", err)
}
