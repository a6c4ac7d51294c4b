package store

import (
	"strings"
	"testing"
)

// TestDayIsReadFromTheIndex: adding up a day touches its records alone, and only
// the index of them.
func TestDayIsReadFromTheIndex(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var plan []struct {
		ID, Parent, Notused int
		Detail              string
	}
	if err := s.read.NewRaw("EXPLAIN QUERY PLAN "+daySums, 1, 2).Scan(t.Context(), &plan); err != nil {
		t.Fatal(err)
	}
	read := ""
	for _, step := range plan {
		if strings.Contains(step.Detail, "usage_records") {
			read += step.Detail + "; "
		}
	}
	if read != "SEARCH usage_records USING COVERING INDEX usage_records_at (at_us>? AND at_us<?); " {
		t.Errorf("the records are read by %q", read)
	}
}
