package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

// maxUsageKey is the longest key of a usage record that every store takes.
const maxUsageKey = 1000 // bytes

// bookApart commits an entry whose usage the store may have refused: the good
// records as they are, and in the place of a refused one a record of a call of
// which nothing is known. So the bill says that something is missing, and the
// run goes on.
func (m *emitter) bookApart(x entry) error {
	if err := m.bookHalves(x.usage); err != nil {
		return err
	}
	x.usage = nil
	return m.append([]entry{x})
}

func (m *emitter) bookHalves(records []run.UsageRecord) error {
	err := m.append([]entry{{usage: records}})
	if err == nil || run.CodeOf(err) != run.Invalid || records[0].Kind == run.ComputeUsage {
		return err
	}
	// Telling them apart takes transactions, and a hostile transcript has as many
	// refused ones as it likes.
	if n := len(records) / 2; n > 0 && m.refused < maxRefused {
		if err := m.bookHalves(records[:n]); err != nil {
			return err
		}
		return m.bookHalves(records[n:])
	}
	if m.refused == 0 {
		m.tellRefused(err)
	}
	m.refused += len(records)
	return m.bookUnknown(records)
}

// bookUnknown books calls without what they used. They belong to no stream, in which
// a source that knows more would take their place.
func (m *emitter) bookUnknown(records []run.UsageRecord) error {
	unknown := make([]run.UsageRecord, len(records))
	for i, u := range records {
		unknown[i] = run.UsageRecord{
			Run: u.Run, RequestKey: u.RequestKey, Kind: u.Kind, At: u.At, Provider: u.Provider, Model: u.Model,
			Provenance: run.UnknownProvenance,
		}
		if len(u.RequestKey) > maxUsageKey {
			unknown[i].RequestKey = fmt.Sprintf("refused/%x", sha256.Sum256([]byte(u.RequestKey)))
		}
	}
	return m.append([]entry{{usage: unknown}})
}

// tellRefused warns of the first refused record; the warning is committed next.
func (m *emitter) tellRefused(err error) {
	text := err.Error()
	if e := new(run.Error); errors.As(err, &e) {
		text = e.Message // without where in the server it came up
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pushLocked(entry{drafts: []run.Draft{run.DraftOf(m.run, time.Now(), &run.Warning{Text: text +
		". The call counts as one of which nothing is known, without a cost; this is said once for a run"})}})
}
