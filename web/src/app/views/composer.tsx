import { type FormEvent, type KeyboardEvent, useId, useRef, useState } from 'react';
import type { OnBusy } from '../../gql/graphql';
import type { SessionController } from '../session/controller';
import { isFinal } from '../session/runs';
import { useSignal } from '../ui/hooks';
import { visible } from '../ui/text';

/** A follow-up message, for sessions whose agent takes prompts. */
export function Composer({ session }: { session: SessionController }) {
  const runs = useSignal(session.runs.all);
  const [text, setText] = useState('');
  const [onBusy, setOnBusy] = useState<OnBusy>('QUEUE');
  const [problem, setProblem] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  // One key for one message: sent again after a lost answer, it starts no second run.
  const key = useRef('');
  const id = useId();
  const newest = session.runs.newestRoot();
  if (!newest || newest.driver === 'script') return null;
  const busy = [...runs.values()].some((run) => run.parent === null && !isFinal(run.status));
  const ready = !sending && text.trim() !== '';

  const send = async () => {
    if (!ready) return;
    key.current ||= newKey();
    setSending(true);
    setProblem(null);
    const failure = await session.send(text, onBusy, key.current);
    setSending(false);
    setProblem(failure);
    if (failure !== null) return;
    key.current = '';
    setText('');
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void send();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    void send();
  };

  return (
    <form className="composer" aria-label="Follow-up" onSubmit={submit}>
      <label htmlFor={id} className="unseen">
        Message to {newest.agent}
      </label>
      <textarea
        id={id}
        rows={Math.min(6, Math.max(1, text.split('\n').length))}
        placeholder={`Message to ${newest.agent}`}
        value={text}
        onChange={(event) => {
          key.current = '';
          setText(event.target.value);
        }}
        onKeyDown={onKeyDown}
      />
      {busy && (
        <select
          aria-label="While a run is open"
          value={onBusy}
          onChange={(event) => {
            key.current = '';
            setOnBusy(event.target.value as OnBusy);
          }}
        >
          <option value="QUEUE">After this run</option>
          <option value="REPLACE">Replace this run</option>
        </select>
      )}
      <button type="submit" className="primary" disabled={!ready}>
        {sending ? 'Sending …' : 'Send'}
      </button>
      {problem && (
        <p role="alert" className="bad-text">
          {visible(problem)}
        </p>
      )}
    </form>
  );
}

// Not crypto.randomUUID: it is missing on pages that came by plain HTTP from another machine.
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
