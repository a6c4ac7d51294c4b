package bench

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
	"github.com/weirhq/weir/server/app"
)

// Server, bare database and clients share this process and the server's setting
// of the garbage collector.
func TestMain(m *testing.M) {
	app.TuneGC(os.Getenv)
	pgtest.Main(m, func() error { return goleak.Find() })
}
