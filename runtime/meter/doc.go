// Package meter reads what providers and agents say of their usage: raw payloads
// and streams of lines become run.UsageRecord values with disjoint buckets. It
// computes no cost; that is the price book's.
//
// Guarantees: no input makes it fail or panic. A line that is no JSON object is
// counted and skipped. A number that is no count of tokens (negative, fractional,
// text, beyond MaxCount) is never booked: the others of its request are, and the
// record is PARTIAL. Memory does not grow with the length of what is read: one
// line up to MaxLine is held, and the last few thousand requests. A request that
// is told of again later comes out again under the same key, so whoever books the
// records merges by key: the higher rank wins, equal ranks by field-wise maximum.
//
// Readers are not safe for concurrent use and start no goroutine.
package meter
