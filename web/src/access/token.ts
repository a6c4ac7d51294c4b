import { Signal } from '../app/api/signal';

const key = 'weir.token';

/** What the server said about the token; asked 0 times: nothing yet, or it asks for none. */
export interface Access {
  kind: 'open' | 'asked';
  /** Why the form is shown, for its reader. */
  why: 'missing' | 'wrong';
  /** Grows with each token given: what failed without it starts anew. */
  times: number;
}

export const access = new Signal<Access>({ kind: 'open', why: 'missing', times: 0 });

let kept: string | null = null;

/** The token of this tab: kept until the tab is closed, and over its reloads. */
export function token(): string | null {
  try {
    return sessionStorage.getItem(key) ?? kept;
  } catch {
    return kept; // storage may be forbidden; the token then lasts as long as the page
  }
}

export function keepToken(next: string): void {
  kept = next;
  try {
    sessionStorage.setItem(key, next);
  } catch {
    // See token().
  }
  access.set({ kind: 'open', why: 'missing', times: access.get().times + 1 });
}

/** Says that the server refused what was sent with this token; refusals of an older one do not count. */
export function refused(sent: string | null): void {
  if (sent !== token()) return;
  const { kind, times } = access.get();
  if (kind === 'open') access.set({ kind: 'asked', why: sent === null ? 'missing' : 'wrong', times });
}

/** For connection_init: a browser cannot set headers on a WebSocket. */
export function socketParams(sent: string | null): Record<string, unknown> {
  return sent === null ? {} : { authorization: `Bearer ${sent}` };
}

/** The codes of a WebSocket's end that ask for a token, or for another one. */
export function closedForToken(code: number | undefined): boolean {
  return code === 4401 || code === 4403;
}

/** fetch with the token, unless the caller has put one in; notices when the server asks for one. */
export const authorizedFetch: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers);
  const own = headers.has('authorization');
  const sent = token();
  if (!own && sent !== null) headers.set('authorization', `Bearer ${sent}`);
  const answer = await fetch(input, { ...init, headers });
  if (answer.status === 401 && !own) refused(sent);
  return answer;
};

/** Asks the server whether it takes the token. Gives null when it does, else what to tell the user. */
export async function tryToken(candidate: string): Promise<string | null> {
  let answer: Response;
  try {
    answer = await fetch('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${candidate}` },
      body: JSON.stringify({ query: '{ __typename }' }),
    });
  } catch {
    // Nor can a header carry every character.
    return /^[\x21-\x7e]+$/.test(candidate)
      ? 'The server did not answer. Try again.'
      : 'This token has characters that no token of this server can have.';
  }
  if (answer.status === 401) return 'This is not the token that the server was started with.';
  return answer.ok ? null : `The server did not take it (HTTP ${answer.status}).`;
}
