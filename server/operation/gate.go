package operation

import (
	"sync"
)

// Gate counts the long-lived connections of all transports that share it, and
// keeps new ones out when there are too many or when it is closed.
type Gate struct {
	most int
	wg   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   int
}

// NewGate makes a gate that lets most connections in at once.
func NewGate(most int) *Gate { return &Gate{most: most} }

// Enter counts a connection in; it is to call leave when all of it has ended.
// A problem says why it may not come in.
func (g *Gate) Enter() (leave func(), problem string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, "the server is shutting down; connect again in a moment"
	case g.open >= g.most:
		return nil, "the server has as many connections as it allows; connect again later"
	}
	g.open++
	g.wg.Add(1)
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.open--
		g.mu.Unlock()
		g.wg.Done()
	}), ""
}

// Close keeps everybody out from now on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait returns when everybody has left; call Close before.
func (g *Gate) Wait() { g.wg.Wait() }
