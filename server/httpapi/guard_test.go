package httpapi

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/weirhq/weir/runtime/run"
)

// The table of P8: who may call, by which name, with what.
func TestGuard(t *testing.T) {
	t.Parallel()
	open := setup(t, func(o *Options) {
		o.Hosts, o.Origins = []string{"weir.example.com"}, []string{"https://dash.example.com"}
	})
	closed := setup(t, func(o *Options) { o.Token = "sesame" })
	bearer := []string{"Authorization", "Bearer sesame"}

	for name, c := range map[string]struct {
		b       *bundle
		headers []string
		status  int
		code    run.Code
	}{
		"Plain":                   {open, nil, 200, ""},
		"HostLocalhost":           {open, []string{"Host", "localhost:9"}, 200, ""},
		"HostSubOfLocalhost":      {open, []string{"Host", "weir.localhost"}, 200, ""},
		"HostIPv6Loopback":        {open, []string{"Host", "[::1]:8080"}, 200, ""},
		"HostOtherLoopback":       {open, []string{"Host", "127.0.0.2"}, 200, ""},
		"HostConfigured":          {open, []string{"Host", "Weir.Example.com:443"}, 200, ""},
		"HostForeign":             {open, []string{"Host", "evil.example"}, 403, run.Forbidden},
		"HostRebound":             {open, []string{"Host", "127.0.0.1.evil.example"}, 403, run.Forbidden},
		"HostLooksLikeLocalhost":  {open, []string{"Host", "localhost.evil.example"}, 403, run.Forbidden},
		"HostForeignAddress":      {open, []string{"Host", "10.1.2.3"}, 403, run.Forbidden},
		"HostUnspecified":         {open, []string{"Host", "0.0.0.0"}, 403, run.Forbidden},
		"OriginSame":              {open, []string{"Origin", "http://" + open.addr}, 200, ""},
		"OriginSameOverTLS":       {open, []string{"Host", "weir.example.com", "Origin", "https://weir.example.com"}, 200, ""},
		"OriginConfigured":        {open, []string{"Origin", "https://dash.example.com"}, 200, ""},
		"OriginForeign":           {open, []string{"Origin", "https://evil.example"}, 403, run.Forbidden},
		"OriginOtherPort":         {open, []string{"Origin", "http://127.0.0.1:1"}, 403, run.Forbidden},
		"OriginOtherLoopbackName": {open, []string{"Origin", "http://localhost:1"}, 403, run.Forbidden},
		"OriginConfiguredPlain":   {open, []string{"Origin", "http://dash.example.com"}, 403, run.Forbidden},
		"OriginNull":              {open, []string{"Origin", "null"}, 403, run.Forbidden},
		"OriginExtension":         {open, []string{"Origin", "chrome-extension://" + open.addr}, 403, run.Forbidden},
		"CrossSiteWithoutOrigin":  {open, []string{"Sec-Fetch-Site", "cross-site"}, 403, run.Forbidden},
		"SameOriginFetch":         {open, []string{"Sec-Fetch-Site", "same-origin"}, 200, ""},
		"Forwarded":               {open, []string{"Forwarded", "for=1.2.3.4"}, 403, run.Forbidden},
		"XForwardedFor":           {open, []string{"X-Forwarded-For", "1.2.3.4"}, 403, run.Forbidden},
		"XForwardedHost":          {open, []string{"X-Forwarded-Host", "a"}, 403, run.Forbidden},
		"XForwardedProto":         {open, []string{"x-forwarded-proto", "https"}, 403, run.Forbidden},
		"XRealIP":                 {open, []string{"X-Real-IP", "1.2.3.4"}, 403, run.Forbidden},
		"OriginUserinfo":          {open, []string{"Origin", "http://evil@" + open.addr}, 403, run.Forbidden},
		"OriginWithPathForeign":   {open, []string{"Origin", "http://" + open.addr + "/x"}, 403, run.Forbidden},
		"OriginSecondForeign":     {open, []string{"Origin", "http://" + open.addr, "Origin", "https://evil.example"}, 403, run.Forbidden},
		"ForwardedX":              {open, []string{"X-Forwarded", "for=1.2.3.4"}, 403, run.Forbidden},
		"ForwardedUnderscores":    {open, []string{"X_Forwarded_For", "1.2.3.4"}, 403, run.Forbidden},
		"ForwardedEmpty":          {open, []string{"X-Forwarded-Proto", ""}, 403, run.Forbidden},
		"ForwardedVia":            {open, []string{"Via", "1.1 proxy"}, 403, run.Forbidden},
		"ForwardedCloudflare":     {open, []string{"CF-Connecting-IP", "1.2.3.4"}, 403, run.Forbidden},
		"ForwardedTrueClient":     {open, []string{"True-Client-IP", "1.2.3.4"}, 403, run.Forbidden},
		"ForwardedWithAnyToken":   {open, []string{"X-Forwarded-For", "1.2.3.4", "Authorization", "Bearer sesame"}, 403, run.Forbidden},
		"TokenWhereNoneIsAsked":   {open, bearer, 200, ""},
		"NoToken":                 {closed, nil, 401, run.Unauthenticated},
		"Token":                   {closed, bearer, 200, ""},
		"TokenLowerCaseScheme":    {closed, []string{"Authorization", "bearer sesame"}, 200, ""},
		"TokenWrong":              {closed, []string{"Authorization", "Bearer sesam"}, 401, run.Unauthenticated},
		"TokenLonger":             {closed, []string{"Authorization", "Bearer sesame2"}, 401, run.Unauthenticated},
		"TokenEmpty":              {closed, []string{"Authorization", "Bearer "}, 401, run.Unauthenticated},
		"TokenAsBasic":            {closed, []string{"Authorization", "Basic sesame"}, 401, run.Unauthenticated},
		"ForwardedWithToken":      {closed, append([]string{"X-Forwarded-For", "1.2.3.4"}, bearer...), 200, ""},
		"ForwardedWithWrongToken": {closed, []string{"X-Forwarded-For", "1.2.3.4", "Authorization", "Bearer x"}, 401, run.Unauthenticated},
		"ForeignHostWithToken":    {closed, append([]string{"Host", "evil.example"}, bearer...), 403, run.Forbidden},
		"ForeignOriginWithToken":  {closed, append([]string{"Origin", "https://evil.example"}, bearer...), 403, run.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := c.b.post(t, `mutation{createSession(input:{title:"`+name+`"}){id}}`, c.headers...)
			code, message := a.code(t)
			if a.status != c.status || code != string(c.code) {
				t.Fatalf("%d %s, want %d %s: %s", a.status, code, c.status, c.code, a.body)
			}
			if c.status != 200 && !strings.Contains(message, ";") && !strings.Contains(message, "start the server") {
				t.Errorf("the message has no remedy: %s", message)
			}
			if c.status == 401 && a.header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
			if strings.Contains(a.body, "sesam") {
				t.Error("the answer shows a token")
			}
		})
	}
	// Refused requests did nothing.
	t.Cleanup(func() {
		for _, b := range []*bundle{open, closed} {
			for len(b.started) > 0 {
				title := <-b.started
				for _, bad := range []string{"Foreign", "Forwarded", "Wrong", "NoToken", "CrossSite", "Null"} {
					if strings.Contains(title, bad) && title != "ForwardedWithToken" {
						t.Errorf("the refused request %s reached the engine", title)
					}
				}
			}
		}
	})
}

