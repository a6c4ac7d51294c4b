import { type ReactNode, useEffect } from 'react';
import { useQuery } from 'urql';
import { TokenForm } from '../../access/form';
import { access } from '../../access/token';
import { SetupDocument } from '../../gql/graphql';
import icon from '../../icon.svg';
import { connection } from '../api/client';
import { useSignal } from '../ui/hooks';
import { Link } from '../ui/link';
import { parseRoute, path } from '../ui/route';
import { setTheme, type Theme, theme } from '../ui/theme';
import { NewVersion, SocketState } from './connection';
import { HomePage } from './home';
import { SessionPage } from './session';

export function App() {
  const route = parseRoute(new URL(useSignal(path)));
  const { kind, times } = useSignal(access);
  if (kind === 'asked') {
    return (
      <Frame
        page={
          <main>
            <TokenForm />
          </main>
        }
      />
    );
  }
  switch (route.page) {
    case 'home':
      return <Frame key={times} state={<SocketState />} page={<HomePage />} />;
    case 'session':
      return (
        <SessionPage
          key={`${times} ${route.id}`}
          id={route.id}
          frame={(state, crumb, page) => <Frame state={state} crumb={crumb} page={page} />}
        />
      );
    case 'unknown':
      return (
        <Frame
          page={
            <main className="page-note">
              <h1>There is no such page</h1>
              <Link to="/">All sessions</Link>
            </main>
          }
        />
      );
  }
}

function Frame({ state, crumb, page }: { state?: ReactNode; crumb?: ReactNode; page: ReactNode }) {
  const chosen = useSignal(theme);
  const socket = useSignal(connection.state);
  return (
    <div className="frame">
      <nav className="top" aria-label="Weir">
        <Link to="/" className="brand">
          <img src={icon} alt="" width="22" height="22" />
          Weir
        </Link>
        {crumb && (
          <span className="crumb mono quiet">
            <span aria-hidden="true">/ </span>
            {crumb}
          </span>
        )}
        <span className="top-right">
          {state}
          <a href="/playground" className="top-link">
            Playground
          </a>
          <select aria-label="Theme" value={chosen} onChange={(event) => setTheme(event.target.value as Theme)}>
            <option value="system">System</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </span>
      </nav>
      <VersionWatch connections={socket.kind === 'connected' ? socket.times : 0} />
      {page}
    </div>
  );
}

/** Asks for the server's version after each new connection. */
function VersionWatch({ connections }: { connections: number }) {
  const [result, again] = useQuery({ query: SetupDocument });
  useEffect(() => {
    if (connections > 1) again({ requestPolicy: 'network-only' });
  }, [connections, again]);
  return <NewVersion version={result.data?.server.version ?? null} />;
}
