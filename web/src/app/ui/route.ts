import { Signal } from '../api/signal';

export type Route = { page: 'home' } | { page: 'session'; id: string } | { page: 'unknown' };

export function parseRoute(url: URL): Route {
  const asked = url.searchParams.get('session');
  if (url.pathname === '/' || url.pathname === '/index.html') {
    return asked ? { page: 'session', id: asked } : { page: 'home' };
  }
  const match = /^\/s\/([^/]+)\/?$/.exec(url.pathname);
  if (match?.[1]) {
    try {
      return { page: 'session', id: decodeURIComponent(match[1]) };
    } catch {
      return { page: 'unknown' };
    }
  }
  return { page: 'unknown' };
}

export function sessionPath(id: string): string {
  return `/s/${encodeURIComponent(id)}`;
}

export const path = new Signal(location.href);

/** How often a link of this page was followed: 0 means that the browser opened what is shown. */
export const moves = new Signal(0);

export function navigate(to: string): void {
  history.pushState(null, '', to);
  moves.set(moves.get() + 1);
  path.set(location.href);
}

/** The text that the list of sessions is searched for. */
export function searchOf(url: string): string {
  return new URL(url).searchParams.get('q') ?? '';
}

/** Keeps the searched text in the address, so that a reload and the way back show the same list. */
export function keepSearch(text: string): void {
  const url = new URL(location.href);
  if (text === '') url.searchParams.delete('q');
  else url.searchParams.set('q', text);
  history.replaceState(null, '', url);
  path.set(location.href);
}

addEventListener('popstate', () => path.set(location.href));
