import 'graphiql/setup-workers/vite';
import '@graphiql/react/style.css';
import '@graphiql/plugin-doc-explorer/style.css';
import '@graphiql/plugin-history/style.css';
import 'graphiql/graphiql.css';
import './playground.css';
import { createGraphiQLFetcher } from '@graphiql/toolkit';
import { GraphiQL } from 'graphiql';
import { createClient } from 'graphql-ws';
import { createRoot } from 'react-dom/client';

const start = `query Server {
  server { version store sandboxes { backend available reason } }
  sessions(first: 5) { nodes { id title state } }
}
`;

const root = document.getElementById('root');
if (root) {
  const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
  const wsClient = createClient({
    url: `${scheme}//${location.host}/graphql`,
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: () => true,
  });
  const fetcher = createGraphiQLFetcher({ url: '/graphql', wsClient });
  createRoot(root).render(
    <GraphiQL fetcher={fetcher} defaultQuery={start}>
      <GraphiQL.Logo>
        <a href="/">Weir</a>
      </GraphiQL.Logo>
    </GraphiQL>,
  );
}
