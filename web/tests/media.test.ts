import { describe, expect, it } from 'vitest';
import { pictures, summary, words } from '../src/app/views/mediadata';

const dot = { mime: 'image/png', base64: 'iVBORw0KGgo=', width: 1, height: 1 };

describe('images', () => {
  it('are shown as data', () => {
    expect(pictures('IMAGE', { ...dot, caption: 'c' })).toEqual([
      { src: 'data:image/png;base64,iVBORw0KGgo=', caption: 'c', small: true },
    ]);
    expect(pictures('IMAGE_GRID', { images: [dot, dot] })).toHaveLength(2);
  });

  it('are nothing else', () => {
    for (const bad of [
      null,
      [],
      {},
      { ...dot, mime: 'image/svg+xml' },
      { ...dot, mime: 'text/html' },
      { ...dot, base64: '"><script>' },
      { ...dot, base64: '' },
      { ...dot, base64: 5 },
    ]) {
      expect(pictures('IMAGE', bad)).toBeNull();
      expect(pictures('IMAGE_GRID', { images: [dot, bad] })).toBeNull();
    }
    expect(pictures('TABLE', dot)).toBeNull();
    expect(pictures('IMAGE_GRID', { images: Array(65).fill(dot) })).toBeNull();
  });
});

describe('a summary', () => {
  it('says what is in the value', () => {
    expect(summary('HISTOGRAM', { edges: [0, 1.23456, 2], counts: [3, 4], nonfinite: 2 })).toBe(
      '7 values from 0 to 2 in 2 bins, and 2 not finite',
    );
    expect(summary('ROC', { curves: [{ label: 'a', fpr: [0, 1], tpr: [0, 1], auc: 0.5 }] })).toBe('a: area 0.5');
    expect(summary('PR', { curves: [{ label: 'a', recall: [0], precision: [1], ap: 0.98765 }] })).toBe(
      'a: average precision 0.9877',
    );
    expect(summary('PLOTLY', { data: [{}], layout: {} })).toBe('plotly figure with 1 trace');
  });

  it('is silent about what it does not know', () => {
    for (const kind of ['HISTOGRAM', 'ROC', 'PR', 'PLOTLY', 'TABLE']) {
      for (const data of [null, 5, [], {}, { edges: [1], counts: [1] }, { curves: 'x' }, { data: {} }]) {
        expect(summary(kind, data)).toBeNull();
      }
    }
  });
});

it('a text is its words', () => {
  expect(words('TEXT', { text: 'a', format: 'plain' })).toBe('a');
  expect(words('TEXT', { text: 5 })).toBeNull();
  expect(words('IMAGE', { text: 'a' })).toBeNull();
});
