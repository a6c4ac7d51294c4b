package meter

// splits is what the messages of a Claude Code process say of how long their cache
// writes last. Versions whose modelUsage tells the sum alone get the split from here,
// when the messages of a model add up to it exactly; nothing is guessed.
type splits struct {
	messages map[string]split // by key, the last windowSize ones
	order    []string
	models   map[string]*modelSplit // by sameModel
}

type split struct{ short, long int64 }

type modelSplit struct {
	split        // of all messages so far
	booked int64 // long-lived writes of the last result
	broken bool  // a result was of other writes than those of the messages
}

func newSplits() *splits {
	return &splits{messages: map[string]split{}, models: map[string]*modelSplit{}}
}

func (s *splits) model(m string) *modelSplit {
	m = sameModel(m)
	if s.models[m] == nil && len(s.models) < windowSize/16 {
		s.models[m] = &modelSplit{}
	}
	return s.models[m]
}

// message takes what a message says so far, which is said again and again.
func (s *splits) message(key, m string, c *anthropicCounts) {
	total := s.model(m)
	if total == nil {
		return
	}
	before, known := s.messages[key]
	now := split{max(before.short, c.Split.Short.n), max(before.long, c.Split.Long.n)}
	if now == before {
		return
	}
	if !known {
		if len(s.order) == windowSize {
			delete(s.messages, s.order[0]) // said once more, it would count twice: then the sums differ
			s.order = s.order[1:]
		}
		s.order = append(s.order, key)
	}
	s.messages[key] = now
	total.short += now.short - before.short
	total.long += now.long - before.long
}

// fill gives the totals of a model the split of its messages, and tells whether
// there are writes of which none is told. Running totals may not fall in any kind:
// after a result that does not fit, the long-lived writes stay as they were.
func (s *splits) fill(m string, u *modelTotals) (unsplit bool) {
	if u.Short.set || u.Long.set || !u.Creation.good() || u.Creation.n == 0 {
		return false
	}
	total := s.model(m)
	if total == nil {
		return true
	}
	if !total.broken && total.short+total.long == u.Creation.n {
		total.booked = total.long
	} else {
		total.broken = true
	}
	u.Long = count{n: min(total.booked, u.Creation.n), set: true} // what is left are short ones
	return total.broken
}
