export { type Client, type ClientOptions, createClient } from './client.js';
export { ConnectionLost, isLasting, WeirError } from './errors.js';
export type { EventStream, FollowHandlers, Following, FollowOptions, FollowState, WeirEvent } from './follow.js';
export { type GraphQLWsClient, socketTransport } from './socket.js';
export type { GraphQLRequest, GraphQLResult, Transport } from './transport.js';
