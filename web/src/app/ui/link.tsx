import type { MouseEvent, ReactNode } from 'react';
import { navigate } from './route';

/** A link within the page; with a modifier key the browser follows it as usual. */
export function Link({ to, className, children }: { to: string; className?: string; children: ReactNode }) {
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a href={to} className={className} onClick={follow}>
      {children}
    </a>
  );
}
