package engine

import (
	"context"
	"strings"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

const (
	// holdFor is how long a piece of text may wait for the next one.
	holdFor = 33 * time.Millisecond
	// maxHeld is the size of an event that several pieces make, in bytes.
	maxHeld = 32 << 10
	// maxPoints bounds the points of one MetricsLogged event.
	maxPoints = 1000
)

// held is the text of one stream that waits to become an event.
type held struct {
	sent   time.Time // when the stream's last event was queued
	text   strings.Builder
	offset int64 // raw bytes of the stream before text
	draft  func(text string, offset int64) run.Draft
}

// piece adds text to a stream. The first piece is an event at once; what
// follows within holdFor of it, and is at most maxHeld, becomes the next one.
func (m *emitter) piece(ctx context.Context, key, text string, offset int64, draft func(string, int64) run.Draft) error {
	if text == "" {
		return nil
	}
	return m.put(ctx, entry{}, func() {
		h := m.stream(key, draft)
		now := time.Now()
		if h.text.Len() > 0 && h.text.Len()+len(text) > maxHeld {
			m.queueHeldLocked(h, now)
		}
		h.add(text, offset)
		if now.Sub(h.sent) >= holdFor || h.text.Len() >= maxHeld {
			m.queueHeldLocked(h, now)
		}
	})
}

// line adds text that must not wait, with the drafts that belong to it: they
// and what the stream held become one commit.
func (m *emitter) line(ctx context.Context, key, text string, offset int64, draft func(string, int64) run.Draft, x entry) error {
	return m.put(ctx, entry{}, func() {
		h := m.stream(key, draft)
		var before []run.Draft
		if h.text.Len() > 0 && h.text.Len()+len(text) > maxHeld {
			before = append(before, h.take())
		}
		if h.add(text, offset); h.text.Len() > 0 {
			before = append(before, h.take())
		}
		h.sent = time.Now()
		x.drafts = append(before, x.drafts...)
		m.pushLocked(x)
	})
}

func (m *emitter) stream(key string, draft func(string, int64) run.Draft) *held {
	h := m.held[key]
	if h == nil {
		h = &held{draft: draft}
		m.held[key] = h
	}
	return h
}

func (h *held) add(text string, offset int64) {
	if h.text.Len() == 0 {
		h.offset = offset
	}
	h.text.WriteString(text)
}

func (h *held) take() run.Draft {
	d := h.draft(h.text.String(), h.offset)
	h.text.Reset()
	return d
}

func (m *emitter) queueHeldLocked(h *held, now time.Time) {
	h.sent = now
	m.pushLocked(entry{drafts: []run.Draft{h.take()}})
}

// releaseLocked queues what is held of every stream whose key begins with prefix.
func (m *emitter) releaseLocked(prefix string) {
	now := time.Now()
	for key, h := range m.held {
		if h.text.Len() > 0 && strings.HasPrefix(key, prefix) {
			m.queueHeldLocked(h, now)
		}
	}
}

// releaseDueLocked queues what was held for long enough, forgets quiet streams
// and tells when to look again.
func (m *emitter) releaseDueLocked(now time.Time) time.Duration {
	next := time.Hour
	for key, h := range m.held {
		left := holdFor - now.Sub(h.sent)
		switch {
		case left > 0:
			next = min(next, left)
		case h.text.Len() > 0:
			m.queueHeldLocked(h, now)
		default:
			delete(m.held, key)
		}
	}
	return next
}
