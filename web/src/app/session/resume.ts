/** What the reader is told about a connection that was lost: where the page stands, and where it went on. */
export type Resume =
  | { kind: 'none' }
  | { kind: 'lost'; after: number }
  /** The server answered again; what was missed is being read. */
  | { kind: 'resuming'; after: number }
  | { kind: 'back'; after: number; upTo: number };

export interface Standing {
  socket: 'idle' | 'connecting' | 'connected' | 'reconnecting';
  /** The last seq that the page holds; 0 before the log is open. */
  lastSeq: number;
  /** The session's end as the server told it on this very connection; null before it did. */
  end: number | null;
}

/** The cursor is that of the moment of the loss, however often the connection comes and goes before the log is whole again. */
export function nextResume(now: Resume, { socket, lastSeq, end }: Standing): Resume {
  if (socket === 'reconnecting') {
    if (now.kind === 'lost') return now;
    if (now.kind === 'resuming') return { kind: 'lost', after: now.after };
    return lastSeq > 0 ? { kind: 'lost', after: lastSeq } : now;
  }
  if (socket !== 'connected' || now.kind === 'none' || now.kind === 'back') return now;
  if (end !== null && lastSeq >= end) return { kind: 'back', after: now.after, upTo: lastSeq };
  return now.kind === 'resuming' ? now : { kind: 'resuming', after: now.after };
}
