import type { EventType } from '../../gql/graphql';
import { backoffMs, pause } from '../api/backoff';
import { Signal } from '../api/signal';
import type { Event } from './event';
import { firstSeqOf, seqOf } from './event';
import type { SessionStore } from './store';

export type StreamPhase =
  | { kind: 'loading' }
  | { kind: 'following' }
  /** The server skipped seqs; they are being asked for again. */
  | { kind: 'gap'; expected: number; got: number }
  | { kind: 'waiting'; problem: string }
  /** Asking again would not help. */
  | { kind: 'failed'; problem: string };

export interface PageQuery {
  after?: number;
  before?: number;
  first?: number;
  last?: number;
  types?: EventType[];
  runId?: string;
}

export interface EventPage {
  nodes: readonly Event[];
  lastSeq: number;
  hasMore: boolean;
}

/** A refusal that stays one, for example NOT_FOUND. */
export class Refused extends Error {}

/** What a stream needs of the network. */
export interface Transport {
  page(query: PageQuery): Promise<EventPage>;
  /**
   * Follows the log. `after` is read again for each connection, also those that
   * the transport makes by itself. Ends with one call of `ended`.
   */
  follow(
    after: () => number,
    batch: (events: readonly Event[]) => void,
    ended: (problem: Error | null) => void,
  ): () => void;
}

const tailEvents = 500;
const olderEvents = 500;
const gapTries = 3;

/**
 * Keeps a store in step with its session's log: opens with the newest events,
 * then follows from the last seq stored, through any number of lost connections.
 * The cursor moves only after a batch is in the store, so nothing is missed, and
 * the store skips what it has, so nothing is shown twice.
 */
export class EventStream {
  readonly phase = new Signal<StreamPhase>({ kind: 'loading' });
  /** True while older events are being fetched. */
  readonly loadingOlder = new Signal(false);
  #gapAt = 0;
  #gapTries = 0;

  constructor(
    private readonly store: SessionStore,
    private readonly transport: Transport,
    private readonly stored: (events: readonly Event[]) => void = () => {},
    private readonly wait: (ms: number, signal: AbortSignal) => Promise<void> = pause,
  ) {}

  /** Works until the signal aborts or the server refuses for good. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.#insist(signal, () => this.#open());
      await this.#insist(signal, () => this.#follow(signal));
    } catch (error) {
      if (!signal.aborted) this.phase.set({ kind: 'failed', problem: textOf(error) });
    }
  }

  /** Fetches a page of older events and puts it before the others. */
  async older(): Promise<void> {
    if (this.loadingOlder.get() || this.store.firstSeq <= 1) return;
    this.loadingOlder.set(true);
    try {
      const page = await this.transport.page({ before: this.store.firstSeq, last: olderEvents });
      this.store.prepend(page.nodes);
    } catch {
      // The list asks again when the reader scrolls up again.
    } finally {
      this.loadingOlder.set(false);
    }
  }

  /** Repeats a step until it succeeds; the waits grow while nothing new is stored. */
  async #insist(signal: AbortSignal, step: () => Promise<boolean>): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt++) {
      const before = this.store.lastSeq;
      try {
        if (await step()) return;
      } catch (error) {
        if (error instanceof Refused) throw error;
        if (!signal.aborted) this.phase.set({ kind: 'waiting', problem: textOf(error) });
      }
      if (this.store.lastSeq > before) attempt = 0;
      if (!signal.aborted) await this.wait(backoffMs(attempt), signal);
    }
  }

  async #open(): Promise<boolean> {
    const page = await this.transport.page({ last: tailEvents });
    // Events of a page are contiguous; were they not, only the end could be trusted.
    let start = page.nodes.length;
    let next = page.lastSeq + 1;
    while (start > 0) {
      const event = page.nodes[start - 1];
      if (!event || seqOf(event) !== next - 1) break;
      next = firstSeqOf(event);
      start -= 1;
    }
    this.store.begin(page.nodes.slice(start), page.lastSeq);
    this.stored(page.nodes.slice(start));
    return true;
  }

  /** One subscription, until it ends for whatever reason. Never the last one: false, or an error. */
  #follow(signal: AbortSignal): Promise<false> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        resolve(false);
        return;
      }
      this.phase.set({ kind: 'following' });
      let over = false;
      const finish = (problem: Error | null) => {
        if (over) return;
        over = true;
        signal.removeEventListener('abort', stop);
        if (problem) reject(problem);
        else resolve(false);
      };
      const unsubscribe = this.transport.follow(
        () => this.store.lastSeq,
        (events) => {
          if (over) return;
          this.#take(events, () => {
            finish(null);
            unsubscribe();
          });
        },
        (problem) => finish(problem ?? new Error('The server ended the stream.')),
      );
      const stop = () => {
        finish(null);
        unsubscribe();
      };
      signal.addEventListener('abort', stop);
    });
  }

  #take(events: readonly Event[], again: () => void): void {
    let result = this.store.append(events);
    if (result.kind === 'gap') {
      this.#gapTries = result.expected === this.#gapAt ? this.#gapTries + 1 : 1;
      this.#gapAt = result.expected;
      if (this.#gapTries <= gapTries) {
        this.phase.set(result);
        again();
        return;
      }
      this.store.skipTo(result.got);
      result = this.store.append(events);
    }
    if (result.kind === 'stored') {
      if (this.phase.get().kind !== 'following') this.phase.set({ kind: 'following' });
      if (result.fresh.length > 0) this.stored(result.fresh);
    }
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
