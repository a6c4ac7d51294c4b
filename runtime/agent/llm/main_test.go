package llm_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
)

// The SDK of the Gemini API carries a package that starts a goroutine when it is
// loaded, and never ends it.
func TestMain(m *testing.M) {
	pgtest.Main(m, func() error {
		return goleak.Find(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
	})
}
