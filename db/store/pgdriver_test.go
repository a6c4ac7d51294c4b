package store_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/runtime/run"
)

// The driver for PostgreSQL has faults that could break promises. Each rule that
// contains one has its test here, or is named with the test that covers it:
// COPY inside its transaction, and rolled back with it, is FaultEachStatement of
// the conformance suite; the URL is TestParsePGURL.

// TestNothingPreparedOnPostgres: after a timeout a prepared statement of the
// driver answers with another query's rows.
func TestNothingPreparedOnPostgres(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f == "dialect_sqlite.go" || strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{".Prepare(", ".PrepareContext("} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s calls %s", f, word)
			}
		}
	}
}

// TestCommitAfterIgnoredError: PostgreSQL answers the commit of a failed
// transaction with a rollback, which the driver takes for success.
func TestCommitAfterIgnoredError(t *testing.T) {
	t.Parallel()
	for _, o := range []store.Options{{Path: t.TempDir()}, {URL: pgtest.Database(t)}} {
		s := openStore(t, o, &store.Fault{})
		err := s.IgnoreError(context.Background(), "INSERT INTO session_purges (sid, session_id) VALUES (-1, 'a')", "INSERT INTO session_purges (sid, session_id) VALUES (-1, 'b')")
		if err == nil {
			t.Errorf("%s: a transaction with a failed statement was committed", s.Dialect())
		}
		if n, err := s.Count(context.Background(), "SELECT count(*) FROM session_purges"); err != nil || n != 0 {
			t.Errorf("%s: %d rows of it are stored (%v)", s.Dialect(), n, err)
		}
	}
}

// TestServerTimeoutsComeFirst: a client that gives up before the server would
// not know what the server went on to do.
func TestServerTimeoutsComeFirst(t *testing.T) {
	t.Parallel()
	s := openStore(t, store.Options{URL: pgtest.Database(t)}, &store.Fault{})
	for name, want := range map[string]string{"statement_timeout": "8s", "lock_timeout": "3s", "idle_in_transaction_session_timeout": "5s", "standard_conforming_strings": "on"} {
		got, err := s.WriterText("SHOW " + name)
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}

// TestTimeoutInsideWriter: a statement timeout closes the driver's connection;
// the writer takes another and goes on.
func TestTimeoutInsideWriter(t *testing.T) {
	t.Parallel()
	fault := &store.Fault{}
	s := openStore(t, store.Options{URL: pgtest.Database(t)}, fault)
	id := session(t, s)
	tries := 0
	fault.Set(func(statement string) error {
		if tries++; tries > 1 || statement != "inserting events" {
			if statement != "inserting events" {
				tries--
			}
			return nil
		}
		return s.WriterExec("SET LOCAL statement_timeout = '20ms'; SELECT pg_sleep(5)")
	})
	if _, err := s.Append(context.Background(), run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: "once"}}}}); err != nil {
		t.Fatal(err)
	}
	if n := len(wholeLog(t, s, id)); n != 1 {
		t.Fatalf("%d events, want 1", n)
	}
	if s.Stats().Retries == 0 {
		t.Fatal("the timeout did not happen")
	}
}

