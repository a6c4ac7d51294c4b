-- +goose Up
-- Every time is UTC microseconds (_us), every amount of money nano-USD, 0 or ''
-- stands for "none" unless NULL is said to.

CREATE TABLE sessions (
  sid INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: a deleted session's leftovers belong to nobody else
  id TEXT NOT NULL UNIQUE,
  last_seq BIGINT NOT NULL DEFAULT 0,
  first_seq BIGINT NOT NULL DEFAULT 1,  -- the oldest event kept
  folded_seq BIGINT NOT NULL DEFAULT 0, -- metric_buckets hold exactly the points of events up to here
  title TEXT NOT NULL,
  title_fold TEXT NOT NULL,             -- lower case, for searching
  state TEXT NOT NULL DEFAULT '',
  created_us BIGINT NOT NULL
);

CREATE TABLE session_purges ( -- deleted sessions whose events and points are still to be removed
  sid BIGINT PRIMARY KEY,
  session_id TEXT NOT NULL
);

CREATE TABLE events (
  sid BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  at_us BIGINT NOT NULL,
  kind SMALLINT NOT NULL,
  run_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  stage TEXT NOT NULL,
  body TEXT NOT NULL, -- JSON, marshalled once and published as stored
  PRIMARY KEY (sid, seq)
);

CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  session_id TEXT NOT NULL,
  parent_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  team TEXT NOT NULL,
  stage TEXT NOT NULL,
  driver TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  restart_of TEXT NOT NULL,
  created_us BIGINT NOT NULL,
  started_us BIGINT NOT NULL,
  ended_us BIGINT, -- NULL while open
  day BIGINT GENERATED ALWAYS AS (ended_us / 86400000000) STORED,
  error TEXT NOT NULL,
  result TEXT NOT NULL,
  input TEXT NOT NULL,
  definition TEXT NOT NULL,
  owner TEXT NOT NULL,
  token BIGINT NOT NULL,
  lease_until_us BIGINT NOT NULL DEFAULT 0,
  idem_key TEXT, -- NULL for none
  idem_hash TEXT NOT NULL DEFAULT '',
  abort_requested_us BIGINT NOT NULL DEFAULT 0, -- 0: no abort was asked
  abort_signalled_us BIGINT NOT NULL DEFAULT 0,
  abort_process_gone_us BIGINT NOT NULL DEFAULT 0,
  abort_sandbox_gone_us BIGINT NOT NULL DEFAULT 0,
  abort_survivors TEXT NOT NULL DEFAULT '', -- JSON array of process ids
  abort_outcome TEXT NOT NULL DEFAULT '',
  abort_silent BOOLEAN NOT NULL DEFAULT FALSE,
  abort_trigger TEXT NOT NULL DEFAULT '',
  abort_reason TEXT NOT NULL DEFAULT '',
  -- the sum of the run's own usage_records, recomputed whenever one changes
  input_tokens BIGINT NOT NULL DEFAULT 0,
  cache_read_tokens BIGINT NOT NULL DEFAULT 0,
  cache_write_short_tokens BIGINT NOT NULL DEFAULT 0,
  cache_write_long_tokens BIGINT NOT NULL DEFAULT 0,
  output_tokens BIGINT NOT NULL DEFAULT 0,
  reasoning_tokens BIGINT NOT NULL DEFAULT 0,
  compute_us BIGINT NOT NULL DEFAULT 0,
  cost_nano_usd BIGINT, -- NULL: nothing is priced
  cost_source TEXT NOT NULL DEFAULT '',
  provenance TEXT NOT NULL DEFAULT '',
  records BIGINT NOT NULL DEFAULT 0,
  unpriced BIGINT NOT NULL DEFAULT 0
);
-- The slot of a session, kept by the database.
CREATE UNIQUE INDEX runs_live ON runs (session_id) WHERE parent_id = '' AND status IN ('RUNNING', 'WAITING');
CREATE UNIQUE INDEX runs_idem ON runs (team, idem_key) WHERE idem_key IS NOT NULL;
CREATE INDEX runs_queue ON runs (created_us, id) WHERE status = 'QUEUED';
CREATE INDEX runs_owned ON runs (owner) WHERE status IN ('RUNNING', 'WAITING');
CREATE INDEX runs_lease ON runs (lease_until_us) WHERE status IN ('RUNNING', 'WAITING');
CREATE INDEX runs_session ON runs (session_id, id);
CREATE INDEX runs_children ON runs (parent_id) WHERE parent_id <> '';
CREATE INDEX runs_rollup ON runs (day, agent, team, model);

CREATE TABLE series (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  stage TEXT NOT NULL,
  tag TEXT NOT NULL,
  name TEXT NOT NULL,
  UNIQUE (run_id, attempt, stage, tag, name)
);

CREATE TABLE metric_points (
  series BIGINT NOT NULL,
  step BIGINT NOT NULL,
  ord BIGINT NOT NULL, -- order of arrival: the event's seq * 2^20 + the place in the event
  at_us BIGINT NOT NULL,
  special SMALLINT NOT NULL, -- 0 finite, 1 NaN, 2 Infinity, 3 -Infinity
  value DOUBLE PRECISION,    -- NULL unless finite
  PRIMARY KEY (series, step, ord)
) WITHOUT ROWID;

