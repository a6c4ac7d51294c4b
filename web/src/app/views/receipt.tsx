import { useEffect, useRef } from 'react';
import type { ReceiptFieldsFragment } from '../../gql/graphql';
import { clock, seconds } from '../ui/format';

interface Props {
  receipt: ReceiptFieldsFragment;
  /** Whether this page asked for the abort: its reader wants to see the steps. */
  asked: boolean;
}

/** The proof of an abort, step by step; it says "stopped" only at the end. */
export function Receipt({ receipt, asked }: Props) {
  const summary = useRef<HTMLElement>(null);
  // The button that had the focus goes away.
  useEffect(() => {
    if (asked) summary.current?.focus({ preventScroll: true });
  }, [asked]);
  const over = receipt.outcome !== 'PENDING';
  const steps: { label: string; at: string | null; none: string }[] = [
    { label: 'Requested', at: receipt.requestedAt, none: 'not recorded' },
    { label: 'Signalled', at: receipt.signalledAt, none: 'no process to signal' },
    { label: 'Process gone', at: receipt.processGoneAt, none: 'no process' },
    { label: 'Sandbox gone', at: receipt.sandboxGoneAt, none: 'no sandbox' },
  ];
  const start = receipt.requestedAt ? Date.parse(receipt.requestedAt) : Number.NaN;
  return (
    <section className={`receipt receipt-${receipt.outcome.toLowerCase()}`} aria-label="Abort receipt">
      <details open={asked || !over}>
        <summary ref={summary}>
          <span role="status" className="receipt-outcome">
            {outcome(receipt)}
          </span>
        </summary>
        <ol>
          {steps.map(({ label, at, none }, i) => (
            <li key={label} className={at ? 'step-done' : over ? 'step-none' : 'step-open'}>
              <span className="step-label">{label}</span>
              <span className="quiet num" title={at ?? undefined}>
                {at
                  ? i > 0 && Number.isFinite(start)
                    ? `+${seconds(Math.max(0, Date.parse(at) - start) / 1000)}`
                    : clock(at)
                  : over
                    ? none
                    : 'waiting'}
              </span>
            </li>
          ))}
        </ol>
      </details>
    </section>
  );
}

function outcome(receipt: ReceiptFieldsFragment): string {
  switch (receipt.outcome) {
    case 'PENDING':
      return 'Stopping …';
    case 'STOPPED':
      return 'Stopped. Nothing is left running.';
    case 'ALREADY_ENDED':
      return 'The run had already ended.';
    case 'SURVIVORS':
      return `Not stopped: process ${receipt.survivors.join(', ')} was seen alive after the KILL.`;
  }
}