// Everything else the server answers is guarded by the same rules.
func TestGuardOfTheOtherPaths(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Token = "sesame" })
	for path, want := range map[string]int{
		"/": 200, "/playground": 200, "/assets/a-1234.js": 200, "/healthz": 200, "/readyz": 200, // nothing secret, and a browser sends no token
		"/metrics": 401, "/graphql?query={server{version}}": 401,
	} {
		if a := b.ask(t, http.MethodGet, path, ""); a.status != want {
			t.Errorf("%s without a token: %d, want %d", path, a.status, want)
		}
		if a := b.ask(t, http.MethodGet, path, "", "Host", "evil.example"); a.status != 403 {
			t.Errorf("%s by a foreign host: %d", path, a.status)
		}
		if a := b.ask(t, http.MethodGet, path, "", "Origin", "https://evil.example"); a.status != 403 {
			t.Errorf("%s by a foreign origin: %d", path, a.status)
		}
	}
	if a := b.ask(t, http.MethodGet, "/metrics", "", "Authorization", "Bearer sesame"); a.status != 200 || !strings.Contains(a.body, "weir_ws_stalled_total 0") {
		t.Errorf("/metrics: %d %s", a.status, a.body)
	}
}

// Only an upgrade to a WebSocket of the API may bring its token later.
func TestOnlyAWebSocketBringsItsTokenLater(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) { o.Token = "sesame" })
	const query = "/graphql?query={server{version}}"
	for name, c := range map[string]struct {
		method, path string
		headers      []string
	}{
		"Metrics":          {http.MethodGet, "/metrics", []string{"Upgrade", "x"}},
		"MetricsWebSocket": {http.MethodGet, "/metrics", []string{"Upgrade", "websocket", "Connection", "Upgrade"}},
		"OtherProtocol":    {http.MethodGet, query, []string{"Upgrade", "h2c", "Connection", "Upgrade"}},
		"NoConnection":     {http.MethodGet, query, []string{"Upgrade", "websocket"}},
		"Post":             {http.MethodPost, "/graphql", []string{"Upgrade", "websocket", "Connection", "Upgrade", "Content-Type", "application/json"}},
	} {
		if a := b.ask(t, c.method, c.path, `{"query":"{server{version}}"}`, c.headers...); a.status != 401 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

func TestPreflightOfAConfiguredOrigin(t *testing.T) {
	t.Parallel()
	b := setup(t, func(o *Options) {
		o.Token, o.Origins = "sesame", []string{"https://dash.example.com"}
	})
	a := b.ask(t, http.MethodOptions, "/graphql", "", "Origin", "https://dash.example.com", "Access-Control-Request-Method", "POST")
	if a.status != 204 || a.header.Get("Access-Control-Allow-Origin") != "https://dash.example.com" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("%d %v", a.status, a.header)
	}
	if a := b.ask(t, http.MethodOptions, "/graphql", "", "Origin", "https://evil.example"); a.status != 403 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a foreign origin's preflight: %d %v", a.status, a.header)
	}
}

