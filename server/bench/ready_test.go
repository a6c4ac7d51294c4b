package bench

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirhq/weir/db/migrations"
)

// BenchmarkReady: from the start of the built binary on a fresh data folder to
// the first /readyz that says yes, against `weir version` plus the same
// migrations run by hand.
func BenchmarkReady(b *testing.B) {
	dir := b.TempDir()
	binary := filepath.Join(dir, "weir")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "github.com/weirhq/weir").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	var ratios []float64
	for range 2*rounds() + 1 {
		begin := time.Now()
		if err := exec.CommandContext(b.Context(), binary, "version").Run(); err != nil {
			b.Fatal(err)
		}
		version := time.Since(begin)
		fresh := target{dir: b.TempDir()}
		begin = time.Now()
		db := fresh.open(b)
		if _, err := migrations.Migrate(b.Context(), db, "sqlite"); err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
		migrate := time.Since(begin)
		ready := ready(b, binary)
		b.Logf("version %v, migrations %v, ready %v", version, migrate, ready)
		ratios = append(ratios, float64(ready)/float64(version+migrate))
	}
	check(b, "ready/(version+migrations)", median(ratios), 3, true)
}

func ready(b *testing.B, binary string) time.Duration {
	b.Helper()
	data, err := os.MkdirTemp("", "weir-ready-")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(data) }()
	if err := os.Chmod(data, 0o711); err != nil { // the sandbox's user walks here
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "serve", "--listen", addr, "--data", data)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			b.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(begin)
			}
		}
		time.Sleep(time.Millisecond)
	}
	b.Fatal("the server was not ready within 30 s")
	return 0
}
