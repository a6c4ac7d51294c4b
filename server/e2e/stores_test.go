package e2e

import (
	"testing"

	"github.com/weirhq/weir/db/pgtest"
)

// onBothStores runs a test once on SQLite and once on a fresh PostgreSQL database.
func onBothStores(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("sqlite", func(t *testing.T) { test(t, "") })
	t.Run("postgres", func(t *testing.T) { test(t, pgtest.Database(t)) })
}
