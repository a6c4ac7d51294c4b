import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { backoffMs } from '../src/app/api/backoff';
import { cost, dollars, usageFacts, value } from '../src/app/ui/format';
import { lastLine, visible } from '../src/app/ui/text';
import type { UsageFieldsFragment } from '../src/gql/graphql';

const html = (text: string) => renderToStaticMarkup(<p>{visible(text)}</p>).replaceAll(/<[^>]*>/g, '');

describe('foreign text', () => {
  it('shows what would hide or turn text around', () => {
    expect(html('a\u202eb')).toBe('aU+202Eb');
    expect(html('x\u200by\u2066z\u0000')).toBe('xU+200ByU+2066zU+0000');
    expect(html('tag \u{e0041}')).toBe('tag U+E0041');
  });

  it('leaves ordinary text alone, in any script', () => {
    expect(html('Grüße\n\tдом 😀 שלום')).toBe('Grüße\n\tдом 😀 שלום');
    expect(html('<img onerror=x>')).toBe('&lt;img onerror=x&gt;');
  });

  it('stops at a flood of them', () => {
    expect(html('\u200b'.repeat(100_000)).length).toBeLessThan(150_000);
  });
});

describe('an error of several lines', () => {
  it('is told by its last line that says something', () => {
    expect(lastLine('Traceback:\n  File "x"\r\nValueError: x is 3\n \n')).toBe('ValueError: x is 3');
    expect([lastLine('one'), lastLine(''), lastLine('\n')]).toEqual(['one', '', '']);
  });
});

describe('numbers', () => {
  const usage = (fields: Partial<UsageFieldsFragment>) =>
    ({
      input: 0,
      cacheRead: 0,
      cacheWriteShort: 0,
      cacheWriteLong: 0,
      output: 0,
      reasoning: 0,
      computeSeconds: 0,
      costUsd: null,
      unpriced: 1,
      ...fields,
    }) as UsageFieldsFragment;

  it('say that a machine of one’s own costs nothing, and that another price is not known', () => {
    const own = usage({ computeSeconds: 3, costUsd: 0, unpriced: 0 });
    expect(usageFacts(own)).toEqual([
      { text: '3.0 s compute', title: 'your own machine costs nothing' },
      { text: '$0' },
    ]);
    expect(cost(usage({ computeSeconds: 3 }))).toBe('cost unknown');
    expect(cost(usage({ unpriced: 0 }))).toBe('');
    expect(usageFacts(usage({ computeSeconds: 3, output: 5 })).map((fact) => fact.text)).toEqual([
      '5 out',
      '3.0 s compute',
      'cost unknown',
    ]);
    expect(cost(usage({ computeSeconds: 3, costUsd: 0.5, unpriced: 2 }))).toBe('$0.50 + 2 unpriced');
  });

  it('never shows a small cost as nothing', () => {
    expect([0, 0.000012, 0.0345, 1.5].map(dollars)).toEqual(['$0', '$0.000012', '$0.035', '$1.50']);
    expect([0, 0.123456, 1234.56, 1e-7, 2.5e9].map(value)).toEqual(['0', '0.12346', '1234.6', '1.000e-7', '2.500e+9']);
    expect([3, 1000, -12345, 1234.04, 1e6].map(value)).toEqual(['3', '1000', '-12345', '1234', '1000000']);
  });

  it('backs off to ten seconds and no further', () => {
    expect([0, 1, 2, 20].map((n) => backoffMs(n, () => 1))).toEqual([250, 500, 1_000, 10_000]);
    expect(backoffMs(0, () => 0)).toBe(175);
  });
});
