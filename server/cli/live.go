package cli

// NewLiveView makes the view of a run for a person.
func NewLiveView(i *IO) Shown { return i.plain(false) }
