package chat

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// NewClient makes the HTTP client for providers. A definition's base URL is asked
// and nothing else: it follows no redirect, which would carry the key elsewhere,
// and reaches no link-local address, where clouds keep their secrets. Close ends
// its idle connections.
func NewClient() *http.Client {
	d := &net.Dialer{Timeout: 10 * time.Second, Control: refuseLinkLocal}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: d.DialContext, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
			// A model may think long before its first byte; the run's deadline bounds it.
			ResponseHeaderTimeout: 10 * time.Minute,
		},
		CheckRedirect: func(q *http.Request, _ []*http.Request) error {
			return fmt.Errorf("it redirects to %s, which is not followed: set baseUrl to where the API is", q.URL.Redacted())
		},
	}
}

func refuseLinkLocal(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("the address %s is link-local, which is not reached", host)
	}
	return nil
}

// Of makes the Error of an answer that is no success, by its status and text.
func Of(status int, header http.Header, text string, cause error) *Error {
	e := &Error{Status: status, Text: text, Cause: cause, Class: Invalid}
	if e.Text == "" {
		e.Text = http.StatusText(status)
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		e.Class = Denied
	case status == http.StatusPaymentRequired:
		e.Class = NoCredit
	case status == http.StatusRequestEntityTooLarge:
		e.Class = TooLong
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooManyRequests, status >= 500:
		e.Class = Passing
		e.After = after(header)
	case status < 300:
		e.Class = Malformed
	}
	return e
}

// Broke makes the Error of an exchange that ended before the reply did. It keeps
// the cause of a context, which is no fault of the provider's.
func Broke(ctx context.Context, what string, cause error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e := &Error{Class: Passing, Text: what, Cause: cause}
	if cause != nil {
		e.Text += ": " + cause.Error()
	}
	var op *net.OpError
	if errors.As(cause, &op) && op.Op == "dial" && errors.Is(cause, syscall.ECONNREFUSED) {
		e.Text = fmt.Sprintf("nothing listens on %s", op.Addr)
	}
	return e
}

// after reads Retry-After: seconds, or a date.
func after(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms >= 0 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil && s >= 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}
