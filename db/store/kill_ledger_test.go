package store_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/db/storetest"
	"github.com/weirhq/weir/runtime/run"
)

const ledgerEnv = "WEIR_TEST_LEDGER_KILL" // "folder|url|seed" for the child

// TestLedgerChild books without end and kills itself at the border of a
// transaction that its seed chooses. It runs only as a child of TestLedgerKilled.
func TestLedgerChild(t *testing.T) {
	spec := os.Getenv(ledgerEnv)
	if spec == "" {
		return
	}
	part := strings.Split(spec, "|")
	seed, err := strconv.ParseUint(part[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	var left atomic.Int64
	left.Store(20 + rng.Int64N(600))
	anywhere := rng.IntN(4) == 0 // now and then in the middle of one
	point := func(statement string) error {
		if anywhere || statement == "begin" || statement == "commit" || statement == "answer to the commit" {
			if left.Add(-1) == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {} // it is on its way
			}
		}
		return nil
	}
	fault, book := &store.Fault{}, &storetest.Book{}
	s := openStore(t, store.Options{Path: part[0], URL: part[1], Pricer: book}, fault)
	w := storetest.NewLedger(t, storetest.Subject{Store: s, Book: book, Fail: func(func(string) error) {}}, seed)
	w.Acked = func(b run.Batch) {
		for i := range b.Usage {
			fmt.Fprintln(os.Stdout, "booked", b.Usage[i].Run, b.Usage[i].RequestKey)
		}
	}
	fault.Set(point)
	for {
		w.Tree()
	}
}

// TestLedgerKilled kills a booking process with SIGKILL at the border of a
// transaction: what was acknowledged is booked, and the bill adds up before and
// after the next process goes on. WEIR_LEDGER_KILLS sets how often, per store.
func TestLedgerKilled(t *testing.T) {
	t.Parallel()
	rounds := 3
	if text := os.Getenv("WEIR_LEDGER_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	for _, dialect := range []string{"sqlite", "postgres"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			for range rounds {
				killLedger(t, dialect, rand.Uint64())
			}
		})
	}
}

func killLedger(t *testing.T, dialect string, seed uint64) {
	t.Helper()
	t.Logf("seed %d", seed)
	o := store.Options{Path: t.TempDir()}
	if dialect == "postgres" {
		o.URL = pgtest.Database(t)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLedgerChild$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s|%s|%d", ledgerEnv, o.Path, o.URL, seed))
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the child was not killed: %v\n%s", err, out)
	}
	book := &storetest.Book{First: 1_000_000}
	o.Pricer = book
	s := openStore(t, o, &store.Fault{})
	booked := map[string]bool{}
	streams := map[string]run.Tokens{}
	check := func(u *run.UsageRecord, _ []run.UsageRecord) {
		booked[string(u.Run)+" "+u.RequestKey] = true
		if u.Cumulative && !u.Superseded {
			streams[u.Stream] = streams[u.Stream].Add(u.Tokens)
		}
		if u.PriceID == "" {
			return
		}
		body, err := s.WriterText("SELECT body FROM prices WHERE id = '" + u.PriceID + "'")
		if err != nil {
			t.Fatalf("the price row %s of a record is missing: %v", u.PriceID, err)
		}
		var row struct{ Rate int64 }
		if err := json.Unmarshal([]byte(body), &row); err != nil {
			t.Fatal(err)
		}
		if n := u.Tokens.Prompt() + u.Tokens.Output + u.ComputeMicros; *u.ComputedNanoUSD != n*row.Rate {
			t.Fatalf("record %s of run %s has %d units at %d, and costs %d", u.RequestKey, u.Run, n, row.Rate, *u.ComputedNanoUSD)
		}
	}
	storetest.CheckBill(t, s, allRuns(t, s), check)
	acknowledged := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[0] == "booked" {
			acknowledged++
			if !booked[f[1]+" "+f[2]] {
				t.Errorf("the record %s of run %s was acknowledged, and is not there", f[2], f[1])
			}
		}
	}
	for name, sum := range streams {
		totals, err := s.StreamTotals(name)
		if err != nil || totals != sum {
			t.Errorf("of the stream %q %+v is booked, it stands at %+v, %v", name, sum, totals, err)
		}
	}
	w := storetest.NewLedger(t, storetest.Subject{Store: s, Book: book, Fail: func(func(string) error) {}}, seed+1)
	for range 3 {
		w.Tree()
	}
	storetest.CheckBill(t, s, allRuns(t, s), check)
	t.Logf("%d acknowledged records, %d in all", acknowledged, len(booked))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func allRuns(t *testing.T, s *store.Store) []run.ID {
	t.Helper()
	var ids []run.ID
	for q := (run.PageQuery{First: 100}); ; {
		page, err := s.Runs(t.Context(), run.RunFilter{}, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Nodes {
			ids = append(ids, r.ID)
		}
		if !page.HasMore {
			return ids
		}
		q.After = page.End
	}
}
