import { backoffMs, pause } from './backoff.js';
import { ConnectionLost, fromErrors, isLasting } from './errors.js';
import type { GraphQLResult, Transport } from './transport.js';

/** An event of a session, with what every event has and the fields that were asked for. */
export type WeirEvent<Fields = Record<string, unknown>> = {
  /** The type's name, for example OutputWritten. */
  __typename: string;
  /** 1, 2, 3 ... within the session; the cursor. Exact up to 2^53. */
  seq: number;
  /** RFC 3339. */
  at: string;
  /** The type in capitals, for example OUTPUT_WRITTEN. */
  type: string;
  sessionId: string;
  runId: string | null;
  agent: string | null;
  stage: string | null;
  /** Of a GapEvent: retention has deleted the events fromSeq to toSeq. */
  fromSeq?: number;
  toSeq?: number;
} & Fields;

export type FollowState =
  | { kind: 'connecting'; attempt: number }
  | { kind: 'connected' }
  | { kind: 'waiting'; attempt: number; waitMs: number; problem: Error };

export interface FollowOptions {
  /** Start after this seq; 0 or absent: from the first event. */
  after?: number;
  /** Only events of these types, for example ["METRICS_LOGGED", "RUN_ENDED"]. GapEvents come always. */
  types?: readonly string[];
  /** Only events of this run. */
  runId?: string;
  /** GraphQL fields beside the common ones, for example "... on OutputWritten { stream text }". */
  fields?: string;
  /** Ends the following. */
  signal?: AbortSignal;
  /** Is told about the connection. */
  onState?: (state: FollowState) => void;
  /** Is told when the server would not give the events from and to, though they should exist. */
  onSkip?: (from: number, to: number) => void;
}

export interface FollowHandlers<Fields = Record<string, unknown>> {
  /** Takes one or more new events, in order. The next come when the promise has settled. */
  events: (events: WeirEvent<Fields>[]) => void | Promise<void>;
}

/** A following under way, in the callback form. */
export interface Following {
  /** The last seq that was handled; start there another time with `after`. */
  readonly cursor: number;
  stop(): void;
  /** Settles after stop; rejects when the server refuses for good or a handler threw. */
  readonly done: Promise<void>;
}

/** A following as an iteration. Its end is break, the signal, or an error that stays one. */
export interface EventStream<Fields = Record<string, unknown>> extends AsyncIterable<WeirEvent<Fields>> {
  /** The last seq that was handled: that of the event before the one in hand. */
  readonly cursor: number;
}

const gapTries = 3;

/** The server left seqs out that it should have. */
class Skipped extends ConnectionLost {}

function document(fields: string): string {
  return `subscription WeirEvents($sessionId: ID!, $after: Long, $types: [EventType!], $runId: ID) {
  events(sessionId: $sessionId, after: $after, types: $types, runId: $runId) {
    __typename seq at type sessionId runId agent stage ... on GapEvent { fromSeq toSeq } ${fields}
  }
}`;
}

/**
 * Yields a session's events in batches, each event once and in order, through
 * any number of lost connections: after each it subscribes again behind the last
 * event it got, and drops what it has seen.
 */
export class Follower<Fields> {
  /** The last seq that was handled. */
  cursor: number;
  #got: number;
  #gapAt = 0;
  #gapTries = 0;

  constructor(
    private readonly transport: Transport,
    private readonly sessionId: string,
    private readonly options: FollowOptions,
    private readonly wait: typeof pause = pause,
  ) {
    this.cursor = this.#got = options.after ?? 0;
  }

  async *batches(signal: AbortSignal): AsyncGenerator<WeirEvent<Fields>[]> {
    const { onState } = this.options;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const before = this.#got;
      let problem: Error;
      try {
        onState?.({ kind: 'connecting', attempt });
        yield* this.#once(signal);
        problem = new ConnectionLost('The server ended the stream.');
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Error) || isLasting(error)) throw error;
        problem = error;
      }
      if (signal.aborted) return;
      if (this.#got > before) attempt = 0;
      const waitMs = backoffMs(attempt);
      onState?.({ kind: 'waiting', attempt, waitMs, problem });
      await this.wait(waitMs, signal);
    }
  }

  /** One subscription, to its end. */
  async *#once(signal: AbortSignal): AsyncGenerator<WeirEvent<Fields>[]> {
    const { types, runId, fields } = this.options;
    const got = () => this.#got;
    const sessionId = this.sessionId;
    const request = {
      query: document(fields ?? ''),
      operationName: 'WeirEvents',
      get variables() {
        return { sessionId, after: got(), ...(types && { types }), ...(runId && { runId }) };
      },
    };
    let connected = false;
    for await (const result of this.transport(request, signal)) {
      const { fresh, skipped } = this.#take(result);
      if (!connected) this.options.onState?.({ kind: 'connected' });
      connected = true;
      if (fresh.length > 0) yield fresh;
      if (skipped) throw skipped; // and so asks for it again
    }
  }

  /** Gives what is new in a result, up to a place where seqs are missing. */
  #take(result: GraphQLResult): { fresh: WeirEvent<Fields>[]; skipped?: Skipped } {
    if (result.errors?.length) throw fromErrors(result.errors);
    const fresh: WeirEvent<Fields>[] = [];
    for (const event of (result.data?.events ?? []) as WeirEvent<Fields>[]) {
      event.seq = Number(event.seq); // a Long is a string where it is not exact
      if (event.seq <= this.#got) continue;
      const first = event.__typename === 'GapEvent' ? Number(event.fromSeq) : event.seq;
      if (first > this.#got + 1 && !this.options.types && !this.options.runId) {
        // Unless it was asked for often enough: then that is told, and the rest goes on.
        this.#gapTries = this.#gapAt === this.#got ? this.#gapTries + 1 : 1;
        this.#gapAt = this.#got;
        if (this.#gapTries <= gapTries) {
          return { fresh, skipped: new Skipped(`The server skipped events ${this.#got + 1} to ${first - 1}.`) };
        }
        this.options.onSkip?.(this.#got + 1, first - 1);
      }
      this.#got = event.seq;
      fresh.push(event);
    }
    return { fresh };
  }
}

/** The iterator form. */
export function iterate<Fields>(follower: Follower<Fields>, signal?: AbortSignal): EventStream<Fields> {
  return {
    get cursor() {
      return follower.cursor;
    },
    async *[Symbol.asyncIterator]() {
      const over = new AbortController();
      const stop = () => over.abort();
      signal?.addEventListener('abort', stop);
      if (signal?.aborted) stop();
      try {
        for await (const batch of follower.batches(over.signal)) {
          for (const event of batch) {
            if (over.signal.aborted) return;
            yield event;
            follower.cursor = event.seq;
          }
        }
      } finally {
        stop();
        signal?.removeEventListener('abort', stop);
      }
    },
  };
}

/** The callback form. */
export function attend<Fields>(
  follower: Follower<Fields>,
  handlers: FollowHandlers<Fields>,
  signal?: AbortSignal,
): Following {
  const over = new AbortController();
  const stop = () => over.abort();
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  const work = async () => {
    try {
      for await (const batch of follower.batches(over.signal)) {
        await handlers.events(batch);
        follower.cursor = batch[batch.length - 1]?.seq ?? follower.cursor;
      }
    } finally {
      stop();
      signal?.removeEventListener('abort', stop);
    }
  };
  return {
    get cursor() {
      return follower.cursor;
    },
    stop,
    done: work(),
  };
}