CREATE TABLE metric_buckets ( -- levels 4, 8, 12, 16, 20: bucket = step >> level
  series BIGINT NOT NULL,
  level SMALLINT NOT NULL,
  bucket BIGINT NOT NULL,
  n BIGINT NOT NULL, -- all points
  nan BIGINT NOT NULL,
  pos_inf BIGINT NOT NULL,
  neg_inf BIGINT NOT NULL,
  min_step BIGINT NOT NULL, -- of all points, as first_us and last_us are
  max_step BIGINT NOT NULL,
  first_us BIGINT NOT NULL,
  last_us BIGINT NOT NULL,
  mn DOUBLE PRECISION,      -- of the finite points from here on; NULL when there is none
  mx DOUBLE PRECISION,
  first_step BIGINT NOT NULL,
  first_ord BIGINT NOT NULL,
  first_v DOUBLE PRECISION,
  last_step BIGINT NOT NULL,
  last_ord BIGINT NOT NULL,
  last_v DOUBLE PRECISION,
  PRIMARY KEY (series, level, bucket)
) WITHOUT ROWID;

CREATE TABLE executions (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  backend TEXT NOT NULL,
  isolation TEXT NOT NULL,
  command TEXT NOT NULL, -- JSON array
  started_us BIGINT NOT NULL,
  ended_us BIGINT NOT NULL,
  class TEXT NOT NULL,
  exit_code BIGINT, -- NULL for none
  signal TEXT NOT NULL,
  elapsed_us BIGINT NOT NULL,
  gpu TEXT NOT NULL,
  is_error BOOLEAN NOT NULL,
  loss TEXT NOT NULL, -- JSON
  err_message TEXT NOT NULL
);
CREATE INDEX executions_run ON executions (run_id, id);

CREATE TABLE artifacts (
  run_id TEXT NOT NULL,
  path TEXT NOT NULL,
  session_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  size BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  modified_us BIGINT NOT NULL,
  PRIMARY KEY (run_id, path)
);
CREATE INDEX artifacts_session ON artifacts (session_id);

CREATE TABLE questions (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  key TEXT NOT NULL,
  text TEXT NOT NULL,
  schema TEXT NOT NULL, -- JSON; '' for any
  asked_us BIGINT NOT NULL,
  answered_us BIGINT NOT NULL,
  state TEXT NOT NULL,
  answer TEXT NOT NULL -- JSON; '' for none
);
CREATE INDEX questions_run ON questions (run_id, id);
CREATE INDEX questions_session ON questions (session_id);

CREATE TABLE usage_records (
  run_id TEXT NOT NULL,
  request_key TEXT NOT NULL,
  kind TEXT NOT NULL,
  at_us BIGINT NOT NULL,
  source_rank SMALLINT NOT NULL,
  provenance TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_short_tokens BIGINT NOT NULL,
  cache_write_long_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  backend TEXT NOT NULL,
  gpu TEXT NOT NULL,
  compute_us BIGINT NOT NULL,
  is_error BOOLEAN NOT NULL,
  cost_nano_usd BIGINT, -- NULL: no price known
  cost_source TEXT NOT NULL,
  raw TEXT NOT NULL,
  PRIMARY KEY (run_id, request_key)
);

CREATE TABLE usage_snapshots (
  run_id TEXT NOT NULL,
  at_us BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_short_tokens BIGINT NOT NULL,
  cache_write_long_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  compute_us BIGINT NOT NULL,
  cost_nano_usd BIGINT,
  cost_source TEXT NOT NULL,
  provenance TEXT NOT NULL,
  records BIGINT NOT NULL,
  unpriced BIGINT NOT NULL,
  PRIMARY KEY (run_id, at_us)
);

CREATE TABLE usage_rollups ( -- of closed runs; day = days since 1970 of the run's end, UTC
  day BIGINT NOT NULL,
  agent TEXT NOT NULL,
  team TEXT NOT NULL,
  model TEXT NOT NULL,    -- of the records; a run is counted under its own
  provider TEXT NOT NULL,
  backend TEXT NOT NULL,
  runs BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  cache_read_tokens BIGINT NOT NULL,
  cache_write_short_tokens BIGINT NOT NULL,
  cache_write_long_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  reasoning_tokens BIGINT NOT NULL,
  compute_us BIGINT NOT NULL,
  cost_nano_usd BIGINT, -- NULL: nothing is priced
  cost_source TEXT NOT NULL,
  provenance TEXT NOT NULL,
  records BIGINT NOT NULL,
  unpriced BIGINT NOT NULL,
  PRIMARY KEY (day, agent, team, model, provider, backend)
);

CREATE TABLE rollup_dirty ( -- append-only: a mark that is made while a sweep runs must survive it
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  day BIGINT NOT NULL,
  agent TEXT NOT NULL,
  team TEXT NOT NULL
);
