import { useEffect, useState } from 'react';
import { connection } from '../api/client';
import type { SessionController } from '../session/controller';
import { isFinal } from '../session/runs';
import { count } from '../ui/format';
import { useNow, useSignal } from '../ui/hooks';

type Tone = 'good' | 'warn' | 'bad' | 'quiet';

function Pill({ tone, text }: { tone: Tone; text: string }) {
  return (
    <span className={`connection tone-${tone}`} role="status">
      <span className="dot" aria-hidden="true" />
      <span>{text}</span>
    </span>
  );
}

/** Whether what the page shows is what the server has. */
export function StreamState({ session }: { session: SessionController }) {
  const socket = useSignal(connection.state);
  const phase = useSignal(session.stream.phase);
  const end = useSignal(session.end);
  useSignal(session.store.version);
  useSignal(session.runs.all);
  const now = useNow(500, socket.kind === 'reconnecting');
  if (phase.kind === 'failed') return <Pill tone="bad" text="Not followed" />;
  if (socket.kind === 'reconnecting') {
    const wait = Math.max(0, Math.ceil((socket.nextTryAt - now) / 1000));
    return <Pill tone="warn" text={`Reconnecting, attempt ${socket.attempt}${wait > 0 ? ` in ${wait} s` : ''}`} />;
  }
  if (phase.kind === 'gap') return <Pill tone="warn" text={`Gap before ${count(phase.got)}, asking again`} />;
  if (phase.kind === 'waiting') return <Pill tone="warn" text="Reconnecting" />;
  if (phase.kind === 'loading' || socket.kind !== 'connected') return <Pill tone="quiet" text="Connecting" />;
  if (end.connection !== socket.times) return <Pill tone="quiet" text="Connected" />;
  const behind = end.lastSeq - session.store.lastSeq;
  if (behind > 0) return <Pill tone="quiet" text={`Catching up, ${count(behind)} behind`} />;
  const run = session.runs.current();
  return <Pill tone="good" text={run && !isFinal(run.status) ? 'Live' : 'Up to date'} />;
}

/** The same for pages that follow no session. */
export function SocketState() {
  const socket = useSignal(connection.state);
  switch (socket.kind) {
    case 'connected':
      return <Pill tone="good" text="Connected" />;
    case 'reconnecting':
      return <Pill tone="warn" text={`Reconnecting, attempt ${socket.attempt}`} />;
    case 'idle':
    case 'connecting':
      return <Pill tone="quiet" text="Connecting" />;
  }
}

/** Offers a reload when the server became another version, or a part of this page is gone. */
export function NewVersion({ version }: { version: string | null }) {
  const [first, setFirst] = useState<string | null>(null);
  const [missing, setMissing] = useState(false);
  useEffect(() => {
    const lost = () => setMissing(true);
    addEventListener('vite:preloadError', lost);
    return () => removeEventListener('vite:preloadError', lost);
  }, []);
  useEffect(() => {
    if (version !== null) setFirst((known) => known ?? version);
  }, [version]);
  if (!missing && (first === null || version === null || version === first)) return null;
  return (
    <div className="banner" role="alert">
      The server has a new version.
      <button type="button" onClick={() => location.reload()}>
        Reload
      </button>
    </div>
  );
}