// TestConnectionTerminated: an administrator ends every connection, again and
// again, under load.
func TestConnectionTerminated(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	s := openStore(t, store.Options{URL: url}, &store.Fault{})
	admin := openStore(t, store.Options{URL: url}, &store.Fault{})
	id := session(t, s)
	done := make(chan error, 1)
	go func() {
		for i := range 600 {
			if _, err := s.Append(context.Background(), run.Batch{Session: id, Drafts: []run.Draft{{Payload: &run.Warning{Text: fmt.Sprint(i)}}}}); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for range 5 {
		if err := admin.Exec(context.Background(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, e := range wholeLog(t, s, id) {
		if want := fmt.Sprintf(`{"text":"%d"}`, i); string(e.Body) != want {
			t.Fatalf("event %d is %s, want %s", i+1, e.Body, want)
		}
	}
}

// TestCopyWhole: the driver loses the last piece of a COPY whose reader gives it
// together with the end. Every size arrives whole.
func TestCopyWhole(t *testing.T) {
	t.Parallel()
	s := openStore(t, store.Options{URL: pgtest.Database(t)}, &store.Fault{})
	id := session(t, s)
	r := run.Run{ID: run.NewID(), Session: id, Agent: "a"}
	if _, err := s.Accept(context.Background(), run.NewRun{Run: r}); err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for _, n := range []int{1, 31, 32, 33, 100, 911, 4096, 9999} {
		points := make([]run.Point, n)
		for i := range points {
			points[i] = run.Point{Step: int64(i), Name: "l", Special: run.Special(i % 4), Value: 0}
		}
		if _, err := s.Append(context.Background(), run.Batch{Session: id, Drafts: []run.Draft{run.DraftOf(r, time.Now(), &run.MetricsLogged{Points: points})}}); err != nil {
			t.Fatal(err)
		}
		want += int64(n)
		if got, err := s.Count(context.Background(), "SELECT count(*) FROM metric_points"); err != nil || got != want {
			t.Fatalf("%d points are stored (%v), want %d", got, err, want)
		}
	}
}

// TestCopyRefused: a COPY that the server refuses leaves a usable writer.
func TestCopyRefused(t *testing.T) {
	t.Parallel()
	s := openStore(t, store.Options{URL: pgtest.Database(t)}, &store.Fault{})
	id := session(t, s)
	if err := s.Exec(context.Background(), "ALTER TABLE metric_points ADD CHECK (step < 1000)"); err != nil {
		t.Fatal(err)
	}
	r := run.Run{ID: run.NewID(), Session: id, Agent: "a"}
	if _, err := s.Accept(context.Background(), run.NewRun{Run: r}); err != nil {
		t.Fatal(err)
	}
	points := make([]run.Point, 64)
	for i := range points {
		points[i] = run.Point{Step: int64(1000 - 60 + i), Name: "l"}
	}
	got, err := s.Append(context.Background(), run.Batch{Session: id, Drafts: []run.Draft{run.DraftOf(r, time.Now(), &run.MetricsLogged{Points: points})}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || !strings.Contains(string(got[1].Body), "4 metric points could not be stored") {
		t.Fatalf("the loss is not in the log: %d events", len(got))
	}
	if n, err := s.Count(context.Background(), "SELECT count(*) FROM metric_points"); err != nil || n != 60 {
		t.Fatalf("%d points are stored (%v), want 60", n, err)
	}
	if s.Stats().BadPoints != 4 {
		t.Fatalf("%d bad points are counted", s.Stats().BadPoints)
	}
}

// TestFenceBlocksTakeover: a takeover waits for an append that has passed its
// fence. A lock weaker than FOR SHARE would let it through, and the paused
// owner's event would follow it.
func TestFenceBlocksTakeover(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	fault := &store.Fault{}
	s := openStore(t, store.Options{URL: url}, fault)
	other := openStore(t, store.Options{URL: url}, &store.Fault{})
	ctx := context.Background()
	id := session(t, s)
	if _, err := s.Accept(ctx, run.NewRun{Run: run.Run{ID: run.NewID(), Session: id, Agent: "a"}}); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(ctx, "a", 1)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed (%v)", len(claimed), err)
	}
	r := claimed[0]
	batch := run.Batch{Session: id, Fence: run.Fence{Run: r.ID, Token: r.Token}, Drafts: []run.Draft{{Run: r.ID, Payload: &run.Warning{Text: "the old owner's"}}}}
	gate, paused := make(chan struct{}), make(chan struct{})
	fault.Set(func(statement string) error {
		if statement == "inserting events" {
			close(paused)
			<-gate
			fault.Set(nil)
		}
		return nil
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	var appendErr, takeErr error
	wg.Go(func() { _, appendErr = s.Append(ctx, batch) })
	<-paused
	taken := make(chan struct{})
	wg.Go(func() {
		defer close(taken)
		// As a takeover does it: the run's row, and nothing else.
		takeErr = other.Exec(ctx, "UPDATE runs SET token = token + 1, owner = 'b' WHERE id = '"+string(r.ID)+"'")
	})
	until(t, func() error {
		select {
		case <-taken:
			return nil
		default:
		}
		n, err := other.Count(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
		if err == nil && n == 0 {
			err = errors.New("the takeover does not wait yet")
		}
		return err
	})
	select {
	case <-taken:
		t.Error("the takeover did not wait for the append")
	default:
	}
	close(gate)
	wg.Wait()
	if appendErr != nil || takeErr != nil {
		t.Fatal(appendErr, takeErr)
	}
	if _, err := s.Append(ctx, batch); !errors.Is(err, run.ErrFenced) {
		t.Fatalf("after the takeover the old owner's append gives %v", err)
	}
}

// TestTLS: verify-full verifies the chain and the name.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, key := certificate(t, filepath.Join(dir, "ca.pem"), nil, nil)
	certificate(t, filepath.Join(dir, "other.pem"), nil, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	pgtest.StartTLS(t, port, func(data string) error {
		certificate(t, filepath.Join(data, "server.crt"), ca, key)
		return nil
	})
	url := func(host, root string) string {
		return fmt.Sprintf("postgres://postgres@%s:%d/postgres?sslmode=verify-full&sslrootcert=%s", host, port, filepath.Join(dir, root))
	}
	refuses(t, store.Options{URL: url("localhost", "other.pem")}, "certificate")
	refuses(t, store.Options{URL: url("127.0.0.1", "ca.pem")}, "certificate") // it is made out to localhost
	s := openStore(t, store.Options{URL: url("localhost", "ca.pem")}, &store.Fault{})
	session(t, s)
	if on, err := s.WriterText("SELECT ssl::text FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); err != nil || on != "true" {
		t.Fatalf("the connection is encrypted: %q (%v)", on, err)
	}
}

// certificate writes a CA's certificate, or one for localhost signed by it with
// its key beside it.
func certificate(t *testing.T, file string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: filepath.Base(file)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	parent, signer := ca, caKey
	if ca == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = c, key
	} else {
		c.DNSNames, c.ExtKeyUsage = []string{"localhost"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if ca != nil {
		raw, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(strings.TrimSuffix(file, ".crt")+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

func session(t *testing.T, s *store.Store) run.SessionID {
	t.Helper()
	id := run.NewSessionID()
	if err := s.CreateSession(context.Background(), run.Session{ID: id}); err != nil {
		t.Fatal(err)
	}
	return id
}
