import type { Curve, Special } from './curve';

/** What uPlot gets: a number, null for a gap, undefined where a curve has no sample of its own. */
export type Cell = number | null | undefined;

export interface PlotData {
  /** x, then for each curve its y and, with bands, its min and max. */
  columns: Cell[][];
  /** Points without a finite value, by curve. uPlot would draw through them or go blank. */
  markers: { step: number; kind: 'nan' | 'up' | 'down' }[][];
}

const limit = 1e300; // beyond it uPlot's scale turns infinite and the chart goes blank

function clamp(v: number): number {
  return Math.max(-limit, Math.min(limit, v));
}

/** Joins curves over their steps. Buckets without a finite point are gaps. */
export function plotData(curves: readonly Curve[], bands: boolean): PlotData {
  const steps = joinSteps(curves);
  const columns: Cell[][] = [steps];
  const markers: PlotData['markers'] = [];
  const place = new Map(steps.map((step, i) => [step, i]));
  for (const curve of curves) {
    const y: Cell[] = new Array(steps.length).fill(undefined);
    const low: Cell[] = bands ? new Array(steps.length).fill(undefined) : [];
    const high: Cell[] = bands ? new Array(steps.length).fill(undefined) : [];
    const odd: PlotData['markers'][number] = [];
    for (const bucket of curve.buckets) {
      const i = place.get(bucket.from) ?? 0;
      const finite = bucket.finite > 0;
      y[i] = finite ? clamp(bucket.last) : null;
      if (bands) {
        low[i] = finite ? clamp(bucket.min) : null;
        high[i] = finite ? clamp(bucket.max) : null;
      }
      if (bucket.nan > 0) odd.push({ step: bucket.from, kind: 'nan' });
      if (bucket.positiveInfinity > 0) odd.push({ step: bucket.from, kind: 'up' });
      if (bucket.negativeInfinity > 0) odd.push({ step: bucket.from, kind: 'down' });
    }
    columns.push(y);
    if (bands) columns.push(low, high);
    markers.push(odd);
  }
  return { columns, markers };
}

function joinSteps(curves: readonly Curve[]): number[] {
  const [only] = curves;
  if (only && curves.length === 1) return only.buckets.map((b) => b.from);
  const all = new Set<number>();
  for (const curve of curves) for (const bucket of curve.buckets) all.add(bucket.from);
  return [...all].sort((a, b) => a - b);
}

/** Bounds for a scale: never equal, never infinite, with a little air. */
export function bounds(min: number | null | undefined, max: number | null | undefined, air: number): [number, number] {
  if (min === null || max === null || min === undefined || max === undefined) return [0, 1];
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [0, 1];
  if (min === max) {
    const half = Math.abs(min) * 0.1 || 1;
    return [clamp(min - half), clamp(max + half)];
  }
  const pad = air * (max - min);
  return Number.isFinite(pad) ? [clamp(min - pad), clamp(max + pad)] : [clamp(min), clamp(max)];
}

export interface Summary {
  /** The value of the newest point; a word for one that is not finite; null: no point. */
  last: number | Special | null;
  min: number | null;
  max: number | null;
  points: number;
  odd: number;
}

/** A curve in numbers: the text that a canvas lacks. */
export function summary(curve: Curve): Summary {
  const s: Summary = { last: null, min: null, max: null, points: 0, odd: 0 };
  for (const b of curve.buckets) {
    s.points += b.finite;
    s.odd += b.nan + b.positiveInfinity + b.negativeInfinity;
    s.last = b.end ?? b.last;
    if (b.finite === 0) continue;
    s.min = s.min === null ? b.min : Math.min(s.min, b.min);
    s.max = s.max === null ? b.max : Math.max(s.max, b.max);
  }
  return s;
}
