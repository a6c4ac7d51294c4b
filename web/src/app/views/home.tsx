import { useEffect } from 'react';
import { useQuery } from 'urql';
import {
  HomeDocument,
  type HomeQuery,
  type RootRunFragment,
  RootRunsDocument,
  type SessionLineFragment,
} from '../../gql/graphql';
import { connection } from '../api/client';
import { problemText } from '../api/errors';
import { followLatest } from '../api/latest';
import { isFinal } from '../session/runs';
import { ago, cost, plural, seconds } from '../ui/format';
import { useNow, useSignal, useTitle } from '../ui/hooks';
import { Link } from '../ui/link';
import { keepSearch, path, searchOf, sessionPath } from '../ui/route';
import { StatusBadge } from '../ui/status';
import { Foreign, visible } from '../ui/text';
import { Search } from './search';
import { StartForm } from './start';

const refreshMs = 500;

export function HomePage() {
  useTitle('Weir');
  const search = searchOf(useSignal(path)).trim();
  const [result, again] = useQuery({
    query: HomeDocument,
    variables: { search: search || null },
    requestPolicy: 'cache-and-network',
  });
  const socket = useSignal(connection.state);
  const now = useNow(5_000);
  const times = socket.kind === 'connected' ? socket.times : 0;

  // Runs have no cursor: ask anew when one changed, and after each connection.
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        again({ requestPolicy: 'network-only' });
      }, refreshMs);
    };
    const stop = followLatest(RootRunsDocument, {}, soon);
    return () => {
      clearTimeout(timer);
      stop();
    };
  }, [again]);
  useEffect(() => {
    if (times > 1) again({ requestPolicy: 'network-only' });
  }, [times, again]);

  const live = result.data?.live.nodes ?? [];
  const runs = runBySession(result.data);
  const ended = (result.data?.newest.nodes ?? []).filter((session) => !live.some((l) => l.id === session.id));
  const more = result.data?.newest.hasMore === true;
  return (
    <main className="home">
      <section className="sessions" aria-label="Sessions">
        <div className="sessions-head">
          <h1>Sessions</h1>
          <Search />
        </div>
        <p className="unseen" role="status">
          {search && result.data && !result.fetching && found(live.length + ended.length, more)}
        </p>
        {result.error && (
          <p className="bad-text" role="alert">
            {visible(problemText(result.error))}
          </p>
        )}
        {live.length > 0 && <h2>Live</h2>}
        {live.length > 0 && <List sessions={live} runs={runs} now={now} />}
        {ended.length > 0 && <h2>{live.length > 0 ? 'Earlier' : 'Newest'}</h2>}
        {ended.length > 0 && <List sessions={ended} runs={runs} now={now} />}
        {result.data && live.length + ended.length === 0 && search === '' && (
          <p className="quiet empty">No sessions yet. Start one here, or with the startRun mutation.</p>
        )}
        {result.data && !result.fetching && live.length + ended.length === 0 && search !== '' && (
          <div className="no-match">
            <p>
              No session has “
              <Foreign text={search} />” in its title, agent, prompt or id.
            </p>
            <button type="button" onClick={() => keepSearch('')}>
              Show all sessions
            </button>
          </div>
        )}
        {!result.data && result.fetching && <p className="quiet empty">Loading …</p>}
        {more && search === '' && <p className="quiet">Older sessions: search for them, or ask the API.</p>}
        {more && search !== '' && <p className="quiet">These are the newest that match; say more to see older ones.</p>}
      </section>
      <StartForm />
    </main>
  );
}

function found(n: number, more: boolean): string {
  if (n === 0) return 'No session matches.';
  return more
    ? `More than ${plural(n, 'session')} match.`
    : `${plural(n, 'session')} ${n === 1 ? 'matches' : 'match'}.`;
}

/** The run that stands for a session: the open root run that is furthest, else the newest. */
function runBySession(data: HomeQuery | undefined): Map<string, RootRunFragment> {
  const runs = new Map<string, RootRunFragment>();
  for (const run of data?.open.nodes ?? []) {
    const known = runs.get(run.session.id);
    if (!known || known.status === 'QUEUED') runs.set(run.session.id, run);
  }
  for (const run of data?.roots.nodes ?? []) if (!runs.has(run.session.id)) runs.set(run.session.id, run);
  return runs;
}

interface ListProps {
  sessions: readonly SessionLineFragment[];
  runs: ReadonlyMap<string, RootRunFragment>;
  now: number;
}

function List({ sessions, runs, now }: ListProps) {
  return (
    <ul className="session-list">
      {sessions.map((session) => (
        <li key={session.id}>
          <SessionLine session={session} run={runs.get(session.id)} now={now} />
        </li>
      ))}
    </ul>
  );
}

interface LineProps {
  session: SessionLineFragment;
  run: RootRunFragment | undefined;
  now: number;
}

function SessionLine({ session, run, now }: LineProps) {
  const from = run?.startedAt;
  const time = from ? ((run.endedAt ? Date.parse(run.endedAt) : now) - Date.parse(from)) / 1000 : null;
  return (
    <Link to={sessionPath(session.id)} className="session-line">
      <span className="session-name">
        <Foreign text={session.title || run?.agent || 'Session'} />
        <span className="quiet session-of">
          {run && run.agent !== session.title && <Foreign text={run.agent} />}
          <span className="mono session-id">{session.id}</span>
        </span>
      </span>
      <span className="session-status">
        {run ? (
          <StatusBadge status={run.status} reason={run.exitReason} />
        ) : (
          <span className="quiet mono">{session.state ?? 'empty'}</span>
        )}
      </span>
      <span className="quiet num session-numbers">
        {time !== null && <span>{seconds(Math.max(0, time))}</span>}
        {run && isFinal(run.status) && cost(run.usageInclusive) && <span>{cost(run.usageInclusive)}</span>}
        <time dateTime={session.createdAt} title={session.createdAt}>
          {ago(session.createdAt, now)}
        </time>
      </span>
    </Link>
  );
}
