import { fromErrors, WeirError } from './errors.js';
import {
  attend,
  type EventStream,
  Follower,
  type FollowHandlers,
  type Following,
  type FollowOptions,
  iterate,
} from './follow.js';
import { refusal, sseTransport } from './sse.js';
import type { Transport } from './transport.js';

export interface ClientOptions {
  /** The server, for example http://127.0.0.1:8080, or the whole address of its /graphql. */
  url: string;
  /** The server's token, if it asks for one. A function is asked again for each request. */
  token?: string | (() => string | null | Promise<string | null>);
  /** Default: the global fetch. */
  fetch?: typeof fetch;
  /** How subscriptions travel. Default: an event stream each; see socketTransport. */
  transport?: Transport;
  /** A stream that is silent for so long is taken for dead. Default: 60,000 ms. */
  silenceMs?: number;
}

export interface Client {
  /** Runs a query or mutation. Errors that the server names are WeirErrors. */
  query<Data = Record<string, unknown>>(document: string, variables?: Record<string, unknown>): Promise<Data>;
  /** A session's events as an iteration; whoever is slow with it holds only itself back. */
  events<Fields = Record<string, unknown>>(sessionId: string, options?: FollowOptions): EventStream<Fields>;
  /** A session's events for callbacks. */
  follow<Fields = Record<string, unknown>>(
    sessionId: string,
    handlers: FollowHandlers<Fields>,
    options?: FollowOptions,
  ): Following;
}

export function createClient(options: ClientOptions): Client {
  const url = options.url.endsWith('/graphql') ? options.url : `${options.url.replace(/\/+$/, '')}/graphql`;
  const send = options.fetch ?? globalThis.fetch.bind(globalThis);
  const headers = async (): Promise<Record<string, string>> => {
    const token = typeof options.token === 'function' ? await options.token() : options.token;
    return token ? { authorization: `Bearer ${token}` } : {};
  };
  const transport =
    options.transport ?? sseTransport({ url, fetch: send, headers, silenceMs: options.silenceMs ?? 60_000 });
  return {
    async query<Data>(query: string, variables: Record<string, unknown> = {}) {
      const answer = await send(url, {
        method: 'POST',
        headers: { ...(await headers()), 'content-type': 'application/json', accept: 'application/json' },
        body: JSON.stringify({ query, variables }),
      });
      if (!answer.ok) throw await refusal(answer);
      const { data, errors } = (await answer.json()) as { data?: Data; errors?: { message: string }[] };
      if (errors?.length) throw fromErrors(errors);
      if (!data) throw new WeirError('The server sent no data.', 'INTERNAL');
      return data;
    },
    events: <Fields>(sessionId: string, following: FollowOptions = {}) =>
      iterate(new Follower<Fields>(transport, sessionId, following), following.signal),
    follow: <Fields>(sessionId: string, handlers: FollowHandlers<Fields>, following: FollowOptions = {}) =>
      attend(new Follower<Fields>(transport, sessionId, following), handlers, following.signal),
  };
}
