package run

// RunFilter chooses runs; zero fields choose all.
type RunFilter struct {
	IDs      []ID
	Session  SessionID
	Statuses []Status
	Agent    string
	RootOnly bool
}

// Match tells whether r passes f.
func (f RunFilter) Match(r Run) bool {
	return (len(f.IDs) == 0 || contains(f.IDs, r.ID)) &&
		(f.Session == "" || f.Session == r.Session) &&
		(len(f.Statuses) == 0 || contains(f.Statuses, r.State.Status)) &&
		(f.Agent == "" || f.Agent == r.Agent) &&
		(!f.RootOnly || r.Parent == "")
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// SessionFilter chooses sessions; zero fields choose all.
type SessionFilter struct {
	Text string // part of the title, the id, or a root run's agent or the first 1,000 characters of its prompt; any case
	Live *bool  // has a live root run
}

// PageQuery asks for the First newest rows after the cursor (an id; "" for the start).
type PageQuery struct {
	First int
	After string
}

// Page is a page of rows, newest first.
type Page[T any] struct {
	Nodes   []T
	End     string // the cursor of the last row; "" when empty
	HasMore bool
}
