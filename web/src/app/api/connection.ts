import { type Client, createClient } from 'graphql-ws';
import { closedForToken, refused, socketParams, token } from '../../access/token';
import { backoffMs, pause } from './backoff';
import { Signal } from './signal';

export type ConnectionState =
  | { kind: 'idle' }
  | { kind: 'connecting' }
  | { kind: 'connected'; times: number }
  | { kind: 'reconnecting'; attempt: number; nextTryAt: number };

const pingEveryMs = 10_000;
const pongWithinMs = 5_000;

/**
 * The one WebSocket of the page. It retries for ever; a half-open socket is
 * noticed by a missing pong and cut, so that the retry can begin.
 */
export class Connection {
  readonly state = new Signal<ConnectionState>({ kind: 'idle' });
  readonly client: Client;
  #times = 0;

  constructor(url: string, webSocketImpl?: unknown) {
    let pongTimer: ReturnType<typeof setTimeout> | undefined;
    let sent: string | null = null;
    const client = createClient({
      url,
      webSocketImpl,
      connectionParams: () => {
        sent = token();
        return socketParams(sent);
      },
      lazyCloseTimeout: 3_000,
      keepAlive: pingEveryMs,
      connectionAckWaitTimeout: 10_000,
      retryAttempts: Number.POSITIVE_INFINITY,
      shouldRetry: () => true,
      retryWait: async (attempt) => {
        const wait = backoffMs(attempt);
        this.state.set({ kind: 'reconnecting', attempt: attempt + 1, nextTryAt: Date.now() + wait });
        await pause(wait);
      },
      on: {
        connecting: () => {
          if (this.state.get().kind === 'idle') this.state.set({ kind: 'connecting' });
        },
        connected: () => {
          this.#times += 1;
          this.state.set({ kind: 'connected', times: this.#times });
        },
        closed: (event) => {
          clearTimeout(pongTimer);
          const code = (event as Partial<CloseEvent>).code;
          if (closedForToken(code)) refused(sent);
          // 1000: nobody subscribes any more, so the client hung up.
          this.state.set(
            code === 1000 ? { kind: 'idle' } : { kind: 'reconnecting', attempt: 1, nextTryAt: Date.now() },
          );
        },
        ping: (received) => {
          if (received) return;
          clearTimeout(pongTimer);
          pongTimer = setTimeout(() => client.terminate(), pongWithinMs);
        },
        pong: (received) => {
          if (received) clearTimeout(pongTimer);
        },
      },
    });
    this.client = client;
  }
}
