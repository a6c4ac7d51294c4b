package cli

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/weirhq/weir/runtime/run"
)

// redrawEvery is how often the time in the footer moves on.
const redrawEvery = 250 * time.Millisecond

// LiveView shows a run as PlainView does, and below its lines a footer that is
// redrawn: state, time, step, rate and the last metrics. The terminal is left as
// it was at any end: nothing is switched on that would have to be switched off.
type LiveView struct {
	plain *PlainView

	mu     sync.Mutex
	area   area
	footer footer
	end    chan struct{}
	ticker sync.WaitGroup
	closed bool
}

// NewLiveView makes the view of a run for a person. Where nobody looks, or the
// terminal cannot move its cursor, it is a PlainView.
func NewLiveView(i *IO) Shown {
	plain := i.plain(false)
	file, ok := i.Err.Writer.(*os.File)
	name := i.Getenv("TERM")
	if !ok || !i.Err.Terminal || name == "" || name == "dumb" {
		return plain
	}
	v := newLiveView(plain, file, func() (int, int) {
		w, h, err := term.GetSize(int(file.Fd()))
		if err != nil || w <= 0 || h <= 0 {
			return 80, 24
		}
		return w, h
	})
	v.footer.color, v.footer.ascii = i.Err.Color, asciiOnly(i.Getenv)
	v.ticker.Go(v.tick)
	return v
}

// newLiveView draws on w, of which size gives the columns and rows.
func newLiveView(plain *PlainView, w io.Writer, size func() (int, int)) *LiveView {
	v := &LiveView{plain: plain, area: area{w: w, size: size}, end: make(chan struct{})}
	err := *plain.Err
	err.Writer = v.area.stream(1)
	plain.Err = &err
	plain.Curves = true
	if plain.Out.Terminal { // the same one
		out := *plain.Out
		out.Writer = v.area.stream(0)
		plain.Out = &out
	}
	return v
}

// tick redraws until Close.
func (v *LiveView) tick() {
	t := time.NewTicker(redrawEvery)
	defer t.Stop()
	for {
		select {
		case <-v.end:
			return
		case <-t.C:
			v.mu.Lock()
			if v.footer.running() {
				v.draw()
			}
			v.mu.Unlock()
		}
	}
}

// Close takes the footer away for good.
func (v *LiveView) Close() {
	v.with(func() { v.plain.release("") })
	v.Settle()
	v.mu.Lock()
	closed := v.closed
	v.closed = true
	v.mu.Unlock()
	if !closed {
		close(v.end)
	}
	v.ticker.Wait()
}

func (v *LiveView) draw() {
	if v.closed {
		v.area.draw(nil)
		return
	}
	width, height := v.area.size()
	v.area.draw(v.footer.lines(width-1, height, time.Now()))
}

// with shows what f writes, and the footer again.
func (v *LiveView) with(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f()
	v.draw()
}

// Output implements View.
func (v *LiveView) Output(e *Event) { v.with(func() { v.plain.Output(e) }) }

// Points implements View.
func (v *LiveView) Points(e *Event) {
	v.with(func() {
		v.plain.Points(e)
		for _, p := range e.Points {
			v.footer.point(p, e.At)
		}
	})
}

// State implements View.
func (v *LiveView) State(e *Event) {
	v.with(func() {
		if e.Type == run.TypeStateChanged {
			v.footer.state = oneLine(e.State)
			if v.footer.began.IsZero() {
				v.footer.began = time.Now()
			}
			return // the footer says it
		}
		v.footer.state = ""
		v.plain.State(e)
	})
}

// Warning implements View.
func (v *LiveView) Warning(e *Event) { v.with(func() { v.plain.Warning(e) }) }

// Question implements View.
func (v *LiveView) Question(e *Event) { v.with(func() { v.plain.Question(e) }) }

// Other implements View.
func (v *LiveView) Other(e *Event) { v.with(func() { v.plain.Other(e) }) }

// Settle implements Shown.
func (v *LiveView) Settle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.plain.Settle()
	v.area.draw(nil)
}

// Failed implements Shown.
func (v *LiveView) Failed() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.area.fail != nil {
		return v.area.fail
	}
	return v.plain.Failed()
}
