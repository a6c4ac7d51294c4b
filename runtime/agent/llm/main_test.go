package llm_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/weirhq/weir/db/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m, func() error { return goleak.Find() }) }
