import type { Event, EventOf } from '../src/app/session/event';

type Fields<T extends Event['__typename']> = Partial<Omit<EventOf<T>, '__typename' | 'seq'>>;

/** An event with what every event has; the rest is up to the test. */
export function event<T extends Event['__typename']>(type: T, seq: number | string, fields: Fields<T>): Event {
  return {
    __typename: type,
    seq,
    at: '2026-01-01T00:00:00.000000Z',
    runId: 'run_1',
    agent: 'tester',
    stage: 'train',
    ...fields,
  } as unknown as Event;
}

export function deltas(from: number, to: number): Event[] {
  const list: Event[] = [];
  for (let seq = from; seq <= to; seq++) list.push(event('MessageDelta', seq, { messageId: 'm', text: `<${seq}>` }));
  return list;
}

export function point(seq: number, step: number, value: number | null, special: 'NAN' | null = null): Event {
  return event('MetricsLogged', seq, {
    executionId: 'exe_1',
    points: [{ step, name: 'loss', value, special, runTag: null, stage: 'train', at: '2026-01-01T00:00:00.000000Z' }],
  });
}
