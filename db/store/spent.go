package store

import (
	"context"
	"time"

	"github.com/weirhq/weir/runtime/run"
)

type spentRow struct {
	Agent    string
	USD      int64 `bun:"usd"`
	Tokens   int64
	Unpriced int64
}

// daySums adds records up by run first, so that a run's row is read once. The
// index usage_records_at has all that it reads of them.
const daySums = `SELECT r.agent AS agent, CAST(sum(u.usd) AS BIGINT) AS usd, CAST(sum(u.tokens) AS BIGINT) AS tokens, CAST(sum(u.unpriced) AS BIGINT) AS unpriced
 FROM (SELECT run_id, coalesce(sum(cost_nano_usd), 0) AS usd,
 sum(input_tokens + cache_read_tokens + cache_write_short_tokens + cache_write_long_tokens + output_tokens) AS tokens, count(*) - count(cost_nano_usd) AS unpriced
 FROM usage_records WHERE at_us >= ? AND at_us < ? AND NOT superseded GROUP BY run_id) AS u JOIN runs AS r ON r.id = u.run_id GROUP BY r.agent`

// SpentByAgent sums up the records whose request was in [from, to), by the agent
// of their runs.
func (s *Store) SpentByAgent(ctx context.Context, from, to time.Time) (map[string]run.Spent, error) {
	var rows []spentRow
	err := s.read.NewRaw(daySums, micros(from), micros(to)).Scan(ctx, &rows)
	if err != nil {
		return nil, s.readError("adding up a day", err)
	}
	out := make(map[string]run.Spent, len(rows))
	for _, r := range rows {
		out[r.Agent] = run.Spent{USD: run.NanoUSD(r.USD), Tokens: r.Tokens, Unpriced: r.Unpriced}
	}
	return out, nil
}
