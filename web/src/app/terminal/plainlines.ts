import type { Line } from './line';
import type { Screen } from './screen';

/** Lines further from the end than this can no longer change: a cursor reaches 50 up in each stream. */
const settled = 110;

export function isMetricLine(line: Line): boolean {
  return !line.stderr && /^\s*\{.*"(?:metrics?|chart_config|log)"\s*:/.test(line.text.slice(0, 4_000));
}

/** The lines of a screen that are not metric lines. Looks at each settled line once. */
export class PlainLines {
  #scanned = 0;
  #dropped = 0;
  #plain: Line[] = [];

  /** Gives the plain lines and the number of the others. */
  of(screen: Screen): { plain: readonly Line[]; metric: number } {
    const { lines, dropped } = screen;
    if (dropped !== this.#dropped) {
      this.#dropped = dropped;
      this.#scanned = 0;
      this.#plain = [];
    }
    for (; this.#scanned < lines.length - settled; this.#scanned++) {
      const line = lines[this.#scanned];
      if (line && !isMetricLine(line)) this.#plain.push(line);
    }
    const plain = [...this.#plain, ...lines.slice(this.#scanned).filter((line) => !isMetricLine(line))];
    return { plain, metric: lines.length - plain.length };
  }
}
