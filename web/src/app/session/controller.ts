import {
  AbortRunDocument,
  type OnBusy,
  type ReceiptFieldsFragment,
  RunCurvesDocument,
  RunExecutionsDocument,
  RunReceiptDocument,
  SendMessageDocument,
  SessionHeadDocument,
  type SessionHeadQuery,
  SessionRunsDocument,
} from '../../gql/graphql';
import { backoffMs, pause } from '../api/backoff';
import { client, connection } from '../api/client';
import { problemText } from '../api/errors';
import { followLatest } from '../api/latest';
import { toLong } from '../api/long';
import { Signal } from '../api/signal';
import { Curve, curveKey, maxBuckets } from '../curves/curve';
import { asOfSeq, CurveStore } from '../curves/store';
import { type Event, seqOf } from './event';
import { isFinal, Runs } from './runs';
import { SessionStore } from './store';
import { EventStream } from './stream';
import { graphqlTransport } from './transport';

export type Head = NonNullable<SessionHeadQuery['session']>;

/** Runs whose curves are shown at once, newest first. */
const maxCurveRuns = 10;
/** Events after which a run may be in another status. */
const lifecycle = new Set<Event['__typename']>([
  'RunStarted',
  'QuestionAsked',
  'QuestionAnswered',
  'StateChanged',
  'AbortRequested',
  'RunEnded',
]);
const retryMs = 1_000;
const receiptEveryMs = 300;
const receiptForMs = 90_000;

/** Everything that a session's page reads, kept up to date until close(). */
export class SessionController {
  readonly store = new SessionStore();
  readonly curves = new CurveStore();
  readonly runs = new Runs();
  readonly stream: EventStream;
  readonly head = new Signal<Head | null>(null);
  /** The session's end as the server told it, and the connection (its count) on which it did. */
  readonly end = new Signal<{ lastSeq: number; connection: number }>({ lastSeq: 0, connection: -1 });
  /** The session's state label, for example train_running. */
  readonly state = new Signal<string | null>(null);
  readonly receipt = new Signal<ReceiptFieldsFragment | null>(null);
  readonly problem = new Signal<string | null>(null);
  #stateSeq = 0;
  /** Runs whose executions were asked for. */
  #factsAsked = new Set<string>();
  #asking: Promise<Head | null> | null = null;
  #askAgain = false;
  #over = new AbortController();
  #undo: (() => void)[] = [];

  constructor(readonly id: string) {
    this.stream = new EventStream(this.store, graphqlTransport(id), (events) => {
      this.runs.apply(events);
      this.curves.apply(events);
      const label = events.findLast((event) => event.__typename === 'StateChanged');
      if (label?.__typename === 'StateChanged') this.#setState(label.state, seqOf(label));
      if (events.some((event) => lifecycle.has(event.__typename))) void this.#refresh();
    });
    void this.stream.run(this.#over.signal);
    void this.#loadCurves();
    const stop = followLatest(SessionRunsDocument, { sessionId: id }, (data) => {
      this.runs.put([data.runs]);
      // An answer under way may be older than this.
      if (this.#asking) this.#askAgain = true;
    });
    let times = 0;
    const connected = () => {
      const state = connection.state.get();
      if (state.kind !== 'connected' || state.times === times) return;
      times = state.times;
      void this.#refresh();
    };
    this.#undo.push(stop, connection.state.subscribe(connected));
    this.#undo.push(this.store.version.subscribe(() => this.#askFacts()));
    connected();
  }

  close(): void {
    this.#over.abort();
    this.store.close();
    for (const undo of this.#undo) undo();
  }

  /** Asks for the end of a run and follows the receipt until it is complete. */
  async abort(runId: string): Promise<void> {
    this.problem.set(null);
    const result = await client.mutation(AbortRunDocument, { id: runId, reason: 'asked on the page' }).toPromise();
    if (result.error || !result.data) {
      this.problem.set(result.error ? problemText(result.error) : 'The server sent no receipt.');
      return;
    }
    this.receipt.set(result.data.abortRun);
    const until = Date.now() + receiptForMs;
    while (!this.#over.signal.aborted && Date.now() < until) {
      const run = await this.#run(runId);
      if (run?.abort) this.receipt.set(run.abort);
      if (run && isFinal(run.status) && run.abort?.outcome !== 'PENDING') return;
      await pause(receiptEveryMs, this.#over.signal);
    }
  }

  /** Asks the session's agent for a follow-up. Gives null, or what to tell the user. */
  async send(text: string, onBusy: OnBusy, idempotencyKey: string): Promise<string | null> {
    const input = { sessionId: this.id, text, onBusy, idempotencyKey };
    const result = await client.mutation(SendMessageDocument, { input }).toPromise();
    if (result.error || !result.data) return result.error ? problemText(result.error) : 'The server sent no run.';
    this.runs.put([result.data.sendMessage]);
    return null;
  }

  /** The log and the queries both tell the state; the later seq counts. */
  #setState(label: string | null, seq: number): void {
    if (seq < this.#stateSeq) return;
    this.#stateSeq = seq;
    this.state.set(label);
  }

  /** The same curves in a range of steps, exactly or in finer buckets; null when they cannot be had. */
  async detail(curves: readonly Curve[], fromStep: number, toStep: number): Promise<Curve[] | null> {
    const found = new Map<string, Curve>();
    const runIds = [...new Set(curves.map((curve) => curve.runId))];
    const names = [...new Set(curves.map((curve) => curve.name))];
    const answers = await Promise.all(
      runIds.map((id) =>
        client
          .query(
            RunCurvesDocument,
            { id, names, fromStep, toStep, maxPoints: maxBuckets },
            { requestPolicy: 'network-only' },
          )
          .toPromise(),
      ),
    );
    for (const { data } of answers) {
      if (!data?.run) return null;
      for (const s of data.run.metrics) {
        const curve = new Curve(curveKey(s.runId, s.name, s.runTag, s.stage), s.runId, s.name, s.runTag, s.stage);
        curve.load(s.buckets, toLong(s.asOfSeq));
        found.set(curve.key, curve);
      }
    }
    return curves.map((c) => found.get(c.key) ?? new Curve(c.key, c.runId, c.name, c.runTag, c.stage));
  }

  /** The log that is loaded may begin within an execution: its command and totals are in the run. */
  #askFacts(): void {
    for (const id of this.store.headlessRuns()) {
      if (this.#factsAsked.has(id)) continue;
      this.#factsAsked.add(id);
      void this.#loadFacts(id);
    }
  }

  async #loadFacts(id: string): Promise<void> {
    const { signal } = this.#over;
    for (let attempt = 0; !signal.aborted; attempt++) {
      const result = await client.query(RunExecutionsDocument, { id }, { requestPolicy: 'network-only' }).toPromise();
      if (signal.aborted) return;
      if (result.data?.run) this.store.setFacts(result.data.run.executions);
      if (!result.error?.networkError) return;
      await pause(backoffMs(attempt), signal);
    }
  }

  async #run(id: string) {
    const result = await client.query(RunReceiptDocument, { id }, { requestPolicy: 'network-only' }).toPromise();
    const run = result.data?.run ?? null;
    if (run) this.runs.put([run]);
    return run;
  }

  /**
   * Asks for the session and its runs, one request at a time: what happens while one
   * is under way is asked for again after it, so that the last answer is the newest.
   */
  #refresh(): Promise<Head | null> {
    this.#askAgain = true;
    this.#asking ??= (async () => {
      try {
        for (;;) {
          this.#askAgain = false;
          const head = await this.#ask();
          if (this.#over.signal.aborted || (head !== 'no answer' && !this.#askAgain))
            return head === 'no answer' ? null : head;
          if (head === 'no answer') await pause(retryMs, this.#over.signal);
        }
      } finally {
        this.#asking = null;
      }
    })();
    return this.#asking;
  }

  async #ask(): Promise<Head | null | 'no answer'> {
    const state = connection.state.get();
    const times = state.kind === 'connected' ? state.times : 0;
    const result = await client
      .query(SessionHeadDocument, { id: this.id }, { requestPolicy: 'network-only' })
      .toPromise();
    if (result.error?.networkError) return 'no answer';
    const session = result.data?.session ?? null;
    if (session && !this.#over.signal.aborted) {
      this.head.set(session);
      this.#setState(session.state, toLong(session.lastSeq));
      this.runs.put(session.runs.nodes);
      this.end.set({ lastSeq: toLong(session.lastSeq), connection: times });
    }
    return session;
  }

