package sandbox

import (
	"context"
	"errors"
)

// errParted ends the context of a parting that nobody waits for any more.
var errParted = errors.New("the command is ended without waiting any longer")

// parting is what comes between the decision to stop a command and its first
// signal. Only the goroutine that supervises the command uses it.
type parting struct {
	call   func(ctx context.Context) // nil: nothing
	over   <-chan struct{}           // the signal may be sent; nil before begin
	done   chan struct{}             // the call has returned; nil before begin
	cancel context.CancelCauseFunc
}

// begin calls once. The call sees the values of ctx, not its end.
func (p *parting) begin(ctx context.Context) {
	if p.done != nil {
		return
	}
	p.done = make(chan struct{})
	p.over = p.done
	ctx, p.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if p.call == nil {
		close(p.done)
		return
	}
	go func() { // end waits for it
		defer close(p.done)
		p.call(ctx)
	}()
}

// hurry cuts a call short.
func (p *parting) hurry() {
	if p.cancel != nil {
		p.cancel(errParted)
	}
}

// end cuts a call short and waits for it.
func (p *parting) end() {
	if p.done != nil {
		p.cancel(errParted)
		<-p.done
	}
}
