package sandbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirhq/weir/runtime/run"
	"github.com/weirhq/weir/runtime/sandbox"
)

// A program that prints a new name per line fills no memory: beyond the bound
// its points are refused, counted and explained, those of known names are not.
func TestCurvesAreBounded(t *testing.T) {
	t.Parallel()
	p := newProcess()
	go func() {
		for i := range sandbox.MaxCurves + 500 {
			_, _ = fmt.Fprintf(p.outW, "{\"step\":%d,\"metrics\":{\"known\":1,\"never again %d\":1}}\n", i, i)
		}
		_, _ = fmt.Fprintf(p.outW, "{\"step\":1,\"metric\":\"known\",\"value\":1,\"run\":\"%s\"}\n", strings.Repeat("\U000e0001", 300)) // a curve of its own
		p.end(0, "")
	}()
	s := &sink{}
	res, err := sandbox.Run(t.Context(), &scripted{p: p}, aSpec(), s, sandbox.Options{})
	if err != nil || s.points != sandbox.MaxCurves+500+sandbox.MaxCurves-1 {
		t.Errorf("%d points, %v", s.points, err)
	}
	l := res.Loss
	if l.LinesRead != sandbox.MaxCurves+501 || l.LinesParsed != sandbox.MaxCurves+500 || l.LinesRejected != 502 || len(l.RejectedSamples) != run.MaxSamples {
		t.Errorf("%+v", l)
	}
	for _, sample := range l.RejectedSamples {
		if len(sample) > 200 || !strings.Contains(sample, "print the same names with other steps. Left out: never again") {
			t.Errorf("%q", sample)
		}
	}
}
