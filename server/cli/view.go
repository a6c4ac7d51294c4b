package cli

import "sync"

// Shown is a view that a command drives: it can be told to make room for a
// line of the command, and says whether writing failed.
type Shown interface {
	View
	// Settle ends what is open on the screens, such as half a line or a footer.
	Settle()
	// Failed is the first error of writing.
	Failed() error
}

// guarded lets notices of other goroutines in between the calls of a view.
type guarded struct {
	mu   sync.Mutex
	view Shown
	// failing, if set, is told the first error of writing, once and outside of the
	// lock.
	failing func(error)
	told    bool
}

// view makes the view of a command and sends the notices through it.
func (i *IO) view(asJSON, quiet bool) *guarded {
	var v Shown
	switch {
	case asJSON:
		v = &jsonView{out: i}
	case i.NewView != nil && !quiet:
		v = i.NewView(i)
	default:
		v = i.plain(quiet)
	}
	g := &guarded{view: v}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.shown = g
	return g
}

func (i *IO) plain(quiet bool) *PlainView {
	return &PlainView{Out: i.Out, Err: i.Err, Quiet: quiet, KnownIsolation: i.KnownIsolation, Fold: !i.Raw && !quiet}
}

func (g *guarded) settle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.view.Settle()
}

// close ends a view for good.
func (g *guarded) close() {
	g.settle()
	if c, ok := g.view.(interface{ Close() }); ok {
		c.Close() // outside of the lock: it may wait for what takes it
	}
}

func (g *guarded) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.view.Failed()
}

func (g *guarded) do(f func(*Event), e *Event) {
	if err := g.show(f, e); err != nil && g.failing != nil {
		g.failing(err)
	}
}

// show gives an error of writing the first time that there is one.
func (g *guarded) show(f func(*Event), e *Event) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(e)
	if g.told {
		return nil
	}
	err := g.view.Failed()
	g.told = err != nil
	return err
}

func (g *guarded) Output(e *Event)   { g.do(g.view.Output, e) }
func (g *guarded) Points(e *Event)   { g.do(g.view.Points, e) }
func (g *guarded) State(e *Event)    { g.do(g.view.State, e) }
func (g *guarded) Warning(e *Event)  { g.do(g.view.Warning, e) }
func (g *guarded) Question(e *Event) { g.do(g.view.Question, e) }
func (g *guarded) Other(e *Event)    { g.do(g.view.Other, e) }
