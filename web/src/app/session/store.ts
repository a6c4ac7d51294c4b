import { Signal } from '../api/signal';
import { type Event, firstSeqOf, seqOf } from './event';
import type { AnyRow, ExecutionFacts } from './rows';
import { Timeline } from './timeline';

export type Append = { kind: 'stored'; fresh: readonly Event[] } | { kind: 'gap'; expected: number; got: number };

/**
 * The log of one session as far as it is loaded: a contiguous piece that grows at
 * both ends, and the rows derived from it. Lives outside React: components read a
 * version number. Readers are told at most once a frame (once a second in a hidden tab).
 */
export class SessionStore {
  /** The seqs held: first..last, without gaps. 0 and 0: nothing yet. */
  firstSeq = 0;
  lastSeq = 0;
  /** Grows with each flush. */
  readonly version = new Signal(0);
  /** Grows when older events were put before the others: the list must keep its place. */
  prepends = 0;
  /** What the reader opened or closed, by row key; rows themselves may be unmounted. */
  readonly opened = new Map<string, boolean>();
  #facts = new Map<string, ExecutionFacts>();
  #events: Event[] = [];
  #timeline = new Timeline(this.#facts);
  #holes: { from: number; to: number; at: string }[] = [];
  #timer: (() => void) | null = null;

  constructor(private readonly schedule: (flush: () => void) => () => void = nextFrame) {}

  get rows(): readonly AnyRow[] {
    return this.#timeline.rows;
  }

  get openQuestions(): number {
    return this.#timeline.openQuestions.size;
  }

  get events(): readonly Event[] {
    return this.#events;
  }

  /** The parent of a run, as far as its RunStarted is loaded. */
  parentOf(runId: string): string | undefined {
    return this.#timeline.parents.get(runId);
  }

  /** The runs of executions that began before the events loaded here, and whose facts are not here yet. */
  headlessRuns(): Set<string> {
    return this.#timeline.headless();
  }

  /** Takes what the server knows about executions. */
  setFacts(executions: readonly ExecutionFacts[]): void {
    for (const facts of executions) {
      this.#facts.set(facts.id, facts);
      this.#timeline.setFacts(facts);
    }
    this.#changed();
  }

  /** Starts from a page: its events in ascending order, ending at the session's end. */
  begin(page: readonly Event[], lastSeq: number): void {
    this.#events = [...page];
    const first = page[0];
    this.firstSeq = first ? firstSeqOf(first) : lastSeq + 1;
    this.lastSeq = lastSeq;
    this.#derive();
  }

  /**
   * Stores what continues the log and skips what is already there. At a gap it
   * stops, keeping what came before it.
   */
  append(batch: readonly Event[]): Append {
    const fresh: Event[] = [];
    let gap: Append | null = null;
    for (const event of batch) {
      const seq = seqOf(event);
      if (seq <= this.lastSeq) continue;
      if (firstSeqOf(event) > this.lastSeq + 1) {
        gap = { kind: 'gap', expected: this.lastSeq + 1, got: firstSeqOf(event) };
        break;
      }
      if (this.firstSeq === 0) this.firstSeq = firstSeqOf(event);
      this.lastSeq = seq;
      this.#events.push(event);
      this.#timeline.apply(event);
      fresh.push(event);
    }
    if (fresh.length > 0) this.#changed();
    return gap ?? { kind: 'stored', fresh };
  }

  /** Goes on after a hole that the server could not fill. */
  skipTo(seq: number): void {
    const hole = { from: this.lastSeq + 1, to: seq - 1, at: new Date().toISOString() };
    this.#holes.push(hole);
    this.#timeline.hole(hole.from, hole.to, hole.at, false);
    this.lastSeq = hole.to;
    this.#changed();
  }

  /** Puts older events before the others; they must end just before firstSeq. */
  prepend(page: readonly Event[]): void {
    const last = page.at(-1);
    const first = page[0];
    if (!last || !first || seqOf(last) !== this.firstSeq - 1) return;
    this.#events = [...page, ...this.#events];
    this.firstSeq = firstSeqOf(first);
    this.prepends += 1;
    this.#derive();
  }

  /** Forgets a flush that has not come yet. */
  close(): void {
    this.#timer?.();
    this.#timer = null;
  }

  #derive(): void {
    this.#timeline = new Timeline(this.#facts);
    const holes = [...this.#holes];
    for (const event of this.#events) {
      while (holes[0] && holes[0].from < seqOf(event)) {
        const { from, to, at } = holes[0];
        this.#timeline.hole(from, to, at, false);
        holes.shift();
      }
      this.#timeline.apply(event);
    }
    this.#changed();
  }

  #changed(): void {
    this.#timer ??= this.schedule(() => {
      this.#timer = null;
      this.#flush();
    });
  }

  #flush(): void {
    const timeline = this.#timeline;
    const changed = [...timeline.dirty];
    timeline.dirty.clear();
    for (const row of changed) row.changed();
    this.version.set(this.version.get() + 1);
  }
}

/** Runs flush in the next frame, or within a second in a hidden tab. Gives its cancel. */
function nextFrame(flush: () => void): () => void {
  let frame = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const cancel = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', plan);
  };
  const run = () => {
    cancel();
    flush();
  };
  const plan = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(run, 1_000);
    else frame = requestAnimationFrame(run);
  };
  document.addEventListener('visibilitychange', plan);
  plan();
  return cancel;
}
