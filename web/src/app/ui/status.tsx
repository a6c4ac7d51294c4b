import type { ExitReason, RunStatus } from '../../gql/graphql';

const words: Record<RunStatus, string> = {
  QUEUED: 'Queued',
  RUNNING: 'Running',
  WAITING: 'Waiting for you',
  DONE: 'Done',
  FAILED: 'Failed',
  TIMED_OUT: 'Timed out',
  CANCELLED: 'Cancelled',
};

const reasons: Record<ExitReason, string> = {
  COMPLETED: '',
  ERROR: '',
  CRASHED: 'crashed',
  LOST: 'server lost',
  TIMEOUT: '',
  ABORTED: 'aborted',
  REPLACED: 'replaced',
  BUDGET: 'over budget',
  SHUTDOWN: 'server stopped',
};

/** A run's status in words; colour only repeats them. */
export function StatusBadge({ status, reason }: { status: RunStatus; reason?: ExitReason | null }) {
  const why = reason ? reasons[reason] : '';
  return (
    <span className={`badge status-${status.toLowerCase()}`}>
      <span className="dot" aria-hidden="true" />
      {words[status]}
      {why && <span className="why"> · {why}</span>}
    </span>
  );
}
