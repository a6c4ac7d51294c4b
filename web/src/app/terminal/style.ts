/** How a span of output looks. Colours 0-15 follow the theme; others are CSS colours. */
export interface Style {
  readonly fg?: number | string;
  readonly bg?: number | string;
  readonly bold?: boolean;
  readonly dim?: boolean;
  readonly italic?: boolean;
  readonly underline?: boolean;
  readonly inverse?: boolean;
  readonly strike?: boolean;
}

export const plain: Style = Object.freeze({});

const levels = [0, 95, 135, 175, 215, 255];

/** Colour n of the 256: a theme colour, or a CSS colour of the cube or the grey ramp. */
function indexed(n: number): number | string | undefined {
  if (!(n >= 0 && n <= 255)) return undefined;
  if (n < 16) return n;
  if (n >= 232) {
    const grey = 8 + (n - 232) * 10;
    return `rgb(${grey}, ${grey}, ${grey})`;
  }
  const i = n - 16;
  return `rgb(${levels[Math.floor(i / 36)]}, ${levels[Math.floor(i / 6) % 6]}, ${levels[i % 6]})`;
}

/** Reads the colour that follows a 38 or 48 at params[at]; gives it and the index of its last parameter. */
function extended(params: readonly number[], at: number): [number | string | undefined, number] {
  if (params[at + 1] === 5) return [indexed(params[at + 2] ?? 0), at + 2];
  if (params[at + 1] === 2) {
    const byte = (i: number) => Math.min(255, Math.max(0, params[at + i] ?? 0));
    return [`rgb(${byte(2)}, ${byte(3)}, ${byte(4)})`, at + 4];
  }
  return [undefined, params.length];
}

/** The style after an SGR sequence (CSI params m). Unknown parameters change nothing. */
export function applySGR(style: Style, params: readonly number[]): Style {
  let s: { -readonly [K in keyof Style]: Style[K] } = { ...style };
  for (let i = 0; i < params.length; i++) {
    const p = params[i] ?? 0;
    if (p === 0) s = {};
    else if (p === 1) s.bold = true;
    else if (p === 2) s.dim = true;
    else if (p === 3) s.italic = true;
    else if (p === 4) s.underline = true;
    else if (p === 7) s.inverse = true;
    else if (p === 9) s.strike = true;
    else if (p === 22) {
      s.bold = undefined;
      s.dim = undefined;
    } else if (p === 23) s.italic = undefined;
    else if (p === 24) s.underline = undefined;
    else if (p === 27) s.inverse = undefined;
    else if (p === 29) s.strike = undefined;
    else if (p >= 30 && p <= 37) s.fg = p - 30;
    else if (p === 39) s.fg = undefined;
    else if (p >= 40 && p <= 47) s.bg = p - 40;
    else if (p === 49) s.bg = undefined;
    else if (p >= 90 && p <= 97) s.fg = p - 82;
    else if (p >= 100 && p <= 107) s.bg = p - 92;
    else if (p === 38 || p === 48) {
      const [colour, last] = extended(params, i);
      if (p === 38) s.fg = colour;
      else s.bg = colour;
      i = last;
    }
  }
  return Object.values(s).some((v) => v !== undefined) ? s : plain;
}

export function sameStyle(a: Style, b: Style): boolean {
  return (
    a === b ||
    (a.fg === b.fg &&
      a.bg === b.bg &&
      a.bold === b.bold &&
      a.dim === b.dim &&
      a.italic === b.italic &&
      a.underline === b.underline &&
      a.inverse === b.inverse &&
      a.strike === b.strike)
  );
}
