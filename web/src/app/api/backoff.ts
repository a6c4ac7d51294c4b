/** The wait before attempt n (0, 1, ...): 0.25 s doubling to 10 s, with up to 30 % of jitter. */
export function backoffMs(attempt: number, random: () => number = Math.random): number {
  const base = Math.min(250 * 2 ** Math.min(attempt, 10), 10_000);
  return Math.round(base * (0.7 + 0.3 * random()));
}

/** Waits ms, but no longer than until the browser comes online, the tab is shown, or the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.('online', done);
      globalThis.document?.removeEventListener('visibilitychange', shown);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const shown = () => {
      if (document.visibilityState === 'visible') done();
    };
    const timer = setTimeout(done, ms);
    globalThis.addEventListener?.('online', done);
    globalThis.document?.addEventListener('visibilitychange', shown);
    signal?.addEventListener('abort', done);
    if (signal?.aborted) done();
  });
}
