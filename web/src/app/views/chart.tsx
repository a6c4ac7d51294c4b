import { useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { Curve, Special } from '../curves/curve';
import type { DrawLoop } from '../curves/loop';
import { Plot } from '../curves/plot';
import { type Summary, summary } from '../curves/plotdata';
import { count, value } from '../ui/format';
import { useSignal } from '../ui/hooks';
import { Foreign } from '../ui/text';
import { isDark } from '../ui/theme';

const light = ['#0b6bb0', '#c2410c', '#15803d', '#7e3fb8', '#a3161a', '#00727a', '#8a5a00', '#5a6572'];
const dark = ['#5fb0ee', '#f59e5b', '#5fce8c', '#c59af5', '#ff8a80', '#4fd0d8', '#e3b04b', '#a9b5c1'];
const bandsUpTo = 4;

interface Props {
  title: string;
  curves: readonly Curve[];
  nameOf: (curve: Curve) => string;
  loop: DrawLoop;
  /** Fetches the curves in a range of steps more finely. */
  detail: (curves: readonly Curve[], fromStep: number, toStep: number) => Promise<Curve[] | null>;
}

/** A chart with its legend, which is also its text for those who cannot see the canvas. */
export function Chart({ title, curves, nameOf, loop, detail }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const darkNow = useSignal(isDark);
  const palette = darkNow ? dark : light;
  const colors = curves.map((_, i) => palette[i % palette.length] ?? '#888');
  const [rows, setRows] = useState<Summary[]>(() => curves.map(summary));
  const [hover, setHover] = useState<number | null>(null);
  const [zoomed, setZoomed] = useState(false);
  const reset = useRef<() => void>(() => {});
  const bands = curves.length <= bandsUpTo && curves.some((curve) => curve.folded);
  const identity = curves.map((curve) => curve.key).join(' ');

  // biome-ignore lint/correctness/useExhaustiveDependencies: identity stands for curves, darkNow for colors
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const plot = new Plot(element, {
      curves,
      colors,
      bands,
      dark: darkNow,
      detail,
      onHover: setHover,
      onZoom: setZoomed,
    });
    reset.current = () => plot.reset();
    let slow = 0;
    const stop = loop.add(element, {
      version: () => curves.reduce((n, curve) => n + curve.version, 0),
      draw: () => {
        plot.draw();
        // The numbers need not move ten times a second.
        if (slow++ % 3 === 0) setRows(curves.map(summary));
      },
    });
    const late = setInterval(() => setRows((old) => (slow > 0 ? curves.map(summary) : old)), 1_000);
    return () => {
      clearInterval(late);
      stop();
      plot.destroy();
    };
  }, [identity, bands, darkNow, loop]);

  const at = useMemo(() => (hover === null ? null : curves.map((curve) => valueAt(curve, hover))), [hover, curves]);
  return (
    <figure className="chart">
      <figcaption>
        <Foreign text={title} />
        {zoomed && (
          <button type="button" className="link" onClick={() => reset.current()}>
            Reset zoom
          </button>
        )}
        {hover !== null && <span className="quiet num">step {count(hover)}</span>}
      </figcaption>
      <div ref={box} className="plot" aria-hidden="true" />
      <table className="legend">
        <thead>
          <tr>
            <th scope="col">Curve</th>
            <th scope="col">{hover === null ? 'Last' : 'Here'}</th>
            <th scope="col">Min</th>
            <th scope="col">Max</th>
          </tr>
        </thead>
        <tbody>
          {curves.map((curve, i) => (
            <tr key={curve.key}>
              <th scope="row">
                <i className="swatch" style={{ backgroundColor: colors[i] }} />
                <Foreign text={nameOf(curve) || '(no name)'} />
                {(rows[i]?.odd ?? 0) > 0 && <span className="warn-text"> {count(rows[i]?.odd ?? 0)} not finite</span>}
              </th>
              <Value of={at ? (at[i] ?? null) : (rows[i]?.last ?? null)} />
              <Value of={rows[i]?.min ?? null} />
              <Value of={rows[i]?.max ?? null} />
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

const words: Record<Special, string> = { NAN: 'NaN', POSITIVE_INFINITY: '∞', NEGATIVE_INFINITY: '−∞' };

function Value({ of: v }: { of: number | Special | null }) {
  if (v === null) return <td>–</td>;
  return typeof v === 'number' ? <td>{value(v)}</td> : <td className="warn-text odd-value">{words[v]}</td>;
}

function valueAt(curve: Curve, step: number): number | Special | null {
  const bucket = curve.buckets.find((b) => b.from === step);
  return bucket ? (bucket.end ?? bucket.last) : null;
}
