package store_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/db/store"
	"github.com/weirhq/weir/db/storetest"
	"github.com/weirhq/weir/runtime/run"
)

// older makes a database as an older version left it, and gives what opens it.
func older(t *testing.T, dialect string, version int64, statements ...string) store.Options {
	t.Helper()
	o := store.Options{Path: t.TempDir()}
	if dialect == "postgres" {
		o = store.Options{URL: pgtest.Database(t)}
	}
	db, conn := store.Raw(t, o)
	d := goose.DialectSQLite3
	if dialect == "postgres" {
		d = goose.DialectPostgres
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(d, db.DB, os.DirFS("../migrations/"+dialect), goose.WithDisableGlobalRegistry(true), goose.WithTableName("schema_versions"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return o
}

func onUpgrade(t *testing.T, test func(t *testing.T, dialect string)) {
	t.Helper()
	t.Parallel()
	for _, dialect := range []string{"sqlite", "postgres"} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			test(t, dialect)
		})
	}
}

const oldSession = "INSERT INTO sessions (id, title, title_fold, created_us) VALUES ('ses_1', 'a title', 'a title', 1)"

// oldRun inserts a run of version 1 or 2 with more columns.
func oldRun(id, status, input, columns, values string) string {
	return fmt.Sprintf("INSERT INTO runs (id, session_id, parent_id, agent, team, stage, driver, provider, model, status, reason, attempt, restart_of, created_us, started_us, error, result, input, definition, owner, token%s)"+
		" VALUES ('%s', 'ses_1', '', 'Trainer', 'lab', '', 'script', '', '', '%s', '', 1, '', 1, 1, '', '', '%s', '', '', 1%s)", columns, id, status, input, values)
}

// TestUpgradeKeepsTheSearch: what a database of before the search holds is found
// as well.
func TestUpgradeKeepsTheSearch(t *testing.T) {
	onUpgrade(t, func(t *testing.T, dialect string) {
		s := openStore(t, older(t, dialect, 1, oldSession, oldRun("run_1", "DONE", `{"prompt":"Count \"100%\"\nand more"}`, "", "")), &store.Fault{})
		for _, text := range []string{"TRAINER", "count \"100%\"", "AND MORE"} {
			page, err := s.Sessions(t.Context(), run.SessionFilter{Text: text}, run.PageQuery{})
			if err != nil || len(page.Nodes) != 1 {
				t.Errorf("%q finds %d sessions, %v", text, len(page.Nodes), err)
			}
		}
	})
}

// TestUpgradeKeepsTheBill: records of before price rows keep what they cost, a
// zero beside something unpriced becomes unknown, and both go on.
func TestUpgradeKeepsTheBill(t *testing.T) {
	record := func(id, key, cost, source string) string {
		return "INSERT INTO usage_records (run_id, request_key, kind, at_us, source_rank, provenance, provider, model, input_tokens, cache_read_tokens, cache_write_short_tokens," +
			" cache_write_long_tokens, output_tokens, reasoning_tokens, backend, gpu, compute_us, is_error, cost_nano_usd, cost_source, raw)" +
			" VALUES ('" + id + "', '" + key + "', 'model', 5, 4, 'MEASURED', 'p', 'm', 10, 0, 0, 0, 0, 0, '', '', 0, FALSE, " + cost + ", '" + source + "', '')"
	}
	const sums = ", input_tokens, cost_nano_usd, cost_source, provenance, records, unpriced"
	onUpgrade(t, func(t *testing.T, dialect string) {
		o := older(t, dialect, 2, oldSession,
			oldRun("run_1", "DONE", "{}", ", ended_us"+sums, ", 5, 20, 12, 'COMPUTED', 'MEASURED', 2, 0"),
			oldRun("run_2", "RUNNING", "{}", sums, ", 20, 0, 'AGENT_REPORTED', 'MEASURED', 2, 1"),
			record("run_1", "a", "5", "AGENT_REPORTED"), record("run_1", "b", "7", "COMPUTED"),
			record("run_2", "a", "0", "AGENT_REPORTED"), record("run_2", "b", "NULL", ""),
			"INSERT INTO usage_rollups (day, agent, team, model, provider, backend, runs, input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens, reasoning_tokens, compute_us, cost_nano_usd, cost_source, provenance, records, unpriced)"+
				" VALUES (3, 'x', 'y', 'm', 'p', '', 1, 1, 0, 0, 0, 0, 0, 0, 0, '', 'MEASURED', 2, 1)")
		book := &storetest.Book{}
		book.Set("m", 1000)
		o.Pricer = book
		s := openStore(t, o, &store.Fault{})
		usage := func(id run.ID) string {
			r, err := s.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			money := "null"
			if r.Usage.CostNanoUSD != nil {
				money = fmt.Sprint(*r.Usage.CostNanoUSD)
			}
			return fmt.Sprint(r.Usage.Input, " ", money, " ", r.Usage.CostSource, " ", r.Usage.Provenance, " ", r.Usage.Records, r.Usage.Unpriced)
		}
		if got := usage("run_1"); got != "20 12 COMPUTED MEASURED 2 0" {
			t.Errorf("the priced run has %s", got)
		}
		if got := usage("run_2"); got != "20 null AGENT_REPORTED MEASURED 2 1" {
			t.Errorf("the run with a zero beside an unknown has %s", got)
		}
		if n, err := s.Count(t.Context(), "SELECT count(*) FROM usage_rollups WHERE cost_nano_usd IS NULL"); err != nil || n != 1 {
			t.Errorf("%d rollups are unknown, %v", n, err)
		}
		// A repeat says nothing new and prices nothing again; news does.
		again := func(id run.ID, key string, input int64) {
			if _, err := s.Append(t.Context(), run.Batch{Session: "ses_1", Usage: []run.UsageRecord{{
				Run: id, RequestKey: key, Kind: run.ModelCall, Rank: run.FromResult, Provenance: run.Measured, Provider: "p", Model: "m", Tokens: run.Tokens{Input: input},
			}}}); err != nil {
				t.Fatal(err)
			}
		}
		again("run_1", "b", 10)
		again("run_2", "b", 11)
		if got := usage("run_1"); got != "20 12 COMPUTED MEASURED 2 0" {
			t.Errorf("after a repeat the priced run has %s", got)
		}
		if got := usage("run_2"); got != "21 11000 COMPUTED MEASURED 2 0" {
			t.Errorf("after news the other run has %s", got)
		}
		records, err := s.UsageRecords(t.Context(), "run_1")
		if err != nil || len(records) != 2 || records[0].ComputedNanoUSD != nil || records[1].ComputedNanoUSD == nil || *records[1].ComputedNanoUSD != 7 || strings.Contains(records[1].PriceID, "#") {
			t.Errorf("the records are %+v, %v", records, err)
		}
	})
}
