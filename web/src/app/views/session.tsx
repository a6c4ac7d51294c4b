import { type ReactNode, useEffect, useRef, useState } from 'react';
import { SessionController } from '../session/controller';
import type { AnyRow } from '../session/rows';
import { isFinal, type RunInfo } from '../session/runs';
import { FollowList } from '../ui/followlist';
import { count, plural, seconds, usageFacts } from '../ui/format';
import { useNow, useSignal, useTitle } from '../ui/hooks';
import { Link } from '../ui/link';
import { moves } from '../ui/route';
import { StatusBadge } from '../ui/status';
import { Foreign, lastLine, visible } from '../ui/text';
import { ChartPane } from './charts';
import { Composer } from './composer';
import { StreamState } from './connection';
import { SessionFiles } from './files';
import { Receipt } from './receipt';
import { ResumeLine } from './resume';
import { RowView } from './rows';
import { elapsed, RunList } from './runs';

/** Opens a session for as long as the page shows it. */
export function SessionPage({
  id,
  frame,
}: {
  id: string;
  frame: (state: ReactNode, crumb: ReactNode, page: ReactNode) => ReactNode;
}) {
  const [session, setSession] = useState<SessionController | null>(null);
  useEffect(() => {
    const opened = new SessionController(id);
    setSession(opened);
    return () => opened.close();
  }, [id]);
  if (!session || session.id !== id) return frame(null, null, null);
  return frame(<StreamState session={session} />, <Foreign text={id} />, <Loaded session={session} />);
}

function Loaded({ session }: { session: SessionController }) {
  const phase = useSignal(session.stream.phase);
  const head = useSignal(session.head);
  const runs = useSignal(session.runs.all);
  const [tab, setTab] = useState<'timeline' | 'curves'>('timeline');
  const run = session.runs.current();
  const name = head?.title || run?.agent || 'Session';
  useTitle(`${name}${run && !isFinal(run.status) ? ` · ${run.status.toLowerCase()}` : ''} · Weir`);
  if (phase.kind === 'failed') {
    return (
      <main className="page-note">
        <h1>This session cannot be shown</h1>
        <p>{visible(phase.problem)}</p>
        <Link to="/">All sessions</Link>
      </main>
    );
  }
  return (
    <main className="session">
      <Header session={session} name={name} run={run} />
      <nav className="tabs" aria-label="View">
        <button type="button" aria-pressed={tab === 'timeline'} onClick={() => setTab('timeline')}>
          Timeline
        </button>
        <button type="button" aria-pressed={tab === 'curves'} onClick={() => setTab('curves')}>
          Curves
        </button>
      </nav>
      <div className={`columns show-${tab}`}>
        <TimelinePane session={session} />
        <aside className="side" aria-label="Runs, curves and files">
          <RunList runs={runs} />
          <ChartPane session={session} />
          <SessionFiles session={session} />
        </aside>
      </div>
    </main>
  );
}

function Header({ session, name, run }: { session: SessionController; name: string; run: RunInfo | null }) {
  const state = useSignal(session.state);
  const shownReceipt = useSignal(session.receipt);
  const problem = useSignal(session.problem);
  useSignal(session.store.version);
  // Who came by keyboard goes on from here, and not from the beginning of the page.
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (moves.get() > 0 && document.activeElement === document.body) title.current?.focus({ preventScroll: true });
  }, []);
  const open = run !== null && !isFinal(run.status);
  const now = useNow(1_000, open);
  const time = run && elapsed(run, now);
  const receipt = shownReceipt && shownReceipt.runId === run?.id ? shownReceipt : (run?.abort ?? null);
  const facts = run ? usageFacts(run.usageInclusive) : [];
  const questions = session.store.openQuestions;
  return (
    <header className="session-head">
      <div className="session-title">
        <h1 ref={title} tabIndex={-1}>
          <Foreign text={name} />
        </h1>
        {run && <StatusBadge status={run.status} reason={run.exitReason} />}
        {state && (
          <span className="state mono quiet" title="Session state">
            <Foreign text={state} />
          </span>
        )}
        {run && open && (
          <button
            type="button"
            className="danger"
            disabled={receipt !== null}
            onClick={() => void session.abort(run.id)}
          >
            {receipt ? 'Stopping …' : 'Abort'}
          </button>
        )}
      </div>
      {run && (
        <p className="session-facts quiet num">
          <span>
            <Foreign text={run.agent} />
          </span>
          {run.driver !== run.agent && <span>{run.driver}</span>}
          {run.model && (
            <span>
              <Foreign text={run.model} />
            </span>
          )}
          {time !== null && <span>{seconds(time)}</span>}
          {facts.map(({ text, title }) => (
            <span key={text} title={title}>
              {text}
            </span>
          ))}
        </p>
      )}
      {questions > 0 && <p className="ask-note">{plural(questions, 'question')} waiting for your answer below</p>}
      {run?.error && <p className="bad-text head-error">{visible(lastLine(run.error))}</p>}
      {problem && (
        <p className="bad-text" role="alert">
          {visible(problem)}
        </p>
      )}
      {receipt && <Receipt receipt={receipt} asked={receipt === shownReceipt} />}
    </header>
  );
}

function TimelinePane({ session }: { session: SessionController }) {
  const { store, stream } = session;
  const version = useSignal(store.version);
  const older = useSignal(stream.loadingOlder);
  const phase = useSignal(stream.phase);
  // Depths of rows come from the runs.
  useSignal(session.runs.all);
  return (
    <section className="timeline" aria-label="Timeline">
      {store.firstSeq > 1 && (
        <div className="older">
          <button type="button" disabled={older} onClick={() => void stream.older()}>
            {older ? 'Loading …' : `Load older events (${count(store.firstSeq - 1)} before these)`}
          </button>
        </div>
      )}
      {store.rows.length === 0 ? (
        <p className="quiet empty">
          {phase.kind === 'loading'
            ? 'Loading …'
            : phase.kind === 'waiting'
              ? visible(phase.problem)
              : 'No events yet.'}
        </p>
      ) : (
        <FollowList
          items={store.rows}
          version={version}
          prepends={store.prepends}
          role="feed"
          label="Events"
          className="timeline-list"
          onTop={() => void stream.older()}
          startAt={linkedRow(store.rows)}
          render={(row) => <RowView key={row.key} row={row} session={session} />}
        />
      )}
      <div className="log-foot quiet num">
        <p className="log-extent">
          {store.lastSeq === 0 ? 'No events' : `Events ${count(store.firstSeq)}–${count(store.lastSeq)}`}
        </p>
        <ResumeLine session={session} />
      </div>
      <Composer session={session} />
    </section>
  );
}

/** The row that the address names (#seq-123), if it is loaded. */
function linkedRow(rows: readonly AnyRow[]): number | undefined {
  const seq = Number(/^#seq-(\d+)$/.exec(location.hash)?.[1]);
  const index = rows.findIndex((row) => row.seq <= seq && seq <= row.lastSeq);
  return index < 0 ? undefined : index;
}
