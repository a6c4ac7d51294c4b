import type { UsageFieldsFragment } from '../../gql/graphql';
import { toLong } from '../api/long';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

export function count(n: number): string {
  return whole.format(n);
}

/** "1 line", "1,200 lines". */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  if (n < 1024 ** 2) return `${(n / 1024).toFixed(1)} KiB`;
  if (n < 1024 ** 3) return `${(n / 1024 ** 2).toFixed(1)} MiB`;
  return `${(n / 1024 ** 3).toFixed(1)} GiB`;
}

export function seconds(s: number): string {
  if (s < 10) return `${s.toFixed(s < 1 ? 2 : 1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${String(Math.floor(s % 60)).padStart(2, '0')} s`;
  const h = Math.floor(m / 60);
  return h < 48 ? `${h} h ${String(m % 60).padStart(2, '0')} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

export function ago(at: string, now: number): string {
  const s = Math.max(0, (now - Date.parse(at)) / 1000);
  if (s < 10) return 'just now';
  if (s < 60) return `${Math.floor(s)} s ago`;
  if (s < 3600) return `${Math.floor(s / 60)} min ago`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ago`;
  if (s < 30 * 86_400) return plural(Math.floor(s / 86_400), 'day').concat(' ago');
  return at.slice(0, 10);
}

/** Local time of day; the full instant belongs in a title. */
export function clock(at: string): string {
  return new Date(at).toLocaleTimeString('en-GB');
}

/** Dollars with as many places as it takes to see the first two digits. */
export function dollars(usd: number): string {
  if (usd === 0) return '$0';
  const places = usd >= 0.1 ? 2 : Math.min(9, 1 - Math.floor(Math.log10(Math.abs(usd))));
  return `$${usd.toFixed(Math.max(2, places))}`;
}

/** A metric value, short. */
export function value(v: number): string {
  if (v === 0) return '0';
  const size = Math.abs(v);
  if (Number.isInteger(v) && size < 1e7) return String(v);
  if (size >= 1e6 || size < 1e-4) return v.toExponential(3);
  if (size >= 1000) return String(Number(v.toFixed(1)));
  return String(Number(v.toPrecision(5)));
}

/** A part of a usage line; the title says more. */
export interface UsageFact {
  text: string;
  title?: string;
}

/** Whether the usage is that of a machine alone: no model was asked. */
export function computeOnly(usage: UsageFieldsFragment): boolean {
  const tokens = [usage.input, usage.cacheRead, usage.cacheWriteShort, usage.cacheWriteLong, usage.output];
  return usage.computeSeconds > 0 && tokens.every((n) => toLong(n) === 0);
}

/** One line about tokens, compute and money; unknown money is never shown as 0. */
export function usageFacts(usage: UsageFieldsFragment): UsageFact[] {
  const facts: UsageFact[] = [];
  const put = (n: number | string, what: string) => {
    if (toLong(n) > 0) facts.push({ text: `${count(toLong(n))} ${what}` });
  };
  put(usage.input, 'in');
  put(usage.cacheRead, 'cache read');
  put(toLong(usage.cacheWriteShort) + toLong(usage.cacheWriteLong), 'cache write');
  put(usage.output, 'out');
  put(usage.reasoning, 'of it reasoning');
  if (usage.computeSeconds > 0) {
    const text = `${seconds(usage.computeSeconds)} compute`;
    facts.push(
      computeOnly(usage) && usage.costUsd === 0 ? { text, title: 'your own machine costs nothing' } : { text },
    );
  }
  const money = cost(usage);
  if (money) facts.push({ text: money });
  return facts;
}

/** "" when there is nothing to say: nothing was used. */
export function cost(usage: UsageFieldsFragment): string {
  if (usage.costUsd === null) return usage.unpriced > 0 ? 'cost unknown' : '';
  return usage.unpriced > 0 ? `${dollars(usage.costUsd)} + ${usage.unpriced} unpriced` : dollars(usage.costUsd);
}
