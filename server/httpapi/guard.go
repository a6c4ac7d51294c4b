package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/weirhq/weir/runtime/run"
)

// guard decides whose requests come in (P8). An API that starts processes must
// not be reachable from a web page of somebody else (origin), through a name
// that somebody else controls (host, against DNS rebinding), or through a proxy
// that publishes a loopback address (forwarded).
type guard struct {
	token   *[sha256.Size]byte // nil: none is asked for
	hosts   map[string]bool
	origins map[string]bool
}

func newGuard(token string, hosts, origins []string) (guard, error) {
	g := guard{hosts: map[string]bool{}, origins: map[string]bool{}}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		g.token = &sum
	}
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/ *") {
			return g, run.Errorf(run.Invalid, "%q is not a host name; give a name without scheme, port or wildcard, for example weir.example.com", h)
		}
		g.hosts[strings.ToLower(h)] = true
	}
	for _, o := range origins {
		u, err := url.Parse(o)
		if err != nil || !isOrigin(u, o) {
			return g, run.Errorf(run.Invalid, "%q is not an origin; give scheme, host and port only, for example https://dash.example.com", o)
		}
		g.origins[strings.ToLower(o)] = true
	}
	return g, nil
}

// everyone stands before every path: host and origin.
func (g guard) everyone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if !g.hostAllowed(r) {
			refuse(w, http.StatusForbidden, run.Errorf(run.Forbidden,
				"the host %q is not one of this server's names; call it by localhost or its address, or start it with this name allowed", clip(r.Host)))
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			if origin != "" && !g.originAllowed(origin, r) {
				refuse(w, http.StatusForbidden, run.Errorf(run.Forbidden,
					"the origin %q may not call this server; open the page from the server itself, or start it with this origin allowed", clip(origin)))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// api stands before what acts or tells: token, forwarded headers, and the
// cross-site requests that carry no Origin. Where sockets are served, the token
// of a WebSocket may come after its upgrade.
func (g guard) api(next http.Handler, sockets bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
			refuse(w, http.StatusForbidden, run.Errorf(run.Forbidden, "another site's page may not call this server; open the page from the server itself"))
			return
		}
		if g.origins[strings.ToLower(origin)] {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", origin)
			h.Add("Vary", "Origin")
			if r.Method == http.MethodOptions {
				h.Set("Access-Control-Allow-Methods", "GET, POST")
				h.Set("Access-Control-Allow-Headers", "authorization, content-type, accept, last-event-id")
				h.Set("Access-Control-Max-Age", "600")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		// A browser cannot set headers on a WebSocket: its token may come with
		// connection_init, see admitSocket.
		if !sockets || !isUpgrade(r) || r.Header.Get("Authorization") != "" {
			if err := g.admit(r, r.Header.Get("Authorization")); err != nil {
				status := http.StatusForbidden
				if err.Code == run.Unauthenticated {
					w.Header().Set("WWW-Authenticate", `Bearer realm="weir"`)
					status = http.StatusUnauthorized
				}
				refuse(w, status, err)
				return
			}
		} else if err := g.admitLater(r); err != nil {
			refuse(w, http.StatusForbidden, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admit judges the credentials of a request.
func (g guard) admit(r *http.Request, authorization string) *run.Error {
	if g.token == nil {
		return g.admitLater(r)
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	// Equal lengths by hashing, so that the time tells nothing about the token.
	match := subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
	switch {
	case authorization == "":
		return run.Errorf(run.Unauthenticated, "this server asks for a token; send the header Authorization: Bearer TOKEN")
	case !strings.EqualFold(scheme, "Bearer") || !match:
		return run.Errorf(run.Unauthenticated, "the token is not the one this server was started with; send Authorization: Bearer TOKEN")
	}
	return nil
}

// admitLater judges a request whose token, if one is needed, comes later.
func (g guard) admitLater(r *http.Request) *run.Error {
	if g.token != nil {
		return nil
	}
	for name := range r.Header {
		if isForwarded(name) {
			return run.Errorf(run.Forbidden,
				"the request came through a proxy (%s), which would publish this server to whoever reaches the proxy; start the server with a token", name)
		}
	}
	return nil
}

// isForwarded tells whether a proxy sets this header. Some servers behind a
// proxy read an underscore as a hyphen, so it counts as one.
func isForwarded(header string) bool {
	name := strings.ReplaceAll(strings.ToLower(header), "_", "-")
	switch name {
	case "forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip":
		return true
	}
	return strings.HasPrefix(name, "x-forwarded")
}

// admitSocket judges a WebSocket by its request or, because a browser cannot
// set headers there, by {"authorization": "Bearer TOKEN"} in connection_init.
func (g guard) admitSocket(r *http.Request, payload map[string]any) error {
	if g.token == nil || r.Header.Get("Authorization") != "" {
		return nil // the guard has judged the request itself
	}
	for _, key := range []string{"authorization", "Authorization"} {
		if text, ok := payload[key].(string); ok {
			if err := g.admit(r, text); err != nil {
				return err
			}
			return nil
		}
	}
	return run.Errorf(run.Unauthenticated, `a token is needed: connection_init with {"authorization": "Bearer TOKEN"}`)
}

func (g guard) hostAllowed(r *http.Request) bool {
	host := hostname(r.Host)
	if isLoopback(host) || g.hosts[host] {
		return true
	}
	// The address that the connection arrived at: nobody can rebind a number.
	ip, err := netip.ParseAddr(host)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if err != nil || !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

// originAllowed takes an origin that is configured, or that is this very host.
// Schemes are not compared: a proxy may have taken TLS off.
func (g guard) originAllowed(origin string, r *http.Request) bool {
	if g.origins[strings.ToLower(origin)] {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && isOrigin(u, origin) && strings.EqualFold(u.Host, r.Host)
}

// isOrigin tells whether text, parsed as u, is scheme, host and port and no more.
func isOrigin(u *url.URL, text string) bool {
	return u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(text, u.Scheme+"://"+u.Host)
}

// hostname gives the lower-case host without port and brackets.
func hostname(hostport string) string {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// mayServe refuses to open an API without a token to other machines.
func (g guard) mayServe(at net.Addr) error {
	addr, err := netip.ParseAddrPort(at.String())
	if g.token != nil || at.Network() == "unix" || (err == nil && addr.Addr().Unmap().IsLoopback()) {
		return nil
	}
	return run.Errorf(run.Forbidden, "the address %s can be reached from other machines; set a token, or listen on 127.0.0.1", at)
}

// isUpgrade tells whether a request opens a WebSocket.
func isUpgrade(r *http.Request) bool {
	return r.Method == http.MethodGet && hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", "websocket")
}

// hasToken looks for a token in a header that holds a list of them.
func hasToken(h http.Header, name, token string) bool {
	for part := range strings.SplitSeq(strings.Join(h.Values(name), ","), ",") {
		if strings.EqualFold(strings.TrimSpace(part), token) {
			return true
		}
	}
	return false
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}
