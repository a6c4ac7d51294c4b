import type { RunFieldsFragment, RunStatus } from '../../gql/graphql';
import { Signal } from '../api/signal';
import type { Event } from './event';

export type RunInfo = RunFieldsFragment;

export function isFinal(status: RunStatus): boolean {
  return status === 'DONE' || status === 'FAILED' || status === 'TIMED_OUT' || status === 'CANCELLED';
}

/** What is known about a session's runs, from queries, the runs subscription and the log. */
export class Runs {
  readonly all = new Signal<ReadonlyMap<string, RunInfo>>(new Map());

  /** Takes newer states. A final state is never left: an answer that was under way may be older. */
  put(runs: readonly RunInfo[]): void {
    if (runs.length === 0) return;
    const next = new Map(this.all.get());
    for (const run of runs) {
      const known = next.get(run.id);
      if (known && isFinal(known.status) && !isFinal(run.status)) continue;
      next.set(run.id, run);
    }
    this.all.set(next);
  }

  /** Takes the ends that the log tells, which come before the next answer does. */
  apply(events: readonly Event[]): void {
    for (const event of events) {
      if (event.__typename !== 'RunEnded' || !event.runId || !event.status) continue;
      const known = this.all.get().get(event.runId);
      if (!known || isFinal(known.status)) continue;
      const { status, exitReason, error, at } = event;
      this.put([{ ...known, status, exitReason, error: error ?? known.error, endedAt: at }]);
    }
  }

  /** The run that the page is about: the live root run, else the newest. */
  current(): RunInfo | null {
    const roots = [...this.all.get().values()].filter((run) => run.parent === null);
    roots.sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
    return roots.find((run) => run.status === 'RUNNING' || run.status === 'WAITING') ?? roots[0] ?? null;
  }

  /** The root run that was asked for last; a message goes to its agent. */
  newestRoot(): RunInfo | null {
    let newest: RunInfo | null = null;
    for (const run of this.all.get().values()) {
      if (run.parent === null && (newest === null || run.createdAt > newest.createdAt)) newest = run;
    }
    return newest;
  }

  /** The ids from a run up to its root; the run itself first. */
  depth(runId: string | null, parentOf: (id: string) => string | undefined): number {
    let depth = 0;
    for (let id = runId; id !== null && depth < 16; depth++) {
      const parent: string | null = this.all.get().get(id)?.parent?.id ?? parentOf(id) ?? null;
      if (parent === null) return depth;
      id = parent;
    }
    return depth;
  }
}
