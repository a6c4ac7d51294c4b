package run

import (
	"math"
	"time"
)

// Special marks a metric value that JSON and SQL cannot carry as a number.
type Special int8

// The special values; Finite means the value itself counts. The numbers are stored.
const (
	Finite Special = iota
	NaN
	PositiveInfinity
	NegativeInfinity
)

// Point is one metric value. Value is 0 when Special is not Finite.
type Point struct {
	Step    int64
	Name    string
	Value   float64
	Special Special
	RunTag  string    // which of several runs inside one process; "" for none
	Stage   string    // the run's stage when the line was printed
	At      time.Time // when the line was read
}

// SplitFloat gives v as a stored value and its special mark.
func SplitFloat(v float64) (float64, Special) {
	switch {
	case math.IsNaN(v):
		return 0, NaN
	case math.IsInf(v, 1):
		return 0, PositiveInfinity
	case math.IsInf(v, -1):
		return 0, NegativeInfinity
	}
	return v, Finite
}

// Float is the inverse of SplitFloat.
func (p Point) Float() float64 {
	switch p.Special {
	case NaN:
		return math.NaN()
	case PositiveInfinity:
		return math.Inf(1)
	case NegativeInfinity:
		return math.Inf(-1)
	case Finite:
	}
	return p.Value
}

// SeriesKey identifies one curve.
type SeriesKey struct {
	Run     ID
	Attempt int
	Stage   string
	RunTag  string
	Name    string
}

// Series is one curve, folded into buckets of equal power-of-two width in
// ascending order. It holds the points of events up to AsOfSeq.
type Series struct {
	Key     SeriesKey
	AsOfSeq int64
	Buckets []Bucket
}

// Bucket summarises the points of the steps FromStep to ToStep, both included.
// Min, Max, First and Last are over the finite points and meaningful only when
// Finite() > 0; First and Last are by step, then by arrival.
type Bucket struct {
	FromStep, ToStep                        int64
	Count                                   int64 // all points, non-finite ones included
	NaN, PositiveInfinity, NegativeInfinity int64
	Min, Max, First, Last                   float64
	FirstAt, LastAt                         time.Time
}

// Finite counts the finite points.
func (b Bucket) Finite() int64 { return b.Count - b.NaN - b.PositiveInfinity - b.NegativeInfinity }

// MetricQuery chooses curves. Nil Names means all; nil steps mean no bound.
type MetricQuery struct {
	Names            []string
	MaxPoints        int
	FromStep, ToStep *int64
}
