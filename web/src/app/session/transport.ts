import { CombinedError, stringifyDocument } from '@urql/core';
import { EventPageDocument, SessionEventsDocument, type SessionEventsSubscription } from '../../gql/graphql';
import { client, connection } from '../api/client';
import { codeOf, problemText } from '../api/errors';
import { toLong } from '../api/long';
import { type PageQuery, Refused, type Transport } from './stream';

const subscription = stringifyDocument(SessionEventsDocument);
const lasting = new Set(['NOT_FOUND', 'INVALID', 'FORBIDDEN', 'UNAUTHENTICATED', 'GRAPHQL_VALIDATION_FAILED']);

/** Reads a session's log over the page's one WebSocket and over HTTP. */
export function graphqlTransport(sessionId: string): Transport {
  return {
    async page(query: PageQuery) {
      const result = await client
        .query(EventPageDocument, { sessionId, ...query }, { requestPolicy: 'network-only' })
        .toPromise();
      if (result.error) throw failure(result.error);
      if (!result.data) throw new Error('The server sent no events.');
      const { nodes, lastSeq, hasMore } = result.data.events;
      return { nodes, lastSeq: toLong(lastSeq), hasMore };
    },

    follow(after, batch, ended) {
      // A getter: graphql-ws reads the payload anew whenever it connects, and so sends the cursor of that moment.
      const payload = {
        query: subscription,
        operationName: 'SessionEvents',
        get variables() {
          return { sessionId, after: after() };
        },
      };
      return connection.client.subscribe<SessionEventsSubscription>(payload, {
        next: (message) => {
          if (message.errors?.length) {
            ended(failure(new CombinedError({ graphQLErrors: [...message.errors] })));
          } else if (message.data) {
            batch(message.data.events);
          }
        },
        error: (error) => {
          ended(
            Array.isArray(error)
              ? failure(new CombinedError({ graphQLErrors: error }))
              : new Error('The connection was closed.'),
          );
        },
        complete: () => ended(null),
      });
    },
  };
}

function failure(error: CombinedError): Error {
  const text = problemText(error);
  return !error.networkError && lasting.has(codeOf(error.graphQLErrors)) ? new Refused(text) : new Error(text);
}
