import { renderToStaticMarkup } from 'react-dom/server';
import { describe, expect, it } from 'vitest';
import { backoffMs } from '../src/app/api/backoff';
import { dollars, value } from '../src/app/ui/format';
import { visible } from '../src/app/ui/text';

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

describe('numbers', () => {
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
