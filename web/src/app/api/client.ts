import { Client, cacheExchange, fetchExchange, subscriptionExchange } from '@urql/core';
import { Connection } from './connection';

const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';

export const connection = new Connection(`${scheme}//${location.host}/graphql`);

/** Queries, mutations and the subscriptions without a cursor. Event streams go past it (session/stream.ts). */
export const client = new Client({
  url: '/graphql',
  preferGetMethod: false,
  exchanges: [
    cacheExchange,
    fetchExchange,
    subscriptionExchange({
      forwardSubscription: (request) => ({
        subscribe: (sink) => ({
          unsubscribe: connection.client.subscribe({ ...request, query: request.query ?? '' }, sink),
        }),
      }),
    }),
  ],
});
