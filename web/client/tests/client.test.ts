import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createClient,
  type FollowState,
  type GraphQLResult,
  socketTransport,
  WeirError,
  type WeirEvent,
} from '../src/index';
import { Parser } from '../src/sse';
import { event, FakeServer } from './server';

let server: FakeServer;

beforeEach(async () => {
  server = await FakeServer.start();
});

afterEach(() => server.stop());

/** Reads events until the one with the last seq, and gives their seqs. */
async function read(stream: AsyncIterable<WeirEvent>, last: number): Promise<number[]> {
  const seqs: number[] = [];
  for await (const { seq } of stream) {
    seqs.push(seq);
    if (seq >= last) break;
  }
  return seqs;
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

describe('events', () => {
  it('asks behind the last event after each lost connection, and drops what it has', async () => {
    server.script((asked, n) => {
      if (n === 1) {
        asked.send(1, 2, 3);
        asked.raw('event: next\ndata: {"data":{"ev'); // cut in the midst of a message
        setTimeout(asked.cut, 20);
      } else if (n === 2) {
        asked.cut(); // before any answer
      } else if (n === 3) {
        asked.send(2, 3, 4);
        asked.raw('event: complete\ndata:\n\n');
      } else {
        asked.send(5, 6);
      }
    });
    const states: FollowState['kind'][] = [];
    const stream = createClient({ url: server.url }).events('ses_1', { onState: (s) => states.push(s.kind) });
    expect(await read(stream, 6)).toEqual(range(1, 6));
    expect(server.asked.map((a) => a.after)).toEqual([0, 3, 3, 4]);
    expect(stream.cursor).toBe(5); // the loop left the last one before it was done with it
    expect(states.filter((kind) => kind === 'waiting')).toHaveLength(3);
    expect(states.filter((kind) => kind === 'connected')).toHaveLength(3);
  });

  it('starts where it is told and asks for what it is told', async () => {
    server.script((asked) => asked.send(8, 10));
    const client = createClient({ url: `${server.url}/graphql`, token: async () => 'secret' });
    const options = { after: 7, types: ['WARNING'], fields: '... on Warning { text }' };
    expect(await read(client.events('ses_1', options), 10)).toEqual([8, 10]); // filtered: seqs may be missing
    expect(server.asked).toHaveLength(1);
    expect(server.asked[0]).toMatchObject({ after: 7, types: ['WARNING'], authorization: 'Bearer secret' });
    expect(server.asked[0]?.query).toContain('... on Warning { text }');
  });

  it('asks again for events that were skipped, and says so when they do not come', async () => {
    server.script((asked, n) => (n === 1 ? asked.send(1, 4) : asked.send(2, 3, 4, 7)));
    const skipped: number[][] = [];
    const stream = createClient({ url: server.url }).events('ses_1', { onSkip: (...range) => skipped.push(range) });
    expect(await read(stream, 7)).toEqual([1, 2, 3, 4, 7]);
    expect(server.asked.map((a) => a.after)).toEqual([0, 1, 4, 4, 4]);
    expect(skipped).toEqual([[5, 6]]);
  });

  it('takes a GapEvent for the events that it stands for', async () => {
    const gap = event(9, { __typename: 'GapEvent', type: 'GAP_EVENT', fromSeq: '3', toSeq: '9' });
    server.script((asked, n) => {
      asked.raw(`event: next\ndata: ${JSON.stringify({ data: { events: n === 1 ? [gap] : [] } })}\n\n`);
      asked.send(10);
    });
    const skipped: number[][] = [];
    const stream = createClient({ url: server.url }).events('ses_1', {
      after: 2,
      onSkip: (...range) => skipped.push(range),
    });
    expect(await read(stream, 10)).toEqual([9, 10]);
    expect([skipped.length, server.asked.length]).toEqual([0, 1]);
  });

  it('ends with the error that asking again would not change', async () => {
    server.script((asked) =>
      asked.raw('event: next\ndata: {"errors":[{"message":"no such session","extensions":{"code":"NOT_FOUND"}}]}\n\n'),
    );
    const failed = await read(createClient({ url: server.url }).events('nope'), 1).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(WeirError);
    expect(failed).toMatchObject({ code: 'NOT_FOUND', message: 'no such session' });
    server.script((asked) => {
      asked.answer.writeHead(401, { 'content-type': 'application/json' });
      asked.answer.end('{"errors":[{"message":"a token is needed","extensions":{"code":"UNAUTHENTICATED"}}]}');
    });
    await expect(read(createClient({ url: server.url }).events('x'), 1)).rejects.toMatchObject({
      code: 'UNAUTHENTICATED',
    });
    expect(server.asked).toHaveLength(2);
  });

  it('asks again after an error that may pass, and when the server falls silent', async () => {
    server.script((asked, n) => {
      if (n === 1) {
        asked.answer.writeHead(503);
        asked.answer.end('<html>');
      } else if (n === 2) {
        asked.send(1); // and then nothing
      } else {
        asked.send(2);
      }
    });
    expect(await read(createClient({ url: server.url, silenceMs: 100 }).events('ses_1'), 2)).toEqual([1, 2]);
    expect(server.asked.map((a) => a.after)).toEqual([0, 0, 1]);
  });

  it('hangs up when the iteration is left or aborted', async () => {
    const closed: Promise<unknown>[] = [];
    server.script((asked) => {
      closed.push(new Promise((resolve) => asked.answer.once('close', resolve)));
      asked.send(1);
    });
    const client = createClient({ url: server.url });
    await read(client.events('ses_1'), 1);
    const over = new AbortController();
    const seen: number[] = [];
    for await (const { seq } of client.events('ses_1', { signal: over.signal })) {
      seen.push(seq);
      setTimeout(() => over.abort(), 10);
    }
    expect(seen).toEqual([1]);
    await Promise.all(closed);
    expect(closed).toHaveLength(2);
  });
});

describe('follow', () => {
  it('gives batches to the handler one after the other, and its cursor is what was handled', async () => {
    server.script((asked) => {
      asked.send(1, 2);
      asked.send(3);
    });
    const seen: number[][] = [];
    let finish = () => {};
    const following = createClient({ url: server.url }).follow('ses_1', {
      events: async (events) => {
        seen.push(events.map(({ seq }) => seq));
        if (seen.length === 1) {
          await new Promise<void>((resolve) => {
            finish = resolve;
          });
          return;
        }
        following.stop();
      },
    });
    await expect.poll(() => seen.length).toBe(1);
    expect(following.cursor).toBe(0);
    finish();
    await following.done;
    expect(seen).toEqual([[1, 2], [3]]);
    expect(following.cursor).toBe(3);
  });

  it('ends with what the handler throws', async () => {
    server.script((asked) => asked.send(1));
    const following = createClient({ url: server.url }).follow('ses_1', {
      events: () => {
        throw new Error('no room');
      },
    });
    await expect(following.done).rejects.toThrow('no room');
    expect([following.cursor, server.asked.length]).toEqual([0, 1]);
  });
});

describe('query', () => {
  it('gives data, and errors by their code', async () => {
    const client = createClient({ url: server.url });
    server.script((asked, n) => {
      asked.answer.writeHead(200, { 'content-type': 'application/json' });
      asked.answer.end(
        n === 1
          ? '{"data":{"server":{"version":"v1"}}}'
          : '{"errors":[{"message":"busy","extensions":{"code":"BUSY"}}],"data":null}',
      );
    });
    expect(await client.query('{ server { version } }')).toEqual({ server: { version: 'v1' } });
    await expect(client.query('mutation { x }')).rejects.toMatchObject({ code: 'BUSY', message: 'busy' });
  });
});

describe('socketTransport', () => {
  it('reads the cursor anew whenever the socket reconnects, and unsubscribes at the end', async () => {
    const afters: unknown[] = [];
    let left = 0;
    const client = {
      subscribe(
        payload: { query: string; variables?: Record<string, unknown> | null },
        sink: { next(value: GraphQLResult): void; error(error: unknown): void; complete(): void },
      ) {
        const serve = (...seqs: number[]) => {
          afters.push(JSON.parse(JSON.stringify(payload)).variables.after);
          sink.next({ data: { events: seqs.map((seq) => event(seq)) } });
        };
        queueMicrotask(() => serve(1, 2));
        setTimeout(() => serve(2, 3), 20); // the socket has reconnected by itself
        return () => {
          left += 1;
        };
      },
    };
    const stream = createClient({ url: server.url, transport: socketTransport(client) }).events('ses_1');
    expect(await read(stream, 3)).toEqual([1, 2, 3]);
    expect(afters).toEqual([0, 2]);
    expect(left).toBe(1);
  });

  it('ends with the errors of the operation', async () => {
    const client = {
      subscribe(_: unknown, sink: { error(error: unknown): void }) {
        sink.error([{ message: 'no such session', extensions: { code: 'NOT_FOUND' } }]);
        return () => {};
      },
    };
    const stream = createClient({ url: server.url, transport: socketTransport(client) }).events('nope');
    await expect(read(stream, 1)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });
});

describe('Parser', () => {
  it('gives the same messages however the text is cut', () => {
    const text =
      'retry: 1000\n:\n\nid: 1\nevent: next\ndata: {"a":1}\n\n: note\r\nevent: x\r\ndata:b\r\ndata: c\r\n\r\nevent: complete\ndata:\n\nevent: lost\n\n';
    const want = [
      { event: 'next', data: '{"a":1}' },
      { event: 'x', data: 'b\nc' },
      { event: 'complete', data: '' },
    ];
    for (let size = 1; size <= text.length; size++) {
      const parser = new Parser();
      const got = [];
      for (let at = 0; at < text.length; at += size) got.push(...parser.push(text.slice(at, at + size)));
      expect(got).toEqual(want);
    }
  });
});
