import type { CombinedError } from '@urql/core';

/** What to tell the user about a failed request. */
export function problemText(error: CombinedError): string {
  if (error.networkError) return `The server did not answer (${error.networkError.message}).`;
  return error.graphQLErrors.map((e) => e.message).join(' ') || error.message;
}

/** The first extensions.code, or "". */
export function codeOf(errors: ReadonlyArray<{ extensions?: Record<string, unknown> }> | undefined): string {
  const code = errors?.[0]?.extensions?.code;
  return typeof code === 'string' ? code : '';
}
