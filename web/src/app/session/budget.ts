import { toLong } from '../api/long';
import { count, dollars } from '../ui/format';
import type { EventOf } from './event';

const whose = {
  RUN: 'of the run',
  SESSION: 'of the session',
  AGENT_DAY: 'of the agent for the day',
  DAY: 'of the server for the day',
};
const then = { WARN: 'it goes on', PAUSE: 'it waits for an answer', ABORT: 'it ends' };

/** Which budget is used up, how far, and what comes of it. */
export function budgetText(event: EventOf<'BudgetReached'>): string {
  const used: string[] = [];
  if (event.limitNanoUsd !== null) {
    used.push(`${dollars(toLong(event.usedNanoUsd) / 1e9)} of ${dollars(toLong(event.limitNanoUsd) / 1e9)}`);
  }
  if (event.limitTokens !== null) {
    used.push(`${count(toLong(event.usedTokens))} of ${count(toLong(event.limitTokens))} tokens`);
  }
  return `${whose[event.scope]} used up: ${used.join(', ')}; ${then[event.action]}`;
}
