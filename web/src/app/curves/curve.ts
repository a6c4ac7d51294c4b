import { toLong } from '../api/long';

export type Special = 'NAN' | 'POSITIVE_INFINITY' | 'NEGATIVE_INFINITY';

/** The points of the steps from .. from + width - 1. min, max, first and last are over the finite ones. */
export interface Bucket {
  from: number;
  finite: number;
  min: number;
  max: number;
  first: number;
  last: number;
  nan: number;
  positiveInfinity: number;
  negativeInfinity: number;
  /** What its newest point is; null: finite. */
  end: Special | null;
}

export interface ServerBucket {
  fromStep: number | string;
  toStep: number | string;
  count: number | string;
  min: number | null;
  max: number | null;
  first: number | null;
  last: number | null;
  nan: number;
  positiveInfinity: number;
  negativeInfinity: number;
}

/** Buckets kept of a curve: about two for each pixel of a chart. */
export const maxBuckets = 1_000;

/**
 * One curve, folded as the server folds it: buckets of one power-of-two width at
 * multiples of that width, so that old buckets never move. While it fits, the width
 * is 1 and the points are exact. Lives outside React and changes in place.
 */
export class Curve {
  /** Ascending by step. */
  readonly buckets: Bucket[] = [];
  width = 1;
  version = 0;
  /** Points of events up to this seq are already in it. */
  asOfSeq = 0;

  constructor(
    readonly key: string,
    readonly runId: string,
    readonly name: string,
    readonly runTag: string | null,
    readonly stage: string | null,
  ) {}

  /** Takes over the server's buckets. */
  load(buckets: readonly ServerBucket[], asOfSeq: number): void {
    this.asOfSeq = asOfSeq;
    this.version += 1;
    this.buckets.length = 0;
    this.width = 1;
    for (const b of buckets) {
      while (this.width < toLong(b.toStep) - toLong(b.fromStep) + 1) this.width *= 2;
    }
    for (const b of buckets) {
      this.#merge({
        from: toLong(b.fromStep),
        finite: toLong(b.count) - b.nan - b.positiveInfinity - b.negativeInfinity,
        min: b.min ?? 0,
        max: b.max ?? 0,
        first: b.first ?? 0,
        last: b.last ?? 0,
        nan: b.nan,
        positiveInfinity: b.positiveInfinity,
        negativeInfinity: b.negativeInfinity,
        end: endOf(b),
      });
    }
    this.#fold();
  }

  /**
   * Whether the newest point may be another than the last bucket says: the server
   * folds several steps without their order.
   */
  get unsureEnd(): boolean {
    const last = this.buckets.at(-1);
    return last !== undefined && this.width > 1 && kinds(last) > 1;
  }

  /** Takes the newest point from the same curve in finer buckets. */
  settleEnd(finer: Curve): void {
    const [last, end] = [this.buckets.at(-1), finer.buckets.at(-1)];
    if (!last || !end || end.from < last.from) return;
    last.end = end.end;
    this.version += 1;
  }

  add(step: number, value: number | null, special: Special | null): void {
    this.version += 1;
    const finite = special === null && value !== null;
    const v = finite ? value : 0;
    this.#merge({
      from: step,
      finite: finite ? 1 : 0,
      min: v,
      max: v,
      first: v,
      last: v,
      nan: special === 'NAN' ? 1 : 0,
      positiveInfinity: special === 'POSITIVE_INFINITY' ? 1 : 0,
      negativeInfinity: special === 'NEGATIVE_INFINITY' ? 1 : 0,
      end: finite ? null : (special ?? 'NAN'),
    });
    this.#fold();
  }

  get folded(): boolean {
    return this.width > 1 || this.buckets.some((b) => b.finite > 1);
  }

  #merge(bucket: Bucket): void {
    bucket.from = Math.floor(bucket.from / this.width) * this.width;
    const at = this.#search(bucket.from);
    const there = this.buckets[at];
    if (!there || there.from !== bucket.from) {
      this.buckets.splice(at, 0, bucket);
      return;
    }
    join(there, bucket);
  }

  /** The index of the first bucket whose step is not below from. Points nearly always come at the end. */
  #search(from: number): number {
    const last = this.buckets.at(-1);
    if (!last || last.from < from) return this.buckets.length;
    let low = 0;
    let high = this.buckets.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.buckets[middle]?.from ?? 0) < from) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #fold(): void {
    while (this.buckets.length > maxBuckets) {
      this.width *= 2;
      const old = this.buckets.splice(0);
      for (const bucket of old) {
        bucket.from = Math.floor(bucket.from / this.width) * this.width;
        const last = this.buckets.at(-1);
        if (last?.from === bucket.from) join(last, bucket);
        else this.buckets.push(bucket);
      }
    }
  }
}

/** What tells one curve of a session from another. */
export function curveKey(runId: string, name: string, runTag: string | null, stage: string | null): string {
  return JSON.stringify([runId, stage, runTag, name]);
}

function kinds(b: Bucket): number {
  return [b.finite, b.nan, b.positiveInfinity, b.negativeInfinity].filter((n) => n > 0).length;
}

/** A bucket that holds both kinds counts as not finite: the reader shall see it. */
function endOf(b: ServerBucket): Special | null {
  if (b.nan > 0) return 'NAN';
  if (b.positiveInfinity > 0) return 'POSITIVE_INFINITY';
  return b.negativeInfinity > 0 ? 'NEGATIVE_INFINITY' : null;
}

/** Adds the later bucket b to a. */
function join(a: Bucket, b: Bucket): void {
  a.end = b.end;
  if (b.finite > 0) {
    if (a.finite === 0) {
      a.min = b.min;
      a.max = b.max;
      a.first = b.first;
    } else {
      a.min = Math.min(a.min, b.min);
      a.max = Math.max(a.max, b.max);
    }
    a.last = b.last;
    a.finite += b.finite;
  }
  a.nan += b.nan;
  a.positiveInfinity += b.positiveInfinity;
  a.negativeInfinity += b.negativeInfinity;
}
