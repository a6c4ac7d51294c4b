package disk

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirhq/weir/runtime/sandbox/local/proc"
)

const (
	// holdWait bounds how long processes may take to stand still. Some wait for
	// processor time that their limit gives them a tenth of a second later.
	holdWait = time.Second
	// holdPoll is how long one waits for them at a time.
	holdPoll = time.Millisecond
)

// Hold stops the processes of an execution and lets them go on again. It works
// by SIGSTOP, which needs no right but that to signal them, and which a SIGKILL
// gets through. What a process can notice of it is that a call which waits was
// interrupted (EINTR), and a shell's job control that its job stood still.
type Hold struct {
	Members func() []int
	Member  func(pid int) bool // asked again once a number is held on to
	Network string             // the folder of /proc of their network namespace; empty: it is not theirs alone

	theirs map[int]bool // those that stood still before: they stay so
	ours   map[int]bool // those that were stopped here
}

// stop stops all processes and tells whether they stand still, as far as can
// be seen: of what one has started meanwhile, and of one that another has woken,
// it looks again until nothing is new.
func (h *Hold) stop(ctx context.Context) bool {
	h.theirs, h.ours = map[int]bool{}, map[int]bool{}
	still := 0
	for end := time.Now().Add(holdWait); ctx.Err() == nil; {
		calm := true
		for _, pid := range h.Members() {
			if !h.Member(pid) {
				continue
			}
			stopped, stuck := standing(pid)
			switch {
			case stopped && !h.ours[pid]:
				h.theirs[pid] = true
			case stopped, stuck && h.ours[pid]:
			default:
				calm = false
				delete(h.theirs, pid)
				h.ours[pid] = true
				h.signal(pid, unix.SIGSTOP)
			}
		}
		// Twice: the first time, one that was looked at early may have been woken late.
		if still++; !calm {
			still = 0
		}
		if still == 2 {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		if !calm {
			select {
			case <-ctx.Done():
			case <-time.After(holdPoll):
			}
		}
	}
	return false
}

// resume lets go on what stop has stopped.
func (h *Hold) resume() {
	for pid := range h.ours {
		h.signal(pid, unix.SIGCONT)
	}
}

func (h *Hold) signal(pid int, sig unix.Signal) {
	p, err := proc.Open(pid)
	if err != nil {
		return // it has ended
	}
	defer p.Close()
	if h.Member(pid) { // now the number cannot have come to mean another process
		_ = p.Signal(sig) // whether it worked shows
	}
}

// standing tells whether all threads of a process are stopped, and whether
// those that are not are deep in the kernel: who waits for a child in vfork
// stays there while the child stands still, and what else comes back from there
// finds its stop signal.
func standing(pid int) (stopped, stuck bool) {
	threads, err := proc.Threads(pid)
	if err != nil {
		return true, true // it has ended
	}
	stopped, stuck = true, true
	for _, tid := range threads {
		switch proc.State(tid) {
		case 'T', 't', 'Z', 'X', 0:
		case 'D':
			stopped = false
		default:
			return false, false
		}
	}
	return stopped, stuck
}
