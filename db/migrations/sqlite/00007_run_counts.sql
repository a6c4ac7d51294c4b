-- +goose Up
-- How many of a run's records that count are of each kind: with them its totals
-- follow a record without reading the others again.
ALTER TABLE runs ADD COLUMN reported_records BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN computed_records BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN unknown_records BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN estimated_records BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN partial_records BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN measured_records BIGINT NOT NULL DEFAULT 0;

UPDATE runs SET (reported_records, computed_records, unknown_records, estimated_records, partial_records, measured_records) = (
  SELECT count(CASE WHEN cost_source = 'AGENT_REPORTED' THEN 1 END), count(CASE WHEN cost_source = 'COMPUTED' THEN 1 END),
    count(CASE WHEN provenance = 'UNKNOWN' THEN 1 END), count(CASE WHEN provenance = 'ESTIMATED' THEN 1 END),
    count(CASE WHEN provenance = 'PARTIAL' THEN 1 END), count(CASE WHEN provenance = 'MEASURED' THEN 1 END)
  FROM usage_records WHERE run_id = runs.id AND NOT superseded)
WHERE records > 0;
