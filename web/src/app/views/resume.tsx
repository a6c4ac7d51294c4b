import { useEffect, useState } from 'react';
import { connection } from '../api/client';
import type { SessionController } from '../session/controller';
import { nextResume, type Resume } from '../session/resume';
import { count, plural } from '../ui/format';
import { useSignal } from '../ui/hooks';

/** How long the good end is to be read. */
const shownMs = 20_000;

/** One calm line about a lost connection: up to where the page stands, and from where it goes on. */
export function ResumeLine({ session }: { session: SessionController }) {
  const socket = useSignal(connection.state);
  const end = useSignal(session.end);
  useSignal(session.store.version);
  const [resume, setResume] = useState<Resume>({ kind: 'none' });
  const current = socket.kind === 'connected' && end.connection === socket.times;
  const next = nextResume(resume, {
    socket: socket.kind,
    lastSeq: session.store.lastSeq,
    end: current ? end.lastSeq : null,
  });
  if (next !== resume) setResume(next);
  useEffect(() => {
    if (resume.kind !== 'back') return;
    const timer = setTimeout(() => setResume({ kind: 'none' }), shownMs);
    return () => clearTimeout(timer);
  }, [resume]);
  return (
    <p className="resume" role="status">
      {resumeText(next)}
    </p>
  );
}

export function resumeText(resume: Resume): string {
  switch (resume.kind) {
    case 'none':
      return '';
    case 'lost':
      return `Connection lost. Shown up to event ${count(resume.after)}; it goes on from there by itself.`;
    case 'resuming':
      return `Connected again, going on after event ${count(resume.after)}.`;
    case 'back': {
      const came = resume.upTo - resume.after;
      return `Connection back. Resumed after event ${count(resume.after)}: ${came === 0 ? 'nothing happened meanwhile' : `${plural(came, 'event')} came meanwhile, none is missing`}.`;
    }
  }
}
