import { describe, expect, it } from 'vitest';
import { maxColumns } from '../src/app/terminal/line';
import { PlainLines } from '../src/app/terminal/plainlines';
import { maxLines, Screen } from '../src/app/terminal/screen';

function lines(...chunks: string[]): string[] {
  const screen = new Screen();
  for (const chunk of chunks) screen.write('STDOUT', chunk);
  return screen.lines.map((line) => line.text);
}

/** The same output whole, and cut between any two characters. */
function both(text: string, want: string[]) {
  expect(lines(text)).toEqual(want);
  expect(lines(...text.split(''))).toEqual(want);
}

describe('lines', () => {
  it('end at line feeds, and a last one may stay open', () => {
    both('a\nb', ['a', 'b']);
    both('a\nb\n', ['a', 'b']);
    both('\n\na\n', ['', '', 'a']);
    both('a\r\nb\r\n', ['a', 'b']);
  });

  it('are overwritten after a carriage return', () => {
    both(' 10 %\r 50 %\r100 %\ndone', ['100 %', 'done']);
    both('abcdef\rXY', ['XYcdef']);
    both('abc\b\bX', ['aXc']);
    both('progress\r\x1b[Kend', ['end']);
    both('abcdef\x1b[3D\x1b[K', ['abc']);
    both('abcdef\r\x1b[2C\x1b[1K', ['   def']);
  });

  it('can be reached again from below, as progress bars do', () => {
    both('one\ntwo\n\x1b[2A\x1b[2KONE\n\x1b[2KTWO\nthree', ['ONE', 'TWO', 'three']);
  });

  it('keep the two streams apart and in the order in which they began', () => {
    const screen = new Screen();
    screen.write('STDOUT', 'out ');
    screen.write('STDERR', 'err\n');
    screen.write('STDOUT', 'more\n');
    expect(screen.lines.map((l) => [l.text, l.stderr])).toEqual([
      ['out more', false],
      ['err', true],
    ]);
  });

  it('are bounded in length and number, and say what is missing', () => {
    const screen = new Screen();
    screen.write('STDOUT', `${'x'.repeat(maxColumns)}yy`);
    expect(screen.lines[0]).toMatchObject({ length: maxColumns, cut: 2 });
    screen.write('STDOUT', '\n'.repeat(maxLines + 1));
    expect(screen.lines.length).toBeLessThanOrEqual(maxLines);
    expect(screen.dropped + screen.lines.length).toBe(maxLines + 1);
    expect(screen.lines[0]?.number).toBe(screen.dropped + 1);
  });
});

describe('control sequences', () => {
  it('are swallowed, whole or cut', () => {
    both('a\x1b]0;title\x07b', ['ab']);
    both('a\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\b', ['alinkb']);
    both('a\x1b]52;c;ZXZpbA==\x07b', ['ab']);
    both('a\x1bPdcs\x1b\\b\x1b_apc\x1b\\c\x1b^pm\x1b\\d', ['abcd']);
    both('a\x1b[2J\x1b[H\x1b[?25lb', ['ab']);
    both('a\x1b(Bb\x1b=c', ['abc']);
    both('a\x9b31mb', ['ab']);
  });

  it('hide one line at most when they are not ended', () => {
    both('a\x1b]0;never ended\nnext\n', ['a', 'next']);
    both('a\x1b[12\nnext', ['a', 'next']);
  });

  it('leave other control characters visible', () => {
    both('a\0b\x7fc\x07', ['a\u2400b\u2421c']);
    both('a\tb', ['a       b']);
  });

  it('never split a character in two', () => {
    both('😀x\rab', ['abx']);
    both('😀x\ra', ['a x']);
  });
});

describe('colours', () => {
  const styles = (text: string) => {
    const screen = new Screen();
    for (const c of text) screen.write('STDOUT', c);
    return screen.lines[0]?.spans.map((s) => [s.text, s.style]);
  };

  it('follow SGR', () => {
    expect(styles('\x1b[1;31mred\x1b[0m plain')).toEqual([
      ['red', { bold: true, fg: 1 }],
      [' plain', {}],
    ]);
    expect(styles('\x1b[93;44mx')).toEqual([['x', { fg: 11, bg: 4 }]]);
    expect(styles('\x1b[38;5;196mx')).toEqual([['x', { fg: 'rgb(255, 0, 0)' }]]);
    expect(styles('\x1b[38;5;3mx')).toEqual([['x', { fg: 3 }]]);
    expect(styles('\x1b[48;2;1;2;300mx')).toEqual([['x', { bg: 'rgb(1, 2, 255)' }]]);
    expect(styles('\x1b[31m\x1b[mx')).toEqual([['x', {}]]);
    expect(styles('\x1b[3;4;9mx\x1b[23;24;29my')).toMatchObject([
      ['x', { italic: true, underline: true, strike: true }],
      ['y', {}],
    ]);
  });

  it('last over lines and are not disturbed by nonsense', () => {
    const screen = new Screen();
    screen.write('STDOUT', '\x1b[32ma\nb\x1b[999;38mc');
    expect(screen.lines[1]?.spans[0]).toEqual({ text: 'b', style: { fg: 2 } });
    expect(screen.lines[1]?.text).toBe('bc');
  });
});

describe('metric lines', () => {
  it('are told from plain ones, also while a line is being written', () => {
    const screen = new Screen();
    const view = new PlainLines();
    for (let i = 0; i < 300; i++) screen.write('STDOUT', `{"step": ${i}, "metrics": {"loss": 1}}\nplain ${i}\n`);
    screen.write('STDERR', '{"step": 1, "metrics": {}}\n');
    screen.write('STDOUT', '{"step": 9');
    expect(view.of(screen)).toMatchObject({ metric: 300 });
    screen.write('STDOUT', ', "metric": "loss", "value": 1}');
    const { plain, metric } = view.of(screen);
    expect(metric).toBe(301);
    expect(plain.length).toBe(301);
    expect(plain.at(-1)?.stderr).toBe(true);
    expect(plain.slice(0, 300).map((line) => line.text)).toEqual(Array.from({ length: 300 }, (_, i) => `plain ${i}`));
  });
});
