-- +goose Up
-- A record of several requests does not tell how long each prompt was: it is
-- priced without the rates of long ones.
ALTER TABLE usage_records ADD COLUMN summed BOOLEAN NOT NULL DEFAULT FALSE;
