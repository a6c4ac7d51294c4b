import 'graphiql/setup-workers/vite';
import '@graphiql/react/style.css';
import '@graphiql/plugin-doc-explorer/style.css';
import '@graphiql/plugin-history/style.css';
import 'graphiql/graphiql.css';
import './playground.css';
import { createGraphiQLFetcher } from '@graphiql/toolkit';
import { GraphiQL } from 'graphiql';
import { createClient } from 'graphql-ws';
import { useSyncExternalStore } from 'react';
import { createRoot } from 'react-dom/client';
import { TokenForm } from '../access/form';
import { access, authorizedFetch, closedForToken, refused, socketParams, token } from '../access/token';

const start = `query Server {
  server { version store sandboxes { backend available reason } }
  sessions(first: 5) { nodes { id title state } }
}
`;

const scheme = location.protocol === 'https:' ? 'wss:' : 'ws:';
let sent: string | null = null;
const wsClient = createClient({
  url: `${scheme}//${location.host}/graphql`,
  retryAttempts: Number.POSITIVE_INFINITY,
  shouldRetry: () => true,
  connectionParams: () => {
    sent = token();
    return socketParams(sent);
  },
  on: {
    closed: (event) => {
      if (closedForToken((event as Partial<CloseEvent>).code)) refused(sent);
    },
  },
});
const fetcher = createGraphiQLFetcher({ url: '/graphql', fetch: authorizedFetch, wsClient });

/** GraphiQL, or the form while the server asks for a token; GraphiQL keeps its tabs meanwhile. */
function Playground() {
  const { kind, times } = useSyncExternalStore(access.subscribe, access.get);
  if (kind === 'asked') return <TokenForm />;
  return (
    <GraphiQL key={times} fetcher={fetcher} defaultQuery={start}>
      <GraphiQL.Logo>
        <a href="/">Weir</a>
      </GraphiQL.Logo>
    </GraphiQL>
  );
}

const root = document.getElementById('root');
if (root) createRoot(root).render(<Playground />);
