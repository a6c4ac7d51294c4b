package store

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/textfile"
)

// pgTarget is a checked PostgreSQL URL.
type pgTarget struct {
	network, addr            string // "tcp" host:port, or "unix" socket file
	user, password, database string
	app                      string
	tls                      *tls.Config // nil: plain text, on this machine only
}

// name is the target for messages, without the password.
func (p pgTarget) name() string { return p.user + "@" + p.addr + "/" + p.database }

// parsePGURL accepts
//
//	postgres://user:password@host:5432/database?sslmode=verify-full&sslrootcert=/path/ca.pem
//	postgres://user:password@localhost/database
//	postgres://user@/database?host=/var/run/postgresql
//
// Off this machine only verify-full is accepted: every other mode lets somebody
// in between read or change everything.
func parsePGURL(raw string) (pgTarget, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return pgTarget{}, run.Errorf(run.Invalid, "the database URL cannot be read: it should look like postgres://user:password@host:5432/database?sslmode=verify-full; write special characters in the password as %%XX")
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return pgTarget{}, run.Errorf(run.Invalid, "the database URL begins with %q; it must begin with postgres://, or be empty for SQLite", u.Scheme+":")
	}
	q := u.Query()
	for key := range q {
		if !slices.Contains([]string{"sslmode", "sslrootcert", "host", "port", "application_name"}, key) {
			return pgTarget{}, run.Errorf(run.Invalid, "the database URL has the unknown option %q; known are sslmode, sslrootcert, host, port and application_name (settings of the server: ALTER ROLE ... SET)", key)
		}
	}
	t := pgTarget{user: u.User.Username(), database: strings.TrimPrefix(u.Path, "/"), app: q.Get("application_name")}
	t.password, _ = u.User.Password()
	if t.user == "" {
		return t, run.Errorf(run.Invalid, "the database URL names no user; write postgres://user:password@host/database")
	}
	if t.database == "" {
		t.database = t.user
	}
	if t.app == "" {
		t.app = "weir"
	}
	host, port := u.Hostname(), u.Port()
	if h := q.Get("host"); h != "" {
		host = h
	}
	if p := q.Get("port"); p != "" {
		port = p
	}
	if port == "" {
		port = "5432"
	}
	if host == "" {
		return t, run.Errorf(run.Invalid, "the database URL names no host; write postgres://user@host/database, or ?host=/folder/of/the/socket")
	}
	mode := q.Get("sslmode")
	if strings.HasPrefix(host, "/") {
		t.network, t.addr = "unix", host
		if !strings.Contains(host, ".s.PGSQL.") {
			t.addr = strings.TrimSuffix(host, "/") + "/.s.PGSQL." + port
		}
		if mode != "" && mode != "disable" {
			return t, run.Errorf(run.Invalid, "sslmode=%s makes no sense on the socket %s; leave sslmode out", mode, t.addr)
		}
		return t, nil
	}
	t.network, t.addr = "tcp", net.JoinHostPort(host, port)
	switch mode {
	case "verify-full":
		t.tls = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
		return t, t.trust(q.Get("sslrootcert"))
	case "", "disable":
		if ip := net.ParseIP(host); host == "localhost" || (ip != nil && ip.IsLoopback()) {
			return t, nil
		}
		if mode == "" {
			mode = "(none)"
		}
		return t, run.Errorf(run.Invalid, "sslmode %s would send everything to %s in plain text; use sslmode=verify-full (with sslrootcert=/path/ca.pem for a private CA); disable is for this machine only", mode, host)
	default:
		return t, run.Errorf(run.Invalid, "sslmode=%s does not prove who the server %s is; use sslmode=verify-full (with sslrootcert=/path/ca.pem for a private CA)", mode, host)
	}
}

// maxCertificates bounds the file of a CA, in bytes.
const maxCertificates = 4 << 20

// trust makes the CA file the only root; without one the system's roots count.
func (p *pgTarget) trust(file string) error {
	if file == "" {
		return nil
	}
	pem, err := textfile.Read(file, maxCertificates)
	if err != nil {
		return run.Errorf(run.Invalid, "sslrootcert=%s of the database URL cannot be read: %w", file, err)
	}
	p.tls.RootCAs = x509.NewCertPool()
	if !p.tls.RootCAs.AppendCertsFromPEM(pem) {
		return run.Errorf(run.Invalid, "sslrootcert=%s holds no certificate in PEM form", file)
	}
	return nil
}
