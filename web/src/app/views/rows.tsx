import { memo, type ReactNode, useState } from 'react';
import { toLong } from '../api/long';
import type { SessionController } from '../session/controller';
import type {
  AnyRow,
  EndRow,
  ExecutionRow,
  FilesRow,
  HoleRow,
  MessageRow,
  NoteRow,
  RunRow,
  ThoughtRow,
  ToolRow,
  UsageRow,
} from '../session/rows';
import { bytes, clock, computeOnly, count, plural, seconds, usageFacts } from '../ui/format';
import { useRow } from '../ui/hooks';
import { LongText, pretty } from '../ui/longtext';
import { StatusBadge } from '../ui/status';
import { Foreign, visible } from '../ui/text';
import { Media } from './media';
import { Output } from './output';
import { QuestionCard } from './question';

/** One row with its place in the log: the seq is a link to it. */
export const RowView = memo(function RowView({ row, session }: { row: AnyRow; session: SessionController }) {
  useRow(row);
  const depth = Math.min(
    session.runs.depth(row.runId, (id) => session.store.parentOf(id)),
    6,
  );
  return (
    <article className={`row row-${row.kind}`} data-seq={row.seq} data-depth={depth} id={`seq-${row.seq}`}>
      <a className="seq" href={`#seq-${row.seq}`} title={row.at}>
        <time dateTime={row.at}>{clock(row.at)}</time>
        <span>{row.seq}</span>
      </a>
      <div className="row-body">{body(row, session)}</div>
    </article>
  );
});

function body(row: AnyRow, session: SessionController): ReactNode {
  switch (row.kind) {
    case 'run':
      return <RunStart row={row} />;
    case 'end':
      return <RunEnd row={row} />;
    case 'message':
      return <Message row={row} />;
    case 'thought':
      return <Thought row={row} session={session} />;
    case 'tool':
      return <Tool row={row} session={session} />;
    case 'execution':
      return <Execution row={row} />;
    case 'usage':
      return <UsageLine row={row} />;
    case 'question':
      return <QuestionCard row={row} />;
    case 'files':
      return <Files row={row} />;
    case 'media':
      return <Media row={row} />;
    case 'note':
      return <Note row={row} />;
    case 'hole':
      return <Hole row={row} />;
  }
}

function RunStart({ row }: { row: RunRow }) {
  const start = row.started;
  return (
    <div className="run-start">
      <h2>
        {start?.parentId ? 'Child run' : 'Run'} <Foreign text={row.agent ?? ''} />
        {start && start.attempt > 1 && <span className="quiet"> attempt {start.attempt}</span>}
      </h2>
      <p className="quiet run-facts">
        {start && start.driver !== row.agent && <span>{start.driver}</span>}
        {start?.model && (
          <span>
            <Foreign text={start.model} />
          </span>
        )}
        {start?.stage && (
          <span>
            stage <Foreign text={start.stage} />
          </span>
        )}
      </p>
      {start?.prompt && <LongText text={start.prompt} className="prompt" />}
    </div>
  );
}

function RunEnd({ row }: { row: EndRow }) {
  return (
    <div className="run-end">
      {row.status && <StatusBadge status={row.status} reason={row.exitReason} />}
      <span className="quiet">
        <Foreign text={row.agent ?? 'run'} /> ended
      </span>
      {row.error && <LongText text={row.error} className="bad-text" />}
    </div>
  );
}

function Message({ row }: { row: MessageRow }) {
  return (
    <div className="message" aria-busy={!row.whole && !row.stopped}>
      {row.agent && (
        <p className="who">
          <Foreign text={row.agent} />
        </p>
      )}
      <LongText text={row.text} />
      {!row.whole && !row.stopped && <span className="caret" aria-hidden="true" />}
      {row.partial && <p className="quiet">This answer broke off, and the model was asked again.</p>}
    </div>
  );
}

/** Opened or closed by the reader, and remembered while the row is not mounted. */
function useOpen(session: SessionController, key: string, byDefault: boolean): [boolean, () => void] {
  const [, again] = useState(0);
  const open = session.store.opened.get(key) ?? byDefault;
  return [
    open,
    () => {
      session.store.opened.set(key, !open);
      again((n) => n + 1);
    },
  ];
}

