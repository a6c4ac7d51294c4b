export interface GraphQLRequest {
  query: string;
  operationName?: string;
  /** May be a getter: a transport reads it anew for each connection that it makes. */
  readonly variables: Record<string, unknown>;
}

export interface GraphQLResult {
  data?: Record<string, unknown> | null;
  errors?: readonly { message: string; extensions?: { code?: unknown } }[];
}

/**
 * Runs a subscription. The iteration ends when the server completed it and
 * throws when the connection is lost; leaving it, or the signal, unsubscribes.
 */
export type Transport = (request: GraphQLRequest, signal: AbortSignal) => AsyncIterable<GraphQLResult>;
