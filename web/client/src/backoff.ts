/** The wait before attempt n (0, 1, ...): 0.25 s doubling to 10 s, with up to 30 % of jitter. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  return Math.round(Math.min(250 * 2 ** Math.min(attempt, 10), 10_000) * (0.7 + 0.3 * random()));
}

/** Waits, but no longer than until the signal aborts or the browser comes online. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.('online', done);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    globalThis.addEventListener?.('online', done);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
