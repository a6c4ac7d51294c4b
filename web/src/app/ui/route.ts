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

export function navigate(to: string): void {
  history.pushState(null, '', to);
  path.set(location.href);
}

addEventListener('popstate', () => path.set(location.href));
