package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
)

func TestParsePGURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, network, addr, user, database string }{
		{"postgres://u:p%40w@localhost/db", "tcp", "localhost:5432", "u", "db"},
		{"postgresql://u@127.0.0.1:6543", "tcp", "127.0.0.1:6543", "u", "u"},
		{"postgres://u@[::1]/db?sslmode=disable", "tcp", "[::1]:5432", "u", "db"},
		{"postgres://u@/db?host=/run/pg", "unix", "/run/pg/.s.PGSQL.5432", "u", "db"},
		{"postgres://u@/db?host=/run/pg/&port=7", "unix", "/run/pg/.s.PGSQL.7", "u", "db"},
		{"postgres://u@/db?host=/run/pg/.s.PGSQL.9&sslmode=disable", "unix", "/run/pg/.s.PGSQL.9", "u", "db"},
		{"postgres://u@db.example.com/db?sslmode=verify-full", "tcp", "db.example.com:5432", "u", "db"},
	} {
		got, err := parsePGURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if got.network != c.network || got.addr != c.addr || got.user != c.user || got.database != c.database {
			t.Errorf("%s is read as %+v", c.url, got)
		}
		if remote := strings.Contains(c.url, "verify-full"); remote != (got.tls != nil) {
			t.Errorf("%s: TLS is %v", c.url, got.tls)
		} else if remote && (got.tls.ServerName != "db.example.com" || got.tls.InsecureSkipVerify) {
			t.Errorf("%s: the server's name is not verified: %+v", c.url, got.tls)
		}
	}
	bad := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for url, says := range map[string]string{
		"mysql://u@localhost/db":                                         "postgres://",
		"postgres://u:p w%zz@localhost/db":                               "%XX",
		"postgres://localhost/db":                                        "no user",
		"postgres:///db":                                                 "no user",
		"postgres://u@/db":                                               "no host",
		"postgres://u@db.example.com/db":                                 "sslmode=verify-full",
		"postgres://u@db.example.com/db?sslmode=disable":                 "sslmode=verify-full",
		"postgres://u@db.example.com/db?sslmode=require":                 "sslmode=verify-full",
		"postgres://u@db.example.com/db?sslmode=verify-ca":               "sslmode=verify-full",
		"postgres://u@localhost/db?sslmode=prefer":                       "sslmode=verify-full",
		"postgres://u@10.0.0.1/db":                                       "sslmode=verify-full",
		"postgres://u@/db?host=/run/pg&sslmode=verify-full":              "leave sslmode out",
		"postgres://u@localhost/db?target_session_attrs=any":             "target_session_attrs",
		"postgres://u@h/db?sslmode=verify-full&sslrootcert=/no/such.pem": "/no/such.pem",
		"postgres://u@h/db?sslmode=verify-full&sslrootcert=" + bad:       "no certificate",
	} {
		_, err := parsePGURL(url)
		if run.CodeOf(err) != run.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%s gives %v, want something about %q", url, err, says)
		}
	}
	if _, err := parsePGURL("postgres://u:secret@db.example.com/db?sslmode=require"); strings.Contains(err.Error(), "secret") {
		t.Errorf("the message shows the password: %v", err)
	}
}
