import type { EventFieldsFragment } from '../../gql/graphql';
import { toLong } from '../api/long';

/** An event as the API gives it; __typename tells the types apart. */
export type Event = EventFieldsFragment;

export type EventOf<T extends Event['__typename']> = Extract<Event, { __typename: T }>;

export function seqOf(event: Event): number {
  return toLong(event.seq);
}

/** The first seq that an event stands for: a GapEvent stands for many. */
export function firstSeqOf(event: Event): number {
  return event.__typename === 'GapEvent' ? toLong(event.fromSeq) : seqOf(event);
}
