/** An error that the server named: `code` is its extensions.code. */
export class WeirError extends Error {
  override readonly name = 'WeirError';

  constructor(
    message: string,
    readonly code: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The connection broke, or never came about. Asking again may help. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
}

const lasting = new Set([
  'NOT_FOUND',
  'INVALID',
  'FORBIDDEN',
  'UNAUTHENTICATED',
  'GRAPHQL_PARSE_FAILED',
  'GRAPHQL_VALIDATION_FAILED',
]);

/** Tells whether the same request would be refused again. */
export function isLasting(error: unknown): boolean {
  return error instanceof WeirError && lasting.has(error.code);
}

interface ErrorLike {
  message?: unknown;
  extensions?: { code?: unknown } | undefined;
}

/** The error that a list of GraphQL errors stands for. */
export function fromErrors(errors: readonly ErrorLike[]): WeirError {
  const message = errors.map((e) => String(e.message ?? 'unknown error')).join(' ');
  const code = errors[0]?.extensions?.code;
  return new WeirError(message, typeof code === 'string' ? code : 'INTERNAL');
}
