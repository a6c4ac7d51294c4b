package gemini_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The SDK carries a package that starts a goroutine when it is loaded, and never
// ends it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
