/**
 * Reads a Long: a JSON number while that is exact, else a decimal string. Values
 * beyond 2^53 - 1 lose their last digits here; seqs and counts do not reach them.
 */
export function toLong(value: number | string): number {
  return typeof value === 'number' ? value : Number(value);
}