function Thought({ row, session }: { row: ThoughtRow; session: SessionController }) {
  const [open, toggle] = useOpen(session, row.key, false);
  const first = row.text.trim().split('\n', 1)[0] ?? '';
  return (
    <div className="thought">
      <button type="button" className="fold" aria-expanded={open} onClick={toggle}>
        <span className="chevron" aria-hidden="true" />
        <span className="fold-label">Thought</span>
        {!open && <Foreign className="one-line quiet" text={first.slice(0, 200)} />}
      </button>
      {open && <LongText text={row.text} className="quiet" />}
    </div>
  );
}

function Tool({ row, session }: { row: ToolRow; session: SessionController }) {
  const end = row.finished;
  const [open, toggle] = useOpen(session, row.key, !end || end.isError);
  return (
    <section className={`card ${end?.isError ? 'card-bad' : ''}`}>
      <button type="button" className="card-head fold" aria-expanded={open} onClick={toggle}>
        <span className="chevron" aria-hidden="true" />
        <strong>
          <Foreign text={row.name || 'tool'} />
        </strong>
        <Foreign className="one-line mono quiet" text={titleOf(row.arguments)} />
        <span className="card-state">
          {end ? <Outcome bad={end.isError} text={end.isError ? 'failed' : 'ok'} /> : <Working stopped={row.stopped} />}
          {end && <span className="quiet num">{seconds(end.seconds)}</span>}
        </span>
      </button>
      {open && (
        <div className="card-body">
          {hasContent(row.arguments) && (
            <Labelled label="Arguments">
              <LongText mono text={pretty(row.arguments)} />
            </Labelled>
          )}
          {row.executions.map((execution) => (
            <NestedExecution key={execution.key} row={execution} />
          ))}
          {end && (
            <Labelled label="Result">
              {end.text ? <LongText mono text={end.text} /> : <p className="quiet">empty</p>}
            </Labelled>
          )}
        </div>
      )}
    </section>
  );
}

function NestedExecution({ row }: { row: ExecutionRow }) {
  useRow(row);
  return <Execution row={row} />;
}

function Execution({ row }: { row: ExecutionRow }) {
  const end = row.finished;
  const exit =
    end &&
    (end.exitClass === 'OK'
      ? 'exit 0'
      : [end.exitClass.toLowerCase().replace('_', ' '), end.signal, end.exitCode !== null && `exit ${end.exitCode}`]
          .filter(Boolean)
          .join(' · '));
  return (
    <section className={`card ${end?.isError ? 'card-bad' : ''}`}>
      <div className="card-head">
        <span className="prompt-sign" aria-hidden="true">
          $
        </span>
        <Foreign className="one-line mono" text={row.command ? row.command.map(quoted).join(' ') : 'execution'} />
        <span className="card-state">
          {row.isolation && <span className="chip chip-warn">{row.isolation}</span>}
          {row.backend && <span className="quiet">{row.backend}</span>}
          {end ? <Outcome bad={end.isError} text={exit ?? ''} /> : <Working stopped={row.stopped} />}
          {end && <span className="quiet num">{seconds(end.seconds)}</span>}
        </span>
      </div>
      {!row.started && <p className="cut-off quiet">Began before the events loaded here.</p>}
      <Output screen={row.screen} version={row.version} whole={row.started} />
      <Accounts row={row} />
    </section>
  );
}

