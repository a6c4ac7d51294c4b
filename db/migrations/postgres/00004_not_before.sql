-- +goose Up
-- The next attempt of a run that crashed is queued at once and claimed later:
-- what was promised survives the server.
ALTER TABLE runs ADD COLUMN not_before_us BIGINT NOT NULL DEFAULT 0;