// A WebSocket is guarded at the upgrade; only its token may come later.
func TestGuardOfWebSockets(t *testing.T) {
	t.Parallel()
	open := setup(t, nil)
	closed := setup(t, func(o *Options) { o.Token = "sesame" })
	for name, c := range map[string]struct {
		b      *bundle
		header http.Header
	}{
		"ForeignOrigin": {open, http.Header{"Origin": {"https://evil.example"}}},
		"ForeignHost":   {open, http.Header{"Host": {"evil.example"}}},
		"Forwarded":     {open, http.Header{"X-Forwarded-For": {"1.2.3.4"}}},
		"WrongToken":    {closed, http.Header{"Authorization": {"Bearer x"}}},
		"OriginAndPort": {closed, http.Header{"Origin": {"http://127.0.0.1:1"}}},
	} {
		if _, resp, err := c.b.dial(t, c.header); err == nil || resp == nil || (resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized) { //nolint:bodyclose // Dial closes it
			t.Errorf("%s is let in: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		b      *bundle
		header http.Header
		init   string
		ok     bool
	}{
		"NoTokenNeeded":     {open, nil, `{}`, true},
		"SameOrigin":        {open, http.Header{"Origin": {"http://" + open.addr}}, `{}`, true},
		"TokenInHeader":     {closed, http.Header{"Authorization": {"Bearer sesame"}}, `{}`, true},
		"TokenInPayload":    {closed, nil, `{"authorization":"Bearer sesame"}`, true},
		"TokenInPayloadToo": {closed, nil, `{"Authorization":"Bearer sesame"}`, true},
		"ForwardedAndToken": {closed, http.Header{"X-Forwarded-For": {"1.2.3.4"}}, `{"authorization":"Bearer sesame"}`, true},
		"NoToken":           {closed, nil, `{}`, false},
		"WrongPayload":      {closed, nil, `{"authorization":"Bearer x"}`, false},
		"PayloadNotText":    {closed, nil, `{"authorization":5}`, false},
		"ForwardedNoToken":  {closed, http.Header{"X-Forwarded-For": {"1.2.3.4"}}, `{}`, false},
	} {
		conn, _, err := c.b.dial(t, c.header) //nolint:bodyclose // Dial closes it
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		send(t, conn, `{"type":"connection_init","payload":`+c.init+`}`)
		got, err := read(t, conn)
		if c.ok && got != `{"type":"connection_ack"}` {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		if !c.ok && websocket.CloseStatus(err) != 4401 {
			t.Errorf("%s: %s, %v; want 4401", name, got, err)
		}
	}
}

func TestConfigurationOfTheGuard(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "*", "a b", "http://a", "*.example.com"} {
		if _, err := newGuard("", []string{host}, nil); run.CodeOf(err) != run.Invalid {
			t.Errorf("the host %q is taken: %v", host, err)
		}
	}
	for _, origin := range []string{"", "*", "dash.example.com", "https://a/b", "ftp://a", "https://", "https://a@b", "https://a?b"} {
		if _, err := newGuard("", nil, []string{origin}); run.CodeOf(err) != run.Invalid {
			t.Errorf("the origin %q is taken: %v", origin, err)
		}
	}
}

// Without a token only loopback addresses are served.
func TestNoTokenNoOtherMachines(t *testing.T) {
	t.Parallel()
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 80} }
	for _, c := range []struct {
		at net.Addr
		ok bool
	}{
		{tcp("127.0.0.1"), true},
		{tcp("127.9.9.9"), true},
		{tcp("::1"), true},
		{&net.UnixAddr{Name: "/run/weir.sock", Net: "unix"}, true},
		{tcp("0.0.0.0"), false},
		{tcp("::"), false},
		{tcp("192.168.1.1"), false},
		{tcp("fe80::1"), false},
	} {
		for token, want := range map[string]bool{"": c.ok, "sesame": true} {
			g, err := newGuard(token, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.mayServe(c.at); (err == nil) != want || (err != nil && run.CodeOf(err) != run.Forbidden) {
				t.Errorf("%s with the token %q: %v", c.at, token, err)
			}
		}
	}
	b := setup(t, nil)
	if err := b.server.Serve(t.Context(), elsewhere{}); run.CodeOf(err) != run.Forbidden {
		t.Errorf("Serve: %v", err)
	}
}

// elsewhere is a listener that other machines can reach.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 80} }
func (elsewhere) Close() error   { return nil }
