// Package pgtest gives tests a real PostgreSQL server.
//
// Guarantees: a cluster is started in a folder of its own at first use, listens
// on a Unix socket only, and dies with the test process, however that ends; each
// database is fresh and dropped at the end of its test. Where there is no
// PostgreSQL the test is skipped with the reason, and fails when CI=true.
package pgtest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

// Env names a server to use instead of starting one: a postgres:// URL of a user
// who may create databases.
const Env = "WEIR_TEST_POSTGRES"

// Need skips the test for the given reason; when CI=true it fails it, because
// there everything has to be installed.
func Need(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI=true, and " + reason)
	}
	t.Skip("SKIPPED, NOT TESTED: " + reason)
}

// The cluster that the databases of one test process share.
var shared struct {
	once sync.Once
	c    *Cluster
	err  error
}

// databases numbers the databases of this process.
var databases atomic.Int64

// Main runs the tests of a package and removes the shared cluster afterwards:
// call it from TestMain of each package that uses Database. check, if not nil,
// runs at the end, for example to look for leaked goroutines.
func Main(m *testing.M, check func() error) { os.Exit(Run(m, check)) }

// Run is Main for a TestMain that has more to clean up: it gives the exit code.
func Run(m *testing.M, check func() error) int {
	code := m.Run()
	if shared.c != nil {
		shared.c.remove()
	}
	if check != nil && code == 0 {
		if err := check(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

// Database gives the URL of a fresh, empty database.
func Database(t testing.TB) string {
	t.Helper()
	if server := os.Getenv(Env); server != "" {
		return create(t, server)
	}
	return create(t, sharedServer(t).URL("postgres"))
}

// sharedServer is the cluster of this process, started at first use.
func sharedServer(t testing.TB) *Cluster {
	t.Helper()
	shared.once.Do(func() { shared.c, shared.err = start(false, 5432, nil) })
	if errors.Is(shared.err, errNone) {
		Need(t, shared.err.Error())
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.c
}

// pool holds databases of the shared cluster that tests have given back.
var pool struct {
	mu   sync.Mutex
	free []string
}

// Reused gives the URL of a database that another test of this process may have
// used before: its tables, if it has any, are empty, but for schema_versions. That is much cheaper than
// Database, for tests that leave the schema alone.
func Reused(t testing.TB) string {
	t.Helper()
	if os.Getenv(Env) != "" {
		return Database(t)
	}
	server := sharedServer(t)
	pool.mu.Lock()
	var database string
	if n := len(pool.free); n > 0 {
		database, pool.free = pool.free[n-1], pool.free[:n-1]
	}
	pool.mu.Unlock()
	if database == "" {
		database = server.Database(t)
	}
	t.Cleanup(func() {
		if err := empty(database); err != nil {
			t.Errorf("emptying a test database: %v", err)
			return
		}
		pool.mu.Lock()
		defer pool.mu.Unlock()
		pool.free = append(pool.free, database)
	})
	return database
}

// empty makes the tables of a database empty, and ends who still uses it.
func empty(database string) error {
	db, err := connect(database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `DO $$
DECLARE names TEXT;
BEGIN
	SELECT string_agg(quote_ident(tablename), ', ') INTO names FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'schema_versions';
	IF names IS NOT NULL THEN
		EXECUTE 'TRUNCATE ' || names || ' RESTART IDENTITY CASCADE';
	END IF;
END $$`)
	return err
}

// create makes a database on a server and drops it at the end of the test.
func create(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("%s: %v", Env, err)
	}
	name := fmt.Sprintf("weir_test_%d_%d", os.Getpid(), databases.Add(1))
	admin, err := connect(server)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := admin.ExecContext(ctx, `CREATE DATABASE `+name); err != nil {
		_ = admin.Close()
		t.Fatalf("creating a test database: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := admin.ExecContext(ctx, `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
			t.Errorf("dropping a test database: %v", err)
		}
		_ = admin.Close()
	})
	u.Path = "/" + name
	return u.String()
}

// Exec runs a statement on a database, past the product.
func Exec(t testing.TB, database, statement string) {
	t.Helper()
	db, err := connect(database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// connect opens a pool for administration; the socket and trust make TLS moot.
func connect(server string) (*sql.DB, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	opts := []pgdriver.Option{pgdriver.WithInsecure(true), pgdriver.WithUser(u.User.Username()), pgdriver.WithDatabase(strings.TrimPrefix(u.Path, "/"))}
	if pw, ok := u.User.Password(); ok {
		opts = append(opts, pgdriver.WithPassword(pw))
	}
	if dir := u.Query().Get("host"); dir != "" {
		opts = append(opts, pgdriver.WithNetwork("unix"), pgdriver.WithAddr(dir+"/.s.PGSQL."+cmp.Or(u.Query().Get("port"), "5432")))
	} else {
		host := u.Host
		if u.Port() == "" {
			host += ":5432"
		}
		opts = append(opts, pgdriver.WithNetwork("tcp"), pgdriver.WithAddr(host))
	}
	db := sql.OpenDB(pgdriver.NewConnector(opts...))
	db.SetMaxOpenConns(1)
	return db, nil
}

// Cluster is a server of its own, for tests that stop it.
type Cluster struct {
	dir  string
	bin  string
	cred *syscall.Credential
	sync bool
	port int
	args []string // more settings

	mu  sync.Mutex
	cmd *exec.Cmd
	end chan struct{}
}

// Start gives a running server that flushes to disk as a real one does. It is
// removed at the end of the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return launch(t, 5432, nil)
}

// StartTLS is Start for a server that listens on 127.0.0.1 too, with TLS. It
// expects the files server.crt and server.key in the folder that prepare gets.
func StartTLS(t testing.TB, port int, prepare func(dir string) error) *Cluster {
	t.Helper()
	return launch(t, port, prepare, "-c", "listen_addresses=127.0.0.1", "-c", "ssl=on")
}

func launch(t testing.TB, port int, prepare func(dir string) error, args ...string) *Cluster {
	t.Helper()
	c, err := start(true, port, prepare, args...)
	if errors.Is(err, errNone) {
		Need(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.remove)
	return c
}

// Database makes an empty database in the cluster and gives its URL.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("weir_test_%d", databases.Add(1))
	admin, err := connect(c.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	if _, err := admin.ExecContext(context.Background(), `CREATE DATABASE `+name); err != nil {
		t.Fatalf("creating a test database: %v", err)
	}
	return c.URL(name)
}

// URL names a database of the cluster.
func (c *Cluster) URL(database string) string {
	return "postgres://postgres@/" + database + "?host=" + c.dir + "&port=" + strconv.Itoa(c.port) + "&sslmode=disable"
}

var errNone = errors.New("no PostgreSQL server program (initdb, postgres) is installed")

// binaries finds the folder of initdb: on the PATH, or where Debian hides it.
func binaries() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", errNone
	}
	version := func(p string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(p))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	return filepath.Dir(found[0]), nil
}

// credential is the user that runs the server when root runs the tests:
// PostgreSQL refuses root.
func credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("root may not run PostgreSQL, and neither user postgres nor nobody exists")
}

func start(flush bool, port int, prepare func(dir string) error, extra ...string) (*Cluster, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	cred, err := credential()
	if err != nil {
		return nil, err
	}
	// A short path: that of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, bin: bin, cred: cred, sync: flush, port: port, args: extra}
	if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, err
		}
		// Servers of other users reach the socket.
		if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // passing through is the point
			return nil, err
		}
	}
	initdb := c.command("initdb", "-D", filepath.Join(dir, "data"), "--no-sync", "-E", "UTF8", "--locale=C", "-A", "trust", "-U", "postgres")
	if out, err := initdb.CombinedOutput(); err != nil {
		c.remove()
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if prepare != nil {
		if err := prepare(filepath.Join(dir, "data")); err != nil {
			c.remove()
			return nil, err
		}
		if err := c.own(filepath.Join(dir, "data")); err != nil {
			c.remove()
			return nil, err
		}
	}
	if err := c.start(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// own gives the files in a folder to the user that runs the server.
func (c *Cluster) own(dir string) error {
	if c.cred == nil {
		return nil
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.Lchown(filepath.Join(dir, f.Name()), int(c.cred.Uid), int(c.cred.Gid)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred, Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	return cmd
}

func (c *Cluster) start() error {
	args := []string{
		"-D", filepath.Join(c.dir, "data"), "-c", "listen_addresses=", "-c", "port=" + strconv.Itoa(c.port), "-c", "unix_socket_directories=" + c.dir,
		"-c", "shared_buffers=32MB", "-c", "max_connections=200", "-c", "log_min_messages=fatal",
	}
	if !c.sync {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	args = append(args, c.args...)
	cmd := c.command("postgres", args...)
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	started := make(chan error, 1)
	end := make(chan struct{})
	go func() {
		// The kernel sends the death signal when the thread that started the process
		// ends, so that thread waits for it.
		lockThread()
		defer close(end)
		defer func() { _ = log.Close() }()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-end
		return fmt.Errorf("starting postgres: %w", err)
	}
	c.mu.Lock()
	c.cmd, c.end = cmd, end
	c.mu.Unlock()
	return c.ready(end)
}

// ready polls until the server answers.
func (c *Cluster) ready(end chan struct{}) error {
	db, err := connect(c.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for deadline := time.Now().Add(30 * time.Second); ; {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := db.PingContext(ctx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-end:
			out, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return fmt.Errorf("postgres ended: %s", out)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("postgres does not answer: %w", err)
		}
	}
}

// Stop ends the server at once, as a crash does: connections break, and commits
// that were not answered may or may not have happened.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	c.kill()
}

func (c *Cluster) kill() {
	c.mu.Lock()
	cmd, end := c.cmd, c.end
	c.cmd = nil
	c.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-end:
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		<-end
	}
}

// Start runs a stopped server again, on the same data.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) remove() {
	c.kill()
	_ = os.RemoveAll(c.dir)
}
