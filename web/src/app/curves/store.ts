import type { RunCurvesQuery } from '../../gql/graphql';
import { toLong } from '../api/long';
import { Signal } from '../api/signal';
import { type Event, type EventOf, seqOf } from '../session/event';
import { Curve, curveKey } from './curve';

export type Series = NonNullable<RunCurvesQuery['run']>['metrics'][number];

const collator = new Intl.Collator('en', { numeric: true });

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** layer2 before layer10; the same for every order of the input. */
function compareNames(a: string, b: string): number {
  return collator.compare(a, b) || compare(a, b);
}

/** A chart of the pane: the curves of its metric names. */
export interface ChartSpec {
  id: string;
  title: string;
  names: readonly string[];
}

/** The curves of a session and the charts that show them. Lives outside React. */
export class CurveStore {
  /** Grows when curves or charts come or go; values alone do not change it. */
  readonly structure = new Signal(0);
  #curves = new Map<string, Curve>();
  /** Runs whose points are taken: those loaded, and those seen from their start. */
  #runs = new Set<string>();
  #asOf = new Map<string, number>();
  #configured: { title: string; names: string[] }[] = [];
  /** Events that came while the server's curves were being fetched. */
  #held: Event[] | null = [];

  /** Forgets what a load that failed half-way has put in; held events stay. */
  reset(): void {
    this.#curves.clear();
    this.#runs.clear();
    this.#asOf.clear();
  }

  /** Takes the charts that the program asked for before the events that apply() sees. */
  configure(event: EventOf<'ChartConfigured'>): void {
    if (this.#configure(event.config)) this.structure.set(this.structure.get() + 1);
  }

  /** Takes a run's curves as the server folded them. */
  load(runId: string, series: readonly Series[]): void {
    this.#runs.add(runId);
    this.#asOf.set(runId, asOfSeq(series));
    for (const s of series) this.#curve(s.runId, s.name, s.runTag, s.stage).load(s.buckets, toLong(s.asOfSeq));
    this.structure.set(this.structure.get() + 1);
  }

  /** Ends the loading: from here on events count as they come. */
  ready(): void {
    const held = this.#held ?? [];
    this.#held = null;
    this.apply(held);
  }

  /** Adds the points of events that the curves do not hold yet. */
  apply(events: readonly Event[]): void {
    if (this.#held) {
      this.#held.push(...events);
      return;
    }
    const before = this.#curves.size;
    let configured = false;
    for (const event of events) {
      if (event.__typename === 'RunStarted' && event.runId) this.#runs.add(event.runId);
      else if (event.__typename === 'MetricsLogged') this.add(event);
      else if (event.__typename === 'ChartConfigured') configured = this.#configure(event.config) || configured;
    }
    if (configured || this.#curves.size !== before) this.structure.set(this.structure.get() + 1);
  }

  /** Adds one event's points, also before ready(): what was missing between the server's curves and the held events. */
  add(event: EventOf<'MetricsLogged'>): void {
    const { runId } = event;
    if (!runId || !this.#runs.has(runId)) return;
    const seq = seqOf(event);
    for (const point of event.points) {
      const curve = this.#curve(runId, point.name, point.runTag, point.stage);
      if (seq > curve.asOfSeq) curve.add(toLong(point.step), point.value, point.special);
    }
  }

  /** Curves whose newest point must be asked for in finer buckets. */
  unsure(): Curve[] {
    return [...this.#curves.values()].filter((curve) => curve.unsureEnd);
  }

  /**
   * The charts: those that the program asked for, then one for each name that is in
   * none of them, by name: the order in which points came is not known after a reload.
   */
  charts(): ChartSpec[] {
    const names = new Set([...this.#curves.values()].map((curve) => curve.name));
    const charts: ChartSpec[] = [];
    const shown = new Set<string>();
    for (const { title, names: wanted } of this.#configured) {
      const present = wanted.filter((name) => names.has(name));
      if (present.length === 0) continue;
      for (const name of present) shown.add(name);
      charts.push({ id: `chart ${charts.length} ${title}`, title, names: present });
    }
    for (const name of [...names].sort(compareNames)) {
      if (!shown.has(name)) charts.push({ id: `name ${name}`, title: name, names: [name] });
    }
    return charts;
  }

  /** A chart's curves, in an order that depends on the curves only; the ids of runs grow with time. */
  curvesOf(chart: ChartSpec): Curve[] {
    return [...this.#curves.values()]
      .filter((curve) => chart.names.includes(curve.name))
      .sort(
        (a, b) =>
          compare(a.runId, b.runId) ||
          chart.names.indexOf(a.name) - chart.names.indexOf(b.name) ||
          compareNames(a.stage ?? '', b.stage ?? '') ||
          compareNames(a.runTag ?? '', b.runTag ?? ''),
      );
  }

  #curve(runId: string, name: string, runTag: string | null, stage: string | null): Curve {
    const key = curveKey(runId, name, runTag, stage);
    let curve = this.#curves.get(key);
    if (!curve) {
      curve = new Curve(key, runId, name, runTag, stage);
      // A curve that the server did not list had no points up to there.
      curve.asOfSeq = this.#asOf.get(runId) ?? 0;
      this.#curves.set(key, curve);
    }
    return curve;
  }

  /** Reads {charts: [{title, metrics}]}; anything else is left alone. */
  #configure(config: unknown): boolean {
    const list = (config as { charts?: unknown } | null)?.charts;
    if (!Array.isArray(list)) return false;
    const charts: { title: string; names: string[] }[] = [];
    for (const chart of list.slice(0, 100)) {
      const metrics: unknown = chart?.metrics;
      if (!Array.isArray(metrics)) continue;
      const names = metrics.filter((name): name is string => typeof name === 'string');
      if (names.length === 0) continue;
      charts.push({ title: typeof chart.title === 'string' && chart.title ? chart.title : names.join(', '), names });
    }
    this.#configured = charts;
    return true;
  }
}

/** The seq up to which all of a run's curves are complete. */
export function asOfSeq(series: readonly Series[]): number {
  return series.length === 0 ? 0 : Math.min(...series.map((s) => toLong(s.asOfSeq)));
}
