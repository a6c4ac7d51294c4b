package sandbox

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/weirhq/weir/runtime/metricline"
)

// MaxCurves bounds the curves of one run, which are the pairs of a metric name
// and a run tag. Names that never repeat would fill the memory of the server and
// of each page that shows them.
const MaxCurves = 10_000

// Curves knows which curves a run has. It is safe for concurrent use and keeps
// no names, only 8 bytes for each.
type Curves struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]struct{}
}

// NewCurves makes an empty set.
func NewCurves() *Curves {
	return &Curves{seed: maphash.MakeSeed(), seen: make(map[uint64]struct{})}
}

// admit takes the points of new curves out of a record once there are MaxCurves.
// A record that lost some counts as rejected.
func (c *Curves) admit(r *metricline.Record) {
	if len(r.Points) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := r.Points[:0]
	refused := ""
	for i := range r.Points {
		p := &r.Points[i]
		// The seed is secret: nobody can make names that meet.
		key := maphash.String(c.seed, p.Name)*31 + maphash.String(c.seed, p.RunTag)
		if _, ok := c.seen[key]; !ok {
			if len(c.seen) >= MaxCurves {
				if refused == "" {
					refused = fmt.Sprintf("the run has %d curves and gets no more; print the same names with other steps. Left out: %s", MaxCurves, short(p.Name))
				}
				continue
			}
			c.seen[key] = struct{}{}
		}
		kept = append(kept, *p)
	}
	r.Points = kept
	if r.Rejected == "" {
		r.Rejected = refused
	}
}
