package pricebook

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// A changed file is read within a minute; a broken one leaves the last good
// prices in force and says why, until it is mended.
func TestTheFileIsFollowed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "own.yaml")
	version := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	write := func(text string) {
		t.Helper()
		version = version.Add(time.Second)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, version, version); err != nil {
			t.Fatal(err)
		}
	}
	price := func(input string) {
		write("models: [{provider: p, model: m, rates: {input: " + input + ", output: 1}}]")
	}
	price("1")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx) }()
		expect := func(input string, problem bool) {
			t.Helper()
			time.Sleep(every + time.Second)
			synctest.Wait()
			if got := usd(t, l, run.UsageRecord{Model: "m", Tokens: run.Tokens{Input: 1_000_000}}); got != input {
				t.Errorf("the price is %s, want %s", got, input)
			}
			if (l.Problem() != "") != problem {
				t.Errorf("the problem is %q", l.Problem())
			}
		}
		expect("1", false)
		price("2")
		expect("2", false)
		write("models:\n  - {provider: p, model: m, rates: {input: x, output: 1}}\n")
		expect("2", true)
		contains(t, l.Problem(), path+":2:", `input "x"`)
		contains(t, log.String(), "level=ERROR", ":2:")
		lines := bytes.Count(log.Bytes(), []byte("\n"))
		expect("2", true)
		if again := bytes.Count(log.Bytes(), []byte("\n")); again != lines {
			t.Errorf("the same fault was logged again: %s", log.String())
		}
		price("3")
		expect("3", false)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect("3", true)
		contains(t, l.Problem(), path, "no such file")
		price("4")
		expect("4", false)
		cancel(nil)
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestOpenRefusesABrokenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "own.yaml")
	if err := os.WriteFile(path, []byte("modells: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, filepath.Dir(path), path + ".none"} {
		_, err := Open(p, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Fatalf("%s was opened", p)
		}
		contains(t, err.Error(), p)
	}
}
