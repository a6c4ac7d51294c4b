import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import { SubscriptionClient } from 'subscriptions-transport-ws';
import WebSocket from 'ws';
import { createClient as createWeirClient, socketTransport } from '../../client/src/index';
import { type Arrived, again, following, query, type Result } from './cursor';

/** Starts a client that follows a session into arrived; gives how to stop it. */
type Start = (url: string, sessionId: string, arrived: Arrived) => () => unknown;

const socket = (url: string) =>
  createWsClient({
    url: `${url.replace('http', 'ws')}/graphql`,
    webSocketImpl: WebSocket,
    shouldRetry: () => true,
    ...again,
  });

export const clients: Record<string, Start> = {
  'graphql-ws'(url, sessionId, arrived) {
    const client = socket(url);
    client.subscribe<Result['data']>(
      { query, variables: following(sessionId, arrived) },
      { next: ({ data }) => arrived.take(data?.events), error: () => {}, complete: () => {} },
    );
    return () => client.dispose();
  },

  'graphql-sse'(url, sessionId, arrived) {
    const client = createSseClient({ url: `${url}/graphql`, retryAttempts: 10_000, retry: again.retryWait });
    let over = false;
    // It gives up when a connection breaks while it works on a result: then it is asked again.
    const subscribe = () => {
      if (over) return;
      client.subscribe<Result['data']>(
        { query, variables: following(sessionId, arrived) },
        { next: ({ data }) => arrived.take(data?.events), error: () => setTimeout(subscribe, 150), complete: () => {} },
      );
    };
    subscribe();
    return () => {
      over = true;
      client.dispose();
    };
  },

  'subscriptions-transport-ws'(url, sessionId, arrived) {
    const client = new SubscriptionClient(`${url.replace('http', 'ws')}/graphql`, { reconnect: true }, WebSocket);
    client
      .request({ query, variables: following(sessionId, arrived) })
      .subscribe({ next: (result) => arrived.take((result as Result).data?.events) });
    return () => client.close();
  },

  'weir over SSE'(url, sessionId, arrived) {
    const over = new AbortController();
    void (async () => {
      for await (const event of createWeirClient({ url }).events(sessionId, { signal: over.signal })) {
        arrived.take([event]);
      }
    })();
    return () => over.abort();
  },

  'weir over WebSocket'(url, sessionId, arrived) {
    const client = socket(url);
    const following = createWeirClient({ url, transport: socketTransport(client) }).follow(sessionId, {
      events: (events) => arrived.take(events),
    });
    return () => {
      following.stop();
      client.dispose();
    };
  },

  curl(url, sessionId, arrived) {
    let child: ChildProcess | undefined;
    let over = false;
    const subscribe = () => {
      if (over) return;
      const command = curlCommand(url, sessionId) + (arrived.last ? ` -H 'Last-Event-ID: ${arrived.last}'` : '');
      child = spawn('sh', ['-c', `exec ${command} -s`]);
      let rest = '';
      child.stdout?.on('data', (data: Buffer) => {
        const lines = (rest + data.toString()).split('\n');
        rest = lines.pop() ?? ''; // half a line is dropped with its connection: its id was not taken either
        for (const line of lines) {
          if (line.startsWith('data: ')) arrived.take((JSON.parse(line.slice(6)) as Result).data?.events);
        }
      });
      child.once('close', () => setTimeout(subscribe, 150));
    };
    subscribe();
    return () => {
      over = true;
      child?.kill();
    };
  },
};

/** The README's command for an event stream, for this server and session. */
function curlCommand(url: string, sessionId: string): string {
  const readme = readFileSync(fileURLToPath(new URL('../../../README.md', import.meta.url)), 'utf8');
  const block = readme.match(/```sh\n(curl -N [^`]*text\/event-stream[^`]*)\n```/)?.[1];
  if (!block) throw new Error('README.md has no curl for an event stream');
  return block.replace('http://127.0.0.1:8080', url).replace('ses_...', sessionId);
}
