import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { access, keepToken } from '../src/access/token';
import { Connection } from '../src/app/api/connection';

interface Message {
  type: string;
  id?: string;
  payload?: { variables?: { after?: number }; authorization?: string };
}

/** A socket as a browser has it, with a server behind it that a test can silence. */
class FakeSocket {
  static all: FakeSocket[] = [];
  static refuse = false;
  static CONNECTING = 0;
  static OPEN = 1;
  static CLOSING = 2;
  static CLOSED = 3;
  readyState = 0;
  protocol = 'graphql-transport-ws';
  sent: Message[] = [];
  silent = false;
  onopen?: () => void;
  onclose?: (event: { code: number; reason: string; wasClean: boolean }) => void;
  onerror?: (error: unknown) => void;
  onmessage?: (event: { data: string }) => void;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
    queueMicrotask(() => {
      if (FakeSocket.refuse) {
        this.drop(1006);
        return;
      }
      this.readyState = 1;
      this.onopen?.();
    });
  }

  send(data: string): void {
    const message = JSON.parse(data) as Message;
    this.sent.push(message);
    if (this.silent) return;
    if (message.type === 'connection_init') this.reply({ type: 'connection_ack' });
    if (message.type === 'ping') this.reply({ type: 'pong' });
  }

  reply(message: object): void {
    queueMicrotask(() => this.onmessage?.({ data: JSON.stringify(message) }));
  }

  close(code: number, reason: string): void {
    this.readyState = 2;
    // A dead peer answers nothing: a clean close would hang here for ever.
    if (!this.silent) queueMicrotask(() => this.drop(code, reason));
  }

  drop(code: number, reason = ''): void {
    this.readyState = 3;
    this.onclose?.({ code, reason, wasClean: false });
  }

  get afters(): (number | undefined)[] {
    return this.sent.filter((m) => m.type === 'subscribe').map((m) => m.payload?.variables?.after);
  }
}

const last = () => {
  const socket = FakeSocket.all.at(-1);
  if (!socket) throw new Error('no socket');
  return socket;
};

describe('Connection', () => {
  let cursor = 0;
  let ended: unknown[] = [];
  let connection: Connection;

  const subscribe = () =>
    connection.client.subscribe(
      {
        query: 'subscription { events }',
        get variables() {
          return { after: cursor };
        },
      },
      { next: () => {}, error: (error) => ended.push(error), complete: () => ended.push('complete') },
    );

  beforeEach(() => {
    vi.useFakeTimers();
    FakeSocket.all = [];
    FakeSocket.refuse = false;
    cursor = 0;
    ended = [];
    connection = new Connection('ws://server/graphql', FakeSocket);
  });
  afterEach(() => {
    void connection.client.dispose();
    vi.useRealTimers();
  });

  it('cuts a half-open socket when no pong comes, and goes on from the cursor of that moment', async () => {
    subscribe();
    await vi.advanceTimersByTimeAsync(0);
    expect(connection.state.get()).toEqual({ kind: 'connected', times: 1 });
    expect(last().afters).toEqual([0]);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(FakeSocket.all.length).toBe(1);

    cursor = 42;
    last().silent = true;
    await vi.advanceTimersByTimeAsync(14_000);
    expect(connection.state.get().kind).toBe('connected');
    await vi.advanceTimersByTimeAsync(2_000);
    expect(FakeSocket.all.length).toBe(2);
    expect(last().afters).toEqual([42]);
    expect(connection.state.get()).toEqual({ kind: 'connected', times: 2 });
    expect(ended).toEqual([]);
  });

  it('tries for ever, with growing waits, and says so', async () => {
    subscribe();
    await vi.advanceTimersByTimeAsync(0);
    FakeSocket.refuse = true;
    last().drop(1006);
    await vi.advanceTimersByTimeAsync(10 * 60_000);
    const tries = FakeSocket.all.length;
    expect(tries).toBeGreaterThan(50);
    expect(tries).toBeLessThan(120);
    expect(connection.state.get()).toMatchObject({ kind: 'reconnecting' });
    FakeSocket.refuse = false;
    await vi.advanceTimersByTimeAsync(11_000);
    expect(connection.state.get().kind).toBe('connected');
    expect(ended).toEqual([]);
  });

  it('reports an end that the client takes for final, and connects for the next subscription', async () => {
    subscribe();
    await vi.advanceTimersByTimeAsync(0);
    last().drop(1011, 'internal error');
    await vi.advanceTimersByTimeAsync(0);
    expect(ended.length).toBe(1);
    cursor = 7;
    subscribe();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(last().afters).toEqual([7]);
    expect(connection.state.get().kind).toBe('connected');
  });

  it('asks for the token when the server refuses the connection, and sends it with the next', async () => {
    subscribe();
    await vi.advanceTimersByTimeAsync(0);
    expect(last().sent[0]?.payload?.authorization).toBeUndefined();
    last().drop(4401, 'a token is needed');
    await vi.advanceTimersByTimeAsync(0);
    expect(access.get().kind).toBe('asked');
    keepToken('sesame');
    subscribe();
    await vi.advanceTimersByTimeAsync(1_000);
    expect(last().sent[0]).toMatchObject({ type: 'connection_init', payload: { authorization: 'Bearer sesame' } });
    expect(access.get().kind).toBe('open');
  });

  it('is idle again some seconds after the last subscription', async () => {
    const stop = subscribe();
    await vi.advanceTimersByTimeAsync(0);
    stop();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(connection.state.get().kind).toBe('connected');
    await vi.advanceTimersByTimeAsync(2_000);
    expect(connection.state.get()).toEqual({ kind: 'idle' });
  });
});
