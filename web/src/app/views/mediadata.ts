/** Reading of logged media. The shapes stand in the README; what differs from them is null. */

export interface Picture {
  src: string;
  caption: string;
  /** Of few pixels, to be enlarged without smoothing. */
  small: boolean;
}

const maxPictures = 64;
const mimes = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'];

type Fields = Record<string, unknown>;

function fields(data: unknown): Fields {
  return typeof data === 'object' && data !== null && !Array.isArray(data) ? (data as Fields) : {};
}

function picture(data: unknown): Picture | null {
  const { mime, base64, caption, width } = fields(data);
  if (typeof mime !== 'string' || !mimes.includes(mime)) return null;
  if (typeof base64 !== 'string' || !/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return null;
  return {
    src: `data:${mime};base64,${base64}`,
    caption: typeof caption === 'string' ? caption : '',
    small: typeof width === 'number' && width <= 128,
  };
}

/** The images of an image or a grid; null if it is none, or one of them is none. */
export function pictures(kind: string, data: unknown): Picture[] | null {
  if (kind === 'IMAGE') {
    const one = picture(data);
    return one && [one];
  }
  const { images } = fields(data);
  if (kind !== 'IMAGE_GRID' || !Array.isArray(images) || images.length === 0 || images.length > maxPictures)
    return null;
  const all = images.map(picture).filter((p) => p !== null);
  return all.length === images.length ? all : null;
}

/** The text of a logged text. */
export function words(kind: string, data: unknown): string | null {
  const { text } = fields(data);
  return kind === 'TEXT' && typeof text === 'string' ? text : null;
}

function short(n: unknown): string {
  return typeof n === 'number' ? String(Number(n.toPrecision(4))) : String(n);
}

/** One line that says what is in a value that has no view of its own. */
export function summary(kind: string, data: unknown): string | null {
  const { edges, counts, curves, data: traces, nonfinite } = fields(data);
  switch (kind) {
    case 'HISTOGRAM': {
      if (!isNumbers(edges) || !isNumbers(counts) || edges.length !== counts.length + 1) return null;
      const total = counts.reduce((sum, n) => sum + n, 0);
      const rest = typeof nonfinite === 'number' && nonfinite > 0 ? `, and ${nonfinite} not finite` : '';
      return `${short(total)} values from ${short(edges[0])} to ${short(edges.at(-1))} in ${counts.length} bins${rest}`;
    }
    case 'ROC':
    case 'PR': {
      if (!Array.isArray(curves) || curves.length === 0) return null;
      const area = kind === 'ROC' ? 'auc' : 'ap';
      return curves
        .slice(0, 20)
        .map(
          (c) => `${fields(c).label ?? ''}: ${area === 'auc' ? 'area' : 'average precision'} ${short(fields(c)[area])}`,
        )
        .join('\n');
    }
    case 'PLOTLY':
      return Array.isArray(traces)
        ? `plotly figure with ${traces.length} ${traces.length === 1 ? 'trace' : 'traces'}`
        : null;
    default:
      return null;
  }
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((n) => typeof n === 'number');
}
