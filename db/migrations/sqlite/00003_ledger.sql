-- +goose Up
-- What the bill is made of: what a record was priced by and which source told of
-- it, the price rows that were used, where cumulative sources stand, and who
-- priced records again.
ALTER TABLE usage_records ADD COLUMN tier TEXT NOT NULL DEFAULT '';
ALTER TABLE usage_records ADD COLUMN tool_calls TEXT NOT NULL DEFAULT '';    -- JSON object: calls by name
ALTER TABLE usage_records ADD COLUMN stream TEXT NOT NULL DEFAULT '';
ALTER TABLE usage_records ADD COLUMN stream_totals TEXT NOT NULL DEFAULT ''; -- JSON: what a cumulative source last said under this key
ALTER TABLE usage_records ADD COLUMN superseded BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE usage_records ADD COLUMN computed_nano_usd BIGINT;               -- NULL: no price known
ALTER TABLE usage_records ADD COLUMN price_id TEXT NOT NULL DEFAULT '';
UPDATE usage_records SET computed_nano_usd = cost_nano_usd WHERE cost_source = 'COMPUTED';

-- By time and by model: for budgets and for pricing again.
CREATE INDEX usage_records_at ON usage_records (at_us);
CREATE INDEX usage_records_model ON usage_records (model, at_us);
CREATE INDEX usage_records_price ON usage_records (price_id) WHERE price_id <> '';
CREATE INDEX usage_records_stream ON usage_records (run_id, stream, source_rank) WHERE stream <> '';

-- All that a sweep reads of a run.
DROP INDEX runs_rollup;
CREATE INDEX runs_rollup ON runs (day, agent, team, model, provider, id);
-- The sweep takes marks key by key: pricing again may set one for each run.
CREATE INDEX rollup_dirty_key ON rollup_dirty (day, agent, team);

-- Zero beside something unpriced says nothing.
UPDATE runs SET cost_nano_usd = NULL WHERE cost_nano_usd = 0 AND unpriced > 0;
UPDATE usage_snapshots SET cost_nano_usd = NULL WHERE cost_nano_usd = 0 AND unpriced > 0;
UPDATE usage_rollups SET cost_nano_usd = NULL WHERE cost_nano_usd = 0 AND unpriced > 0;

CREATE TABLE prices ( -- a row of a price book as it was when it was first used; never changed
  id TEXT PRIMARY KEY,
  body TEXT NOT NULL, -- JSON
  first_used_us BIGINT NOT NULL
);

CREATE TABLE usage_streams ( -- the running totals that are booked; they outlive sessions
  stream TEXT PRIMARY KEY, -- SHA-256 of its name, in hex
  totals TEXT NOT NULL,    -- JSON
  updated_us BIGINT NOT NULL
);

CREATE TABLE usage_audit ( -- one row per pricing again
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  at_us BIGINT NOT NULL,
  who TEXT NOT NULL,
  filter TEXT NOT NULL, -- JSON
  records BIGINT NOT NULL,
  changed BIGINT NOT NULL,
  old_nano_usd BIGINT, -- the sums of what was booked before and after; NULL: nothing was priced
  new_nano_usd BIGINT,
  done BOOLEAN NOT NULL -- FALSE: it broke off; what it says was done
);
