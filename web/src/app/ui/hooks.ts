import { useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import type { Signal } from '../api/signal';
import type { AnyRow } from '../session/rows';

export function useSignal<T>(signal: Signal<T>): T {
  return useSyncExternalStore(signal.subscribe, signal.get);
}

/** Renders the component anew when the row changes. */
export function useRow(row: AnyRow): void {
  const subscribe = useCallback((listener: () => void) => row.subscribe(listener), [row]);
  useSyncExternalStore(subscribe, () => row.version);
}

/** The time, again every ms while it ticks. */
export function useNow(ms: number, ticking = true): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => setNow(Date.now()), ms);
    return () => clearInterval(timer);
  }, [ms, ticking]);
  return now;
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title;
  }, [title]);
}
