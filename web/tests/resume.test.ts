import { describe, expect, it } from 'vitest';
import { nextResume, type Resume, type Standing } from '../src/app/session/resume';

const walk = (...steps: Standing[]): Resume[] => {
  const all: Resume[] = [];
  let now: Resume = { kind: 'none' };
  for (const step of steps) {
    now = nextResume(now, step);
    all.push(now);
  }
  return all;
};
const at = (socket: Standing['socket'], lastSeq: number, end: number | null = null): Standing => ({
  socket,
  lastSeq,
  end,
});

describe('what is said about a lost connection', () => {
  it('says nothing before there was one to lose', () => {
    expect(
      walk(at('idle', 0), at('connecting', 0), at('reconnecting', 0), at('connected', 0, 0), at('connected', 9, 9)),
    ).toEqual(Array(5).fill({ kind: 'none' }));
  });

  it('is back only when everything up to the end is there', () => {
    expect(
      walk(
        at('reconnecting', 7),
        at('reconnecting', 7),
        at('connected', 7),
        at('connected', 9),
        at('connected', 9, 12),
        at('connected', 12, 12),
        at('connected', 15, 12),
      ),
    ).toEqual([
      { kind: 'lost', after: 7 },
      { kind: 'lost', after: 7 },
      { kind: 'resuming', after: 7 },
      { kind: 'resuming', after: 7 },
      { kind: 'resuming', after: 7 },
      { kind: 'back', after: 7, upTo: 12 },
      { kind: 'back', after: 7, upTo: 12 },
    ]);
  });

  it('counts from the first cut when the connection goes again in the middle, and anew after that', () => {
    expect(
      walk(
        at('reconnecting', 7),
        at('connected', 9, 12),
        at('reconnecting', 9),
        at('connected', 12, 12),
        at('reconnecting', 12),
      ),
    ).toEqual([
      { kind: 'lost', after: 7 },
      { kind: 'resuming', after: 7 },
      { kind: 'lost', after: 7 },
      { kind: 'back', after: 7, upTo: 12 },
      { kind: 'lost', after: 12 },
    ]);
  });
});
