import { describe, expect, it } from 'vitest';
import { Curve, maxBuckets } from '../src/app/curves/curve';
import { bounds, plotData, summary } from '../src/app/curves/plotdata';
import { CurveStore, type Series } from '../src/app/curves/store';
import { event, point } from './events';

const curve = () => new Curve('k', 'run_1', 'loss', null, null);

describe('Curve', () => {
  it('is exact while it is small, also out of order', () => {
    const c = curve();
    for (const step of [3, 1, 2, 2]) c.add(step, step * 10, null);
    expect(c.buckets.map((b) => [b.from, b.last, b.finite])).toEqual([
      [1, 10, 1],
      [2, 20, 2],
      [3, 30, 1],
    ]);
  });

  it('folds into aligned buckets of a power of two and loses no spike', () => {
    const c = curve();
    for (let step = 0; step < 10_000; step++) c.add(step, step === 4_321 ? 999 : 1, null);
    expect(c.buckets.length).toBeLessThanOrEqual(maxBuckets);
    expect(c.width).toBe(16);
    expect(c.buckets.every((b) => b.from % 16 === 0)).toBe(true);
    expect(Math.max(...c.buckets.map((b) => b.max))).toBe(999);
    expect(c.buckets.reduce((n, b) => n + b.finite, 0)).toBe(10_000);
  });

  it('folds negative steps to the same side', () => {
    const c = curve();
    for (let step = -1_500; step < 0; step++) c.add(step, step, null);
    expect(c.buckets[0]?.from).toBe(-1_500);
    expect(c.buckets.at(-1)).toMatchObject({ from: -2, first: -2, last: -1 });
  });

  it('goes on where the server stopped', () => {
    const c = curve();
    const whole = { count: 4, min: 0, max: 3, first: 0, last: 3, nan: 0, positiveInfinity: 0, negativeInfinity: 0 };
    c.load(
      [
        { fromStep: 0, toStep: 3, ...whole },
        { fromStep: '4', toStep: '7', ...whole, count: '2' },
      ],
      10,
    );
    c.add(6, 7, null);
    c.add(8, 9, null);
    expect(c.width).toBe(4);
    expect(c.buckets.map((b) => [b.from, b.finite, b.max, b.last])).toEqual([
      [0, 4, 3, 3],
      [4, 3, 7, 7],
      [8, 1, 9, 9],
    ]);
  });
});

describe('plotData', () => {
  it('makes gaps and markers of values that are not finite', () => {
    const c = curve();
    c.add(1, 1, null);
    c.add(2, null, 'NAN');
    c.add(3, null, 'POSITIVE_INFINITY');
    c.add(4, 4, null);
    c.add(4, null, 'NEGATIVE_INFINITY');
    const { columns, markers } = plotData([c], false);
    expect(columns).toEqual([
      [1, 2, 3, 4],
      [1, null, null, 4],
    ]);
    expect(markers[0]).toEqual([
      { step: 2, kind: 'nan' },
      { step: 3, kind: 'up' },
      { step: 4, kind: 'down' },
    ]);
    expect(summary(c)).toEqual({ last: 'NEGATIVE_INFINITY', min: 1, max: 4, points: 2, odd: 3 });
  });

  it('shows a newest point that is not finite as the last value', () => {
    const c = curve();
    expect(summary(c).last).toBeNull();
    c.add(1, 1, null);
    expect(summary(c).last).toBe(1);
    for (const special of ['NAN', 'POSITIVE_INFINITY', 'NEGATIVE_INFINITY'] as const) {
      c.add(2, null, special);
      expect(summary(c)).toMatchObject({ last: special, min: 1, max: 1 });
    }
    c.add(2, 7, null);
    expect(summary(c).last).toBe(7);
    // Also when folding joins it with finite ones.
    for (let step = 3; step < 10_003; step++) c.add(step, step, null);
    c.add(10_003, null, 'NAN');
    expect(c.buckets.at(-1)).toMatchObject({ finite: 3, nan: 1 });
    expect(summary(c).last).toBe('NAN');
  });

  it('asks for finer buckets when the server folded finite and other points into the last one', () => {
    const bucket = { count: 4, min: 0, max: 3, first: 0, last: 3, nan: 0, positiveInfinity: 0, negativeInfinity: 0 };
    const c = curve();
    c.load([{ fromStep: 0, toStep: 3, ...bucket, nan: 4 }], 1);
    expect([c.unsureEnd, summary(c).last]).toEqual([false, 'NAN']);
    c.load([{ fromStep: 0, toStep: 3, ...bucket, nan: 1 }], 1);
    expect(c.unsureEnd).toBe(true);
    const finer = curve();
    finer.load(
      [
        { fromStep: 2, toStep: 2, ...bucket, count: 1, nan: 1 },
        { fromStep: 3, toStep: 3, ...bucket, count: 1 },
      ],
      1,
    );
    c.settleEnd(finer);
    expect(summary(c).last).toBe(3);
  });

  it('bridges steps that only another curve has', () => {
    const [a, b] = [curve(), curve()];
    a.add(1, 1, null);
    a.add(3, 3, null);
    b.add(2, 2e301, null);
    expect(plotData([a, b], false).columns).toEqual([
      [1, 2, 3],
      [1, undefined, 3],
      [undefined, 1e300, undefined],
    ]);
  });

  it('never gives bounds that would blank or hang a chart', () => {
    for (const [min, max] of [
      [null, null],
      [5, 5],
      [0, 0],
      [Number.NaN, 1],
      [-1e300, 1e300],
      [Number.NEGATIVE_INFINITY, 3],
    ] as const) {
      const [low, high] = bounds(min, max, 0.1);
      expect(low).toBeLessThan(high);
      expect(Number.isFinite(low) && Number.isFinite(high)).toBe(true);
    }
  });
});

