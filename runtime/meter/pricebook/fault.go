package pricebook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// place is a spot in a file; line 0 is the whole file.
type place struct {
	file      string
	line, col int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.col)
}

// Fault is one thing that is wrong with a price file, and what to do.
type Fault struct {
	File      string
	Line, Col int // 0: the whole file
	Text      string
}

func (f Fault) String() string {
	return place{f.File, f.Line, f.Col}.String() + ": " + f.Text
}

// Faults is all that is wrong with a price file, in its order.
type Faults []Fault

// Error is one line: the first fault, and how to see the others.
func (f Faults) Error() string {
	switch len(f) {
	case 0:
		return "the price file has no fault"
	case 1:
		return f[0].String()
	}
	return fmt.Sprintf("%s (and %d more: weir prices check %s)", f[0], len(f)-1, f[0].File)
}

// maxFaults bounds what is kept of a file that is no price file at all.
const maxFaults = 500

// faults gathers.
type faults struct{ list Faults }

func (f *faults) add(at place, format string, args ...any) {
	if len(f.list) < maxFaults {
		f.list = append(f.list, Fault{at.file, at.line, at.col, fmt.Sprintf(format, args...)})
	}
}

// err gives what was gathered as an error, nil for nothing.
func (f *faults) err() error {
	if len(f.list) == 0 {
		return nil
	}
	slices.SortStableFunc(f.list, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return f.list
}

// clip bounds a value of a file before it is repeated in a message.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
