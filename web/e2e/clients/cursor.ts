/** The seqs that one client was given, in the order of their arrival, doubles included. */
export class Arrived {
  readonly seqs: number[] = [];

  get last(): number {
    return this.seqs.at(-1) ?? 0;
  }

  take(events: readonly { seq: number | string }[] | undefined): void {
    for (const { seq } of events ?? []) this.seqs.push(Number(seq));
  }
}

export const query =
  'subscription Watch($sessionId: ID!, $after: Long) { events(sessionId: $sessionId, after: $after) { seq type } }';

/** Variables whose after is read anew each time that a client sends them. */
export function following(sessionId: unknown, arrived: Arrived): Record<string, unknown> {
  return {
    sessionId,
    get after() {
      return arrived.last;
    },
  };
}

export interface Result {
  data?: { events?: { seq: number | string }[] } | null;
  errors?: readonly unknown[];
}

export const again = {
  retryAttempts: 10_000,
  retryWait: () => new Promise<void>((resolve) => setTimeout(resolve, 150)),
};
