import { stringifyDocument, type TypedDocumentNode } from '@urql/core';
import { backoffMs, pause } from './backoff';
import { connection } from './client';

/**
 * Follows a subscription that tells the newest state only (runs): it has no cursor,
 * so whoever needs the states in between asks anew after each connection. Subscribes
 * again whenever it ends. Gives its end.
 */
export function followLatest<Data, Variables extends Record<string, unknown>>(
  document: TypedDocumentNode<Data, Variables>,
  variables: Variables,
  take: (data: Data) => void,
): () => void {
  const over = new AbortController();
  const query = stringifyDocument(document);
  const once = () =>
    new Promise<boolean>((resolve) => {
      let got = false;
      const ended = () => {
        over.signal.removeEventListener('abort', stop);
        resolve(got);
      };
      const unsubscribe = connection.client.subscribe<Data>(
        { query, variables },
        {
          next: ({ data }) => {
            if (!data) return;
            got = true;
            take(data);
          },
          error: ended,
          complete: ended,
        },
      );
      const stop = () => unsubscribe();
      over.signal.addEventListener('abort', stop, { once: true });
    });
  const run = async () => {
    for (let attempt = 0; !over.signal.aborted; attempt++) {
      if (await once()) attempt = 0;
      if (!over.signal.aborted) await pause(backoffMs(attempt), over.signal);
    }
  };
  void run();
  return () => over.abort();
}
