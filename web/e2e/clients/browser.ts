// What a page would do to follow a session with each of these clients.
import { ApolloClient, gql, HttpLink, InMemoryCache } from '@apollo/client';
import { GraphQLWsLink } from '@apollo/client/link/subscriptions';
import { subscriptionExchange, Client as UrqlClient } from '@urql/core';
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient, type SubscribePayload, type Client as WsClient } from 'graphql-ws';
import { createClient as createWeirClient } from '../../client/src/index';
import { Arrived, again, following, query, type Result } from './cursor';

const api = `${location.origin}/graphql`;
const socket = () => createWsClient({ url: api.replace('http', 'ws'), shouldRetry: () => true, ...again });

/** A client that sends the cursor of the moment whenever it connects: Apollo copies variables, so it is done below it. */
function withCursor(client: WsClient, arrived: Arrived): WsClient {
  return {
    ...client,
    subscribe: (payload: SubscribePayload, sink: never) =>
      client.subscribe({ ...payload, variables: following(payload.variables?.sessionId, arrived) }, sink),
  };
}

const clients: Record<string, (sessionId: string, arrived: Arrived) => void> = {
  'graphql-ws'(sessionId, arrived) {
    socket().subscribe<Result['data']>(
      { query, variables: following(sessionId, arrived) },
      { next: ({ data }) => arrived.take(data?.events), error: failed, complete: () => failed('complete') },
    );
  },

  urql(sessionId, arrived) {
    const ws = withCursor(socket(), arrived);
    const client = new UrqlClient({
      url: api,
      preferGetMethod: false,
      exchanges: [
        subscriptionExchange({
          forwardSubscription: ({ query, variables }) => ({
            subscribe: (sink) => ({
              unsubscribe: ws.subscribe({ query: query ?? '', variables: variables as Record<string, unknown> }, sink),
            }),
          }),
        }),
      ],
    });
    client.subscription(query, { sessionId }).subscribe(({ data, error }) => {
      if (error) failed(error);
      arrived.take(data?.events);
    });
  },

  apollo(sessionId, arrived) {
    const client = new ApolloClient({
      link: new GraphQLWsLink(withCursor(socket(), arrived)),
      cache: new InMemoryCache(),
    });
    client
      .subscribe<NonNullable<Result['data']>>({ query: gql(query), variables: { sessionId }, fetchPolicy: 'no-cache' })
      .subscribe({ next: ({ data }) => arrived.take(data?.events), error: failed });
  },

  'graphql-sse'(sessionId, arrived) {
    const client = createSseClient({ url: api, retryAttempts: 10_000, retry: again.retryWait });
    // It gives up when a connection breaks while it works on a result: then it is asked again.
    const subscribe = () => {
      client.subscribe<Result['data']>(
        { query, variables: following(sessionId, arrived) },
        { next: ({ data }) => arrived.take(data?.events), error: () => setTimeout(subscribe, 150), complete: () => {} },
      );
    };
    subscribe();
  },

  EventSource(sessionId, arrived) {
    const url = new URL(api);
    url.searchParams.set('query', query);
    url.searchParams.set('variables', JSON.stringify({ sessionId, after: 0 }));
    const source = new EventSource(url); // sends the last id by itself
    source.addEventListener('next', ({ data }) => arrived.take((JSON.parse(data) as Result).data?.events));
  },

  weir(sessionId, arrived) {
    const following = createWeirClient({ url: location.origin }).follow(sessionId, {
      events: (events) => arrived.take(events),
    });
    following.done.catch(failed);
  },
};

const all: Record<string, Arrived> = {};

function failed(problem: unknown): void {
  document.title = `failed: ${problem instanceof Error ? problem.message : String(problem)}`;
}

/** Queries and mutations have to work beside. */
async function queries(): Promise<unknown[]> {
  const document = '{ server { version } }';
  const apollo = new ApolloClient({ link: new HttpLink({ uri: api }), cache: new InMemoryCache() });
  const sse = createSseClient({ url: api }).iterate<Record<string, unknown>>({ query: document });
  return [
    (await apollo.query({ query: gql(document) })).data,
    (await sse.next()).value?.data,
    await createWeirClient({ url: location.origin }).query(document),
  ];
}

Object.assign(globalThis, {
  watch(sessionId: string) {
    for (const [name, start] of Object.entries(clients)) {
      all[name] = new Arrived();
      start(sessionId, all[name]);
    }
  },
  arrived: () => Object.fromEntries(Object.entries(all).map(([name, { seqs }]) => [name, seqs])),
  queries,
});