  /**
   * Fetches the curves as the server folded them, and the points between those
   * and the events that the page holds; from there on the log tells.
   */
  async #loadCurves(): Promise<void> {
    const { signal } = this.#over;
    while (!signal.aborted) {
      try {
        await this.#tryCurves();
        break;
      } catch {
        await pause(retryMs, signal);
      }
    }
  }

  async #tryCurves(): Promise<void> {
    const { signal } = this.#over;
    while (this.stream.phase.get().kind === 'loading' || this.stream.phase.get().kind === 'waiting') {
      if (signal.aborted) return;
      await new Promise<void>((resolve) => {
        const stop = this.stream.phase.subscribe(() => {
          stop();
          resolve();
        });
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    if (this.stream.phase.get().kind === 'failed') return;
    const head = this.head.get() ?? (await this.#refresh());
    if (!head) throw new Error('no session');
    this.curves.reset();
    const transport = graphqlTransport(this.id);
    const firstSeq = this.store.firstSeq;
    const runs = head.runs.nodes.slice(0, maxCurveRuns);
    await Promise.all(
      runs.map(async ({ id }) => {
        const result = await client
          .query(RunCurvesDocument, { id, maxPoints: maxBuckets }, { requestPolicy: 'network-only' })
          .toPromise();
        if (result.error) throw result.error;
        const series = result.data?.run?.metrics ?? [];
        this.curves.load(id, series);
        let after = asOfSeq(series);
        for (let more = after < firstSeq - 1; more; ) {
          const page = await transport.page({ after, first: 1_000, types: ['METRICS_LOGGED'], runId: id });
          for (const event of page.nodes) {
            after = seqOf(event);
            if (after < firstSeq && event.__typename === 'MetricsLogged') this.curves.add(event);
          }
          more = page.hasMore && page.nodes.length > 0 && after < firstSeq;
        }
      }),
    );
    if (firstSeq > 1) {
      const page = await transport.page({ before: firstSeq, last: 1, types: ['CHART_CONFIGURED'] });
      for (const event of page.nodes) if (event.__typename === 'ChartConfigured') this.curves.configure(event);
    }
    // The charts can be shown without; points that come meanwhile settle it anyway.
    const settle = this.curves.unsure().map(async (curve) => {
      const last = curve.buckets.at(-1);
      if (!last) return;
      const [finer] = (await this.detail([curve], last.from, last.from + curve.width - 1)) ?? [];
      if (finer) curve.settleEnd(finer);
    });
    await Promise.all(settle);
    this.curves.ready();
  }
}
