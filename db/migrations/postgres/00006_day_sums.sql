-- +goose Up
-- Budgets add a day up again and again: from the index alone. Pricing again reads
-- records in its order.
DROP INDEX usage_records_at;
CREATE INDEX usage_records_at ON usage_records (at_us, run_id) INCLUDE (superseded, cost_nano_usd,
  input_tokens, cache_read_tokens, cache_write_short_tokens, cache_write_long_tokens, output_tokens);
