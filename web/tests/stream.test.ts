import { describe, expect, it } from 'vitest';
import type { Event } from '../src/app/session/event';
import { seqOf } from '../src/app/session/event';
import { SessionStore } from '../src/app/session/store';
import { EventStream, type PageQuery, Refused, type Transport } from '../src/app/session/stream';
import { deltas } from './events';

/** A server with a log; tests cut, skip and send by hand. */
class FakeServer implements Transport {
  log: Event[] = [];
  afters: number[] = [];
  pages: PageQuery[] = [];
  failPages = 0;
  live: { send: (events: readonly Event[]) => void; end: (problem: Error | null) => void } | null = null;
  after: () => number = () => 0;
  onFollow: () => void = () => {};

  async page(query: PageQuery) {
    this.pages.push(query);
    if (this.failPages > 0) {
      this.failPages -= 1;
      throw new Error('no answer');
    }
    const before = query.before ?? Number.POSITIVE_INFINITY;
    const nodes = this.log.filter((e) => seqOf(e) < before).slice(-(query.last ?? 1000));
    return { nodes, lastSeq: this.log.length, hasMore: nodes.length > 0 && nodes[0] !== this.log[0] };
  }

  follow(after: () => number, batch: (events: readonly Event[]) => void, ended: (problem: Error | null) => void) {
    this.after = after;
    this.afters.push(after());
    const mine = { send: batch, end: ended };
    this.live = mine;
    queueMicrotask(() => this.onFollow());
    return () => {
      if (this.live === mine) this.live = null;
    };
  }
}

function setup(log: Event[], failPages = 0) {
  const server = new FakeServer();
  server.failPages = failPages;
  server.log = log;
  const store = new SessionStore(() => () => {});
  const waits: number[] = [];
  const stored: number[] = [];
  const stream = new EventStream(
    store,
    server,
    (events) => stored.push(...events.map(seqOf)),
    async (ms) => {
      waits.push(ms);
      await Promise.resolve();
    },
  );
  const over = new AbortController();
  const done = stream.run(over.signal);
  const stop = async () => {
    over.abort();
    await done;
  };
  return { server, store, stream, waits, stored, stop, done };
}

async function until(condition: () => boolean) {
  for (let i = 0; i < 1_000 && !condition(); i++) await Promise.resolve();
  expect(condition()).toBe(true);
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

describe('EventStream', () => {
  it('opens with the tail and follows from its end', async () => {
    const { server, store, stream, stored, stop } = setup(deltas(1, 700));
    await until(() => server.live !== null);
    expect([store.firstSeq, store.lastSeq]).toEqual([201, 700]);
    expect(server.afters).toEqual([700]);
    server.live?.send(deltas(701, 702));
    expect(store.lastSeq).toBe(702);
    expect(stored).toEqual(range(201, 702));
    await stream.older();
    expect(store.firstSeq).toBe(1);
    await stop();
    expect(server.live).toBeNull();
  });

  it('moves the cursor that a reconnecting transport reads only after the batch is stored', async () => {
    const { server, store, stop } = setup(deltas(1, 3));
    await until(() => server.live !== null);
    server.live?.send(deltas(4, 9));
    expect(server.after()).toBe(9);
    expect(store.lastSeq).toBe(9);
    await stop();
  });

  it('subscribes again from the cursor after an error and after a completion, and shows nothing twice', async () => {
    const { server, stored, stop } = setup(deltas(1, 2));
    await until(() => server.live !== null);
    server.live?.send(deltas(3, 4));
    server.live?.end(new Error('cut'));
    await until(() => server.afters.length === 2);
    server.live?.send(deltas(3, 6));
    server.live?.end(null);
    await until(() => server.afters.length === 3);
    server.live?.send(deltas(5, 7));
    expect(server.afters).toEqual([2, 4, 6]);
    expect(stored).toEqual(range(1, 7));
    await stop();
  });

  it('ignores what a finished subscription still sends', async () => {
    const { server, stored, stop } = setup(deltas(1, 2));
    await until(() => server.live !== null);
    const old = server.live;
    old?.end(new Error('cut'));
    await until(() => server.afters.length === 2);
    old?.send(deltas(3, 3));
    expect(stored).toEqual([1, 2]);
    await stop();
  });

  it('asks again from the cursor when seqs are skipped', async () => {
    const { server, store, stream, stored, stop } = setup(deltas(1, 2));
    await until(() => server.live !== null);
    server.live?.send(deltas(5, 6));
    expect(stream.phase.get()).toEqual({ kind: 'gap', expected: 3, got: 5 });
    await until(() => server.afters.length === 2);
    expect(server.afters).toEqual([2, 2]);
    server.live?.send(deltas(3, 6));
    expect(stored).toEqual(range(1, 6));
    expect(store.rows.some((row) => row.kind === 'hole')).toBe(false);
    expect(stream.phase.get().kind).toBe('following');
    await stop();
  });

  it('shows a hole when the server cannot fill a gap, and goes on', async () => {
    const { server, store, stop } = setup(deltas(1, 2));
    server.onFollow = () => server.live?.send(deltas(5, 6));
    await until(() => store.lastSeq === 6);
    expect(server.afters.length).toBe(4);
    expect(store.rows.filter((row) => row.kind === 'hole')).toMatchObject([{ from: 3, to: 4, retention: false }]);
    await stop();
  });

  it('waits longer while nothing comes, and starts over after progress', async () => {
    const { server, waits, stop } = setup(deltas(1, 1));
    for (let i = 1; i <= 5; i++) {
      await until(() => server.afters.length === i && server.live !== null);
      server.live?.end(new Error('cut'));
    }
    await until(() => server.afters.length === 6);
    expect(waits[4]).toBeGreaterThan((waits[0] ?? 0) * 4);
    server.live?.send(deltas(2, 2));
    server.live?.end(new Error('cut'));
    await until(() => server.afters.length === 7);
    expect(waits[5]).toBeLessThanOrEqual(250);
    await stop();
  });

  it('keeps trying to open, but not what the server refuses for good', async () => {
    const first = setup([], 3);
    await until(() => first.server.live !== null);
    expect(first.server.pages.length).toBe(4);
    await first.stop();

    const second = setup(deltas(1, 1));
    await until(() => second.server.live !== null);
    second.server.live?.end(new Refused('session "x" does not exist'));
    await second.done;
    expect(second.stream.phase.get()).toEqual({ kind: 'failed', problem: 'session "x" does not exist' });
  });

  it('starts an empty session at its first event', async () => {
    const { server, store, stop } = setup([]);
    await until(() => server.live !== null);
    expect(server.afters).toEqual([0]);
    server.live?.send(deltas(1, 2));
    expect([store.firstSeq, store.lastSeq]).toEqual([1, 2]);
    await stop();
  });
});
