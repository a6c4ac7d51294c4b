import { type Style, sameStyle } from './style';

export interface Span {
  readonly text: string;
  readonly style: Style;
}

/** The columns (UTF-16 units) kept of one line; what comes after is only counted. */
export const maxColumns = 100_000;

/** One line of output. Spans are replaced, never changed, so that a reader may compare them. */
export class Line {
  spans: readonly Span[] = [];
  length = 0;
  /** Units beyond maxColumns. */
  cut = 0;
  /** Grows with each change. */
  version = 0;

  constructor(
    readonly number: number,
    readonly stderr: boolean,
  ) {}

  get text(): string {
    return this.spans.map((span) => span.text).join('');
  }

  /** Writes at a column, over what stands there. Columns beyond the end are filled with blanks. */
  write(column: number, text: string, style: Style): void {
    this.version += 1;
    const room = maxColumns - column;
    if (text.length > room) {
      this.cut += text.length - Math.max(0, room);
      if (room <= 0) return;
      text = text.slice(0, room);
    }
    if (column > this.length) this.#append(' '.repeat(column - this.length), {});
    if (column === this.length) {
      this.#append(text, style);
      return;
    }
    const before = take(this.spans, 0, column);
    const after = take(this.spans, column + text.length, this.length);
    this.#set([...before, { text, style }, ...after]);
  }

  /** Removes the columns from (included) to (excluded); the rest stays where it is, as blanks fill the hole. */
  erase(from: number, to: number): void {
    this.version += 1;
    if (to >= this.length) this.#set(take(this.spans, 0, from));
    else this.#set([...blank(Math.min(to, this.length)), ...take(this.spans, to, this.length)]);
  }

  #append(text: string, style: Style): void {
    const last = this.spans.at(-1);
    this.length += text.length;
    this.spans =
      last && sameStyle(last.style, style)
        ? [...this.spans.slice(0, -1), { text: last.text + text, style: last.style }]
        : [...this.spans, { text, style }];
  }

  #set(spans: readonly Span[]): void {
    this.spans = spans;
    this.length = spans.reduce((n, span) => n + span.text.length, 0);
  }
}

function blank(columns: number): Span[] {
  return columns > 0 ? [{ text: ' '.repeat(columns), style: {} }] : [];
}

/** The spans of the columns from (included) to (excluded). Half a surrogate pair becomes a blank. */
function take(spans: readonly Span[], from: number, to: number): Span[] {
  const out: Span[] = [];
  let at = 0;
  for (const span of spans) {
    const start = Math.max(from - at, 0);
    const end = Math.min(to - at, span.text.length);
    if (start < end) {
      let text = span.text.slice(start, end);
      if (/^[\uDC00-\uDFFF]/.test(text)) text = ` ${text.slice(1)}`;
      if (/[\uD800-\uDBFF]$/.test(text)) text = `${text.slice(0, -1)} `;
      out.push({ text, style: span.style });
    }
    at += span.text.length;
    if (at >= to) break;
  }
  return out;
}
