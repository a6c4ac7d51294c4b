import type { RunInfo } from '../session/runs';
import { isFinal } from '../session/runs';
import { seconds, usageFacts } from '../ui/format';
import { useNow } from '../ui/hooks';
import { StatusBadge } from '../ui/status';
import { Foreign } from '../ui/text';

/** Seconds from a run's start to its end, or to now. */
export function elapsed(run: RunInfo, now: number): number | null {
  if (!run.startedAt) return null;
  return Math.max(0, ((run.endedAt ? Date.parse(run.endedAt) : now) - Date.parse(run.startedAt)) / 1000);
}

/** A session's runs as a tree, newest root first. */
export function RunList({ runs }: { runs: ReadonlyMap<string, RunInfo> }) {
  const now = useNow(
    1_000,
    [...runs.values()].some((run) => !isFinal(run.status)),
  );
  const all = [...runs.values()];
  const newest = (a: RunInfo, b: RunInfo) => (a.createdAt < b.createdAt ? 1 : -1);
  const roots = all.filter((run) => !run.parent || !runs.has(run.parent.id)).sort(newest);
  const childrenOf = (id: string) => all.filter((run) => run.parent?.id === id).sort((a, b) => -newest(a, b));
  const item = (run: RunInfo, depth: number) => {
    const time = elapsed(run, now);
    const children = depth < 8 ? childrenOf(run.id) : [];
    return (
      <li key={run.id}>
        <div className="run-item">
          <strong>
            <Foreign text={run.agent} />
          </strong>
          <StatusBadge status={run.status} reason={run.exitReason} />
          {time !== null && <span className="quiet num">{seconds(time)}</span>}
          <span className="quiet num facts run-usage">
            {usageFacts(run.usageInclusive).map(({ text, title }) => (
              <span key={text} title={title}>
                {text}
              </span>
            ))}
          </span>
        </div>
        {children.length > 0 && <ul>{children.map((child) => item(child, depth + 1))}</ul>}
      </li>
    );
  };
  return (
    <section className="runs" aria-label="Runs">
      <h2>Runs</h2>
      <ul>{roots.map((run) => item(run, 0))}</ul>
    </section>
  );
}
