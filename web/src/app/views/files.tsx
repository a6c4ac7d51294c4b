import { type MouseEvent, type ReactNode, useEffect, useState } from 'react';
import { useQuery } from 'urql';
import { authorizedFetch, token } from '../../access/token';
import { SessionFilesDocument, type SessionFilesQuery } from '../../gql/graphql';
import { toLong } from '../api/long';
import type { SessionController } from '../session/controller';
import { bytes, count, plural } from '../ui/format';
import { useSignal } from '../ui/hooks';
import { Foreign } from '../ui/text';

type RunFiles = NonNullable<SessionFilesQuery['session']>['runs']['nodes'][number];
type Artifact = RunFiles['artifacts'][number];
type Execution = RunFiles['executions'][number];

const shown = 50;

/** What the session's newest runs left: files of the workspace, and the raw output of each execution. */
export function SessionFiles({ session }: { session: SessionController }) {
  const runs = useSignal(session.runs.all);
  const [result, again] = useQuery({
    query: SessionFilesDocument,
    variables: { id: session.id },
    requestPolicy: 'cache-and-network',
  });
  // Files are listed when a run ends, output is there from its first byte.
  const states = [...runs.values()].map((run) => `${run.id} ${run.status}`).join(' ');
  // biome-ignore lint/correctness/useExhaustiveDependencies: states says when to ask
  useEffect(() => again({ requestPolicy: 'network-only' }), [states, again]);
  const nodes = result.data?.session?.runs.nodes ?? [];
  const files = newestFiles(nodes);
  const executions = nodes.flatMap((run) => run.executions).filter((execution) => execution.outputs.length > 0);
  if (files.length + executions.length === 0) return null;
  return (
    <section className="session-files" aria-label="Files">
      <h2>Files</h2>
      {files.length > 0 && (
        <table className="artifacts">
          <thead className="unseen">
            <tr>
              <th scope="col">Path</th>
              <th scope="col">Kind</th>
              <th scope="col">Size</th>
            </tr>
          </thead>
          <tbody>
            {files.slice(0, shown).map((file) => (
              <tr key={file.path}>
                <th scope="row" className="mono">
                  <Foreign text={file.path} />
                </th>
                <td className="quiet">
                  <Foreign text={file.kind} />
                </td>
                <td className="quiet num">{bytes(toLong(file.size))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {files.length > shown && <p className="quiet">and {count(files.length - shown)} more</p>}
      {executions.slice(0, shown).map((execution) => (
        <RawOutput key={execution.id} execution={execution} />
      ))}
      {executions.length > shown && <p className="quiet">and {plural(executions.length - shown, 'more execution')}</p>}
    </section>
  );
}

/** Runs come newest first: a file that several runs wrote is the newest one's. */
function newestFiles(runs: readonly RunFiles[]): Artifact[] {
  const files = new Map<string, Artifact>();
  for (const run of runs) {
    for (const file of run.artifacts) if (!files.has(file.path)) files.set(file.path, file);
  }
  return [...files.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

function RawOutput({ execution }: { execution: Execution }) {
  const command = execution.command.join(' ').split('\n', 1)[0] ?? '';
  return (
    <p className="raw-output">
      <span className="mono quiet">
        <Foreign text={command} />
      </span>
      {execution.outputs.map(({ stream, bytes: size, url }) => (
        <Download key={stream} url={url} name={`${execution.id}.${stream.toLowerCase()}`}>
          raw {stream.toLowerCase()} <span className="quiet num">{bytes(toLong(size))}</span>
        </Download>
      ))}
    </p>
  );
}

/** A link that also works where the server asks for a token, which a plain link cannot send. */
function Download({ url, name, children }: { url: string; name: string; children: ReactNode }) {
  const [problem, setProblem] = useState('');
  const onClick = async (event: MouseEvent) => {
    if (token() === null) return;
    event.preventDefault();
    setProblem('');
    try {
      const answer = await authorizedFetch(url);
      if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
      const local = URL.createObjectURL(await answer.blob());
      const link = document.createElement('a');
      link.href = local;
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(local), 60_000);
    } catch (error) {
      setProblem(`could not be had (${error instanceof Error ? error.message : String(error)})`);
    }
  };
  return (
    <span className="download">
      <a href={url} download={name} onClick={(event) => void onClick(event)}>
        {children}
      </a>
      {problem && (
        <span className="bad-text" role="alert">
          {' '}
          {problem}
        </span>
      )}
    </span>
  );
}
