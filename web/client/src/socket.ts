import { ConnectionLost, fromErrors } from './errors.js';
import type { GraphQLRequest, GraphQLResult, Transport } from './transport.js';

/** What is needed of a client of the npm package graphql-ws. */
export interface GraphQLWsClient {
  subscribe(
    payload: { query: string; variables?: Record<string, unknown> | null },
    sink: {
      next(value: unknown): void;
      error(error: unknown): void;
      complete(): void;
    },
  ): () => void;
}

/**
 * Subscribes over a client of graphql-ws: all subscriptions share its WebSocket.
 * When that client reconnects by itself it reads the cursor anew.
 */
export function socketTransport(client: GraphQLWsClient): Transport {
  return async function* (request: GraphQLRequest, signal: AbortSignal): AsyncGenerator<GraphQLResult> {
    const queue: GraphQLResult[] = [];
    let ended = false;
    let problem: Error | null = null;
    let wake = () => {};
    const end = (error: Error | null) => {
      ended = true;
      problem ??= error;
      wake();
    };
    const unsubscribe = client.subscribe(request, {
      next: (value) => {
        queue.push(value as GraphQLResult);
        wake();
      },
      error: (error) => end(Array.isArray(error) ? fromErrors(error) : new ConnectionLost('The connection was lost.')),
      complete: () => end(null),
    });
    const stop = () => end(new ConnectionLost('The subscription was stopped.'));
    signal.addEventListener('abort', stop);
    try {
      for (;;) {
        const next = queue.shift();
        if (next) {
          yield next;
          continue;
        }
        if (problem) throw problem;
        if (ended) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    } finally {
      signal.removeEventListener('abort', stop);
      unsubscribe();
    }
  };
}
