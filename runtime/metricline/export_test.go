package metricline

// Known gives how many names a parser keeps.
func Known(p *Parser) int { return len(p.names.known) }

// Idle gives for how many points a parser holds memory.
func Idle(p *Parser) int { return max(cap(p.points), cap(p.cells)) }