/** What became of the output: points, and whatever was rejected or cut. Never a sum over a part of the events. */
function Accounts({ row }: { row: ExecutionRow }) {
  const { loss } = row;
  const rejected = loss ? toLong(loss.linesRejected) : 0;
  const truncated = loss ? toLong(loss.bytesTruncated) : 0;
  const parts: string[] = [];
  if (!row.started) {
    if (loss && toLong(loss.linesParsed) > 0) parts.push(plural(toLong(loss.linesParsed), 'metric line'));
  } else if (row.points > 0) {
    const names = [...row.pointNames];
    const more = names.length > 4 ? `, … ${names.length - 4} more` : '';
    parts.push(`${plural(row.points, 'metric point')} (${names.slice(0, 4).join(', ')}${more})`);
  }
  if (loss) parts.push(`${plural(toLong(loss.linesRead), 'line')}, ${bytes(toLong(loss.bytesRead))}`);
  if (parts.length === 0) return null;
  return (
    <div className="accounts">
      <p className="quiet">
        <Foreign text={parts.join(' · ')} />
      </p>
      {truncated > 0 && <p className="warn-text">{bytes(truncated)} of output were cut at the limit.</p>}
      {rejected > 0 && (
        <details>
          <summary className="warn-text">{plural(rejected, 'line')} looked like metrics but could not be read</summary>
          {loss?.rejectedSamples.map((sample, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: samples never change
            <pre key={i} className="mono">
              {visible(sample)}
            </pre>
          ))}
        </details>
      )}
    </div>
  );
}

function UsageLine({ row }: { row: UsageRow }) {
  if (!row.usage) return null;
  const { provenance } = row.usage;
  const plain = provenance === 'MEASURED' || (provenance === 'UNKNOWN' && computeOnly(row.usage));
  const who = row.model ?? row.backend ?? row.provider;
  return (
    <p className="line-row quiet num">
      <span className="label">usage</span>
      <span className="facts">
        {who && <Foreign text={who} />}
        {usageFacts(row.usage).map(({ text, title }) => (
          <span key={text} title={title}>
            {text}
          </span>
        ))}
        {!plain && <span>{provenance.toLowerCase()}</span>}
      </span>
    </p>
  );
}

function Files({ row }: { row: FilesRow }) {
  return (
    <div className="files">
      <p className="line-row">
        <span className="label">files</span>
        {plural(row.files.length, 'file')}
      </p>
      <ul>
        {row.files.slice(0, 50).map((file) => (
          <li key={file.path}>
            <Foreign className="mono" text={file.path} /> <span className="quiet num">{bytes(toLong(file.size))}</span>{' '}
            <span className="quiet">{file.kind}</span>
          </li>
        ))}
      </ul>
      {row.files.length > 50 && <p className="quiet">and {count(row.files.length - 50)} more</p>}
    </div>
  );
}

function Note({ row }: { row: NoteRow }) {
  return (
    <div className={`line-row tone-${row.tone}`}>
      <span className="label">
        <Foreign text={row.label} />
      </span>
      <LongText text={row.text} />
    </div>
  );
}

function Hole({ row }: { row: HoleRow }) {
  return (
    <p className="line-row tone-warn">
      <span className="label">gap</span>
      {row.retention
        ? `Events ${count(row.from)} to ${count(row.to)} are no longer kept.`
        : `Events ${count(row.from)} to ${count(row.to)} could not be had from the server.`}
    </p>
  );
}

function Labelled({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className="labelled">
      <p className="label">{label}</p>
      {children}
    </div>
  );
}

function Outcome({ bad, text }: { bad: boolean; text: string }) {
  return <span className={bad ? 'bad-text' : 'good-text'}>{text}</span>;
}

function Working({ stopped }: { stopped: boolean }) {
  if (stopped) return <span className="quiet">stopped</span>;
  return (
    <span className="working">
      <span className="dot" aria-hidden="true" />
      running
    </span>
  );
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The argument that says most in one line. */
function titleOf(args: unknown): string {
  if (typeof args !== 'object' || args === null) return '';
  const fields = args as Record<string, unknown>;
  for (const name of ['command', 'cmd', 'path', 'file_path', 'pattern', 'query', 'url', 'agent', 'prompt', 'code']) {
    const value = fields[name];
    if (typeof value === 'string') return value.split('\n', 1)[0]?.slice(0, 200) ?? '';
    if (Array.isArray(value)) return value.join(' ').slice(0, 200);
  }
  const first = Object.values(fields).find((value) => typeof value === 'string');
  return typeof first === 'string' ? (first.split('\n', 1)[0]?.slice(0, 200) ?? '') : '';
}

function hasContent(args: unknown): boolean {
  return args !== null && args !== undefined && !(typeof args === 'object' && Object.keys(args).length === 0);
}
