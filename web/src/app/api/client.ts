import { Client, cacheExchange, fetchExchange } from '@urql/core';
import { authorizedFetch } from '../../access/token';
import { Connection } from './connection';

const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';

/** The page's one WebSocket: event streams (session/stream.ts) and newest states (latest.ts). */
export const connection = new Connection(`${scheme}//${location.host}/graphql`);

/** Queries and mutations, over HTTP. */
export const client = new Client({
  url: '/graphql',
  preferGetMethod: false,
  fetch: authorizedFetch,
  exchanges: [cacheExchange, fetchExchange],
});
