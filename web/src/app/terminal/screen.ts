import { Line } from './line';
import { applySGR, plain, type Style } from './style';

/** How far up a cursor may go: progress bars redraw their last lines, nothing more. */
const reach = 50;
/** Lines kept; the oldest go first and are counted. */
export const maxLines = 50_000;

type State = 'text' | 'escape' | 'charset' | 'csi' | 'string' | 'stringEscape';

/**
 * The two outputs of an execution as lines, in the order in which their lines began.
 * Control sequences are obeyed (colours, overwriting) or swallowed; no character of
 * the output can do anything else. Sequences and lines may be cut anywhere between chunks.
 */
export class Screen {
  readonly lines: Line[] = [];
  /** Lines that are no longer kept. */
  dropped = 0;
  #streams: Record<'STDOUT' | 'STDERR', Stream>;

  constructor() {
    this.#streams = { STDOUT: new Stream(() => this.#begin(false)), STDERR: new Stream(() => this.#begin(true)) };
  }

  write(stream: 'STDOUT' | 'STDERR', text: string): void {
    this.#streams[stream].write(text);
  }

  #begin(stderr: boolean): Line {
    const line = new Line(this.dropped + this.lines.length + 1, stderr);
    this.lines.push(line);
    if (this.lines.length > maxLines) {
      this.dropped += this.lines.splice(0, maxLines / 10).length;
    }
    return line;
  }
}

class Stream {
  #state: State = 'text';
  #params = '';
  #style: Style = plain;
  #column = 0;
  /** The last lines of this stream; #row === length means a line that has not begun. */
  #recent: Line[] = [];
  #row = 0;

  constructor(private readonly begin: () => Line) {}

  write(chunk: string): void {
    let i = 0;
    while (i < chunk.length) {
      if (this.#state === 'text') {
        const end = nextControl(chunk, i);
        if (end > i) this.#print(chunk.slice(i, end));
        i = end;
        if (i < chunk.length) this.#control(chunk.charCodeAt(i++));
      } else {
        this.#sequence(chunk[i++] ?? '');
      }
    }
  }

  #line(): Line {
    let line = this.#recent[this.#row];
    if (!line) {
      line = this.begin();
      this.#recent.push(line);
      if (this.#recent.length > reach) this.#recent.shift();
      this.#row = this.#recent.length - 1;
    }
    return line;
  }

  #print(text: string): void {
    this.#line().write(this.#column, text, this.#style);
    this.#column += text.length;
  }

  #control(code: number): void {
    switch (code) {
      case 0x0a:
        this.#line();
        this.#row += 1;
        this.#column = 0;
        return;
      case 0x0d:
        this.#column = 0;
        return;
      case 0x08:
        this.#column = Math.max(0, this.#column - 1);
        return;
      case 0x09:
        this.#print(' '.repeat(8 - (this.#column % 8)));
        return;
      case 0x07:
        return;
      case 0x1b:
        this.#state = 'escape';
        return;
      case 0x9b:
        this.#params = '';
        this.#state = 'csi';
        return;
      case 0x90:
      case 0x98:
      case 0x9d:
      case 0x9e:
      case 0x9f:
        this.#state = 'string';
        return;
    }
    if (code < 0x20) this.#print(String.fromCharCode(0x2400 + code));
    else if (code === 0x7f) this.#print('\u2421');
  }

  #sequence(c: string): void {
    // A line feed ends whatever was left open: a broken sequence hides one line at most.
    if (c === '\n' || c === '\x18' || c === '\x1a') {
      this.#state = 'text';
      if (c === '\n') this.#control(0x0a);
      return;
    }
    switch (this.#state) {
      case 'escape':
        if (c === '[') {
          this.#params = '';
          this.#state = 'csi';
        } else if (']PX^_'.includes(c)) this.#state = 'string';
        else if ('()*+-./#% '.includes(c)) this.#state = 'charset';
        else if (c !== '\x1b') this.#state = 'text';
        return;
      case 'charset':
        this.#state = 'text';
        return;
      case 'csi':
        if (c === '\x1b') this.#state = 'escape';
        else if (c >= '@' && c <= '~') {
          this.#state = 'text';
          this.#csi(c);
        } else if (this.#params.length < 256) this.#params += c;
        return;
      case 'string':
        if (c === '\x07' || c === '\x9c') this.#state = 'text';
        else if (c === '\x1b') this.#state = 'stringEscape';
        return;
      case 'stringEscape':
        this.#state = c === '\\' ? 'text' : c === '\x1b' ? 'stringEscape' : 'string';
        return;
      case 'text':
        return;
    }
  }

  #csi(final: string): void {
    if (!/^[\d;:]*$/.test(this.#params)) return; // private sequences
    const params = this.#params.split(/[;:]/).map((p) => (p === '' ? 0 : Math.min(Number(p), 100_000)));
    const n = Math.max(1, params[0] ?? 1);
    switch (final) {
      case 'm':
        this.#style = applySGR(this.#style, params);
        return;
      case 'A':
        this.#row = Math.max(0, this.#row - n);
        return;
      case 'B':
        this.#row = Math.min(this.#recent.length, this.#row + n);
        return;
      case 'C':
        this.#column = Math.min(1_000, this.#column + n);
        return;
      case 'D':
        this.#column = Math.max(0, this.#column - n);
        return;
      case 'G':
        this.#column = Math.min(1_000, n - 1);
        return;
      case 'K': {
        const line = this.#recent[this.#row];
        if (!line) return;
        if (params[0] === 1) line.erase(0, this.#column + 1);
        else line.erase(params[0] === 2 ? 0 : this.#column, line.length);
        return;
      }
    }
  }
}

function nextControl(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return i;
  }
  return text.length;
}
