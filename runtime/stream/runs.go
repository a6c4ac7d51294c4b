package stream

import (
	"context"
	"slices"
	"sync"

	"github.com/weirhq/weir/runtime/run"
)

// runFeed tells the followers of runs which ones changed, and shares one read
// of a changed run between them.
type runFeed struct {
	mu        sync.Mutex
	followers map[*runFollower]struct{}
	latest    map[run.ID]run.Run // read since the run's last change
	commits   uint64             // counts calls of changed that named a run
}

// latestRuns bounds the shared reads that are kept.
const latestRuns = 256

// runFollower remembers the runs that changed since it looked; a run that
// changes again meanwhile is there once.
type runFollower struct {
	filter  run.RunFilter
	order   []run.ID
	pending map[run.ID]struct{}
	wake    chan struct{} // capacity 1
}

func newRunFeed() runFeed {
	return runFeed{followers: map[*runFollower]struct{}{}, latest: map[run.ID]run.Run{}}
}

func (r *runFeed) changed(ids []run.ID) {
	if len(ids) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits++
	for _, id := range ids {
		delete(r.latest, id)
	}
	for f := range r.followers {
		for _, id := range ids {
			if len(f.filter.IDs) > 0 && !slices.Contains(f.filter.IDs, id) {
				continue
			}
			if _, known := f.pending[id]; !known {
				f.pending[id] = struct{}{}
				f.order = append(f.order, id)
			}
		}
		if len(f.order) > 0 {
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
	}
}

func (r *runFeed) join(filter run.RunFilter) *runFollower {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &runFollower{filter: filter, pending: map[run.ID]struct{}{}, wake: make(chan struct{}, 1)}
	r.followers[f] = struct{}{}
	return f
}

func (r *runFeed) leave(f *runFollower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.followers, f)
	if len(r.followers) == 0 {
		clear(r.latest)
	}
}

// next takes the follower's oldest pending run, with its shared read if one is
// there, and the commit count that a fresh read has to be compared with.
func (r *runFeed) next(f *runFollower) (id run.ID, known *run.Run, commits uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(f.order) == 0 {
		return "", nil, 0
	}
	id = f.order[0]
	f.order = f.order[1:]
	delete(f.pending, id)
	if v, ok := r.latest[id]; ok {
		known = &v
	}
	return id, known, r.commits
}

// keep shares a read, unless something changed while it was made.
func (r *runFeed) keep(v run.Run, commits uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.commits != commits {
		return
	}
	if len(r.latest) >= latestRuns {
		clear(r.latest)
	}
	r.latest[v.ID] = v
}

// FollowRuns hands a run to send each time its status or totals change, the
// newest state only: changes that a slow send misses come as one. It returns
// when ctx ends or send fails.
func (s *Stream) FollowRuns(ctx context.Context, filter run.RunFilter, send func(run.Run) error) error {
	f := s.runs.join(filter)
	defer s.runs.leave(f)
	for {
		id, known, commits := s.runs.next(f)
		if id == "" {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-f.wake:
			}
			continue
		}
		if known == nil {
			v, err := read(ctx, s, func(ctx context.Context) (run.Run, error) { return s.source.Run(ctx, id) })
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case run.CodeOf(err) == run.NotFound:
				continue // deleted meanwhile
			default:
				return err
			}
			s.runs.keep(v, commits)
			known = &v
		}
		if !filter.Match(*known) {
			continue
		}
		if err := send(*known); err != nil {
			return err
		}
	}
}