describe('CurveStore', () => {
  const series = (asOfSeq: number, last: number): Series =>
    ({
      name: 'loss',
      runId: 'run_1',
      runTag: null,
      stage: 'train',
      attempt: 1,
      asOfSeq,
      buckets: [
        {
          fromStep: 0,
          toStep: 0,
          count: 1,
          min: last,
          max: last,
          first: last,
          last,
          nan: 0,
          positiveInfinity: 0,
          negativeInfinity: 0,
        },
      ],
    }) as Series;
  const steps = (store: CurveStore) =>
    store.charts().flatMap((chart) => store.curvesOf(chart).map((c) => c.buckets.map((b) => [b.from, b.finite])));

  it('joins the live tail where the server stopped, each point once', () => {
    const store = new CurveStore();
    store.apply([point(5, 0, 1), point(6, 1, 1)]);
    expect(store.charts()).toEqual([]);
    store.load('run_1', [series(5, 1)]);
    store.ready();
    store.apply([point(7, 2, 1)]);
    expect(steps(store)).toEqual([
      [
        [0, 1],
        [1, 1],
        [2, 1],
      ],
    ]);
  });

  it('takes the points of a run that starts in view, and not half of one that did not', () => {
    const store = new CurveStore();
    store.ready();
    store.apply([point(5, 0, 1)]);
    expect(store.charts()).toEqual([]);
    store.apply([
      event('RunStarted', 6, { prompt: null, parentId: null, driver: 'script', model: null, attempt: 1 }),
      point(7, 0, 1),
    ]);
    expect(steps(store)).toEqual([[[0, 1]]]);
  });

  it('keeps one order of charts and curves, whatever order they came in', () => {
    const order = (names: string[], runs: string[]) => {
      const store = new CurveStore();
      for (const run of runs) {
        store.load(
          run,
          names.map((name) => ({ ...series(5, 1), runId: run, name })),
        );
      }
      store.ready();
      return store.charts().map((chart) => [chart.title, ...store.curvesOf(chart).map((c) => c.runId)]);
    };
    const expected = ['accuracy', 'layer2', 'layer10', 'loss'].map((name) => [name, 'run_1', 'run_2']);
    expect(order(['loss', 'accuracy', 'layer10', 'layer2'], ['run_2', 'run_1'])).toEqual(expected);
    expect(order(['accuracy', 'layer2', 'loss', 'layer10'], ['run_1', 'run_2'])).toEqual(expected);
  });

  it('draws the charts that the program asked for, and the rest after them', () => {
    const store = new CurveStore();
    store.load('run_1', []);
    store.ready();
    const named = (seq: number, name: string) => {
      const e = point(seq, 1, 1);
      if (e.__typename === 'MetricsLogged' && e.points[0]) e.points[0].name = name;
      return e;
    };
    store.apply([
      named(1, 'a'),
      named(2, '__proto__'),
      named(3, ''),
      event('ChartConfigured', 4, {
        config: { charts: [{ title: 'T', metrics: ['b', 'a', 7] }, { metrics: 'x' }, null] },
      }),
      named(5, 'b'),
    ]);
    expect(store.charts().map((c) => [c.title, c.names])).toEqual([
      ['T', ['b', 'a']],
      ['', ['']],
      ['__proto__', ['__proto__']],
    ]);
    store.apply([event('ChartConfigured', 6, { config: 'nonsense' })]);
    expect(store.charts().length).toBe(3);
  });
});
