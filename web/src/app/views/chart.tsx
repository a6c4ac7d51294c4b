import { useLayoutEffect, useMemo, useRef, useState } from 'react';
import uPlot from 'uplot';
import type { Curve } from '../curves/curve';
import type { DrawLoop } from '../curves/loop';
import { bounds, type PlotData, plotData, type Summary, summary } from '../curves/plotdata';
import { count, value } from '../ui/format';
import { useSignal } from '../ui/hooks';
import { Foreign } from '../ui/text';
import { isDark } from '../ui/theme';

const height = 190;
const light = ['#0b6bb0', '#c2410c', '#15803d', '#7e3fb8', '#a3161a', '#00727a', '#8a5a00', '#5a6572'];
const dark = ['#5fb0ee', '#f59e5b', '#5fce8c', '#c59af5', '#ff8a80', '#4fd0d8', '#e3b04b', '#a9b5c1'];
const bandsUpTo = 4;

interface Props {
  title: string;
  curves: readonly Curve[];
  nameOf: (curve: Curve) => string;
  loop: DrawLoop;
}

/** A chart with its legend, which is also its text for those who cannot see the canvas. */
export function Chart({ title, curves, nameOf, loop }: Props) {
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
    const plot = new Plot(element, curves, colors, bands, darkNow, setHover, setZoomed);
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
              <td>{at ? at[i] : shown(rows[i]?.last)}</td>
              <td>{shown(rows[i]?.min)}</td>
              <td>{shown(rows[i]?.max)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

function shown(v: number | null | undefined): string {
  return v === null || v === undefined ? '–' : value(v);
}

function valueAt(curve: Curve, step: number): string {
  const bucket = curve.buckets.find((b) => b.from === step);
  if (!bucket) return '–';
  if (bucket.finite > 0) return value(bucket.last);
  if (bucket.nan > 0) return 'NaN';
  return bucket.positiveInfinity > 0 ? '+Inf' : '−Inf';
}

/** The uPlot side of a chart. */
class Plot {
  #plot: uPlot;
  #data: PlotData;
  #zoom: [number, number] | null = null;
  #size: ResizeObserver;

  constructor(
    element: HTMLElement,
    private readonly curves: readonly Curve[],
    private readonly colors: readonly string[],
    private readonly bands: boolean,
    darkNow: boolean,
    onHover: (step: number | null) => void,
    private readonly onZoom: (zoomed: boolean) => void,
  ) {
    this.#data = plotData(curves, bands);
    const axis = {
      stroke: darkNow ? '#9aa7b4' : '#566170',
      grid: { stroke: darkNow ? '#262e36' : '#e6e9ed', width: 1 },
      ticks: { show: false },
      font: '11px system-ui, sans-serif',
    };
    this.#plot = new uPlot(
      {
        width: Math.max(element.clientWidth, 50),
        height,
        padding: [10, 14, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 6 } },
        scales: {
          x: { time: false, range: (_, min, max) => this.#zoom ?? bounds(min, max, 0) },
          y: { range: (_, min, max) => bounds(min, max, 0.06) },
        },
        axes: [
          { ...axis, size: 28, values: (_, splits) => splits.map((v) => (Number.isInteger(v) ? count(v) : '')) },
          { ...axis, size: 58, values: (_, splits) => splits.map((v) => value(Number(v.toPrecision(6)))) },
        ],
        series: [{}, ...curves.flatMap((_, i) => this.#series(colors[i] ?? '#888'))],
        bands: bands
          ? curves.map((_, i) => ({ series: [3 * i + 3, 3 * i + 2] as [number, number], fill: `${colors[i]}26` }))
          : undefined,
        hooks: {
          draw: [() => this.#drawMarkers()],
          setCursor: [
            (u) => {
              const i = u.cursor.idx;
              const step = i === null || i === undefined ? null : u.data[0][i];
              onHover((u.cursor.left ?? -1) >= 0 ? (step ?? null) : null);
            },
          ],
          setSelect: [(u) => this.#select(u)],
        },
      },
      this.#data.columns as uPlot.AlignedData,
      element,
    );
    this.#plot.over.addEventListener('dblclick', () => this.reset());
    this.#size = new ResizeObserver(() => {
      if (element.clientWidth > 0) this.#plot.setSize({ width: element.clientWidth, height });
    });
    this.#size.observe(element);
  }

  draw(): void {
    this.#data = plotData(this.curves, this.bands);
    this.#plot.setData(this.#data.columns as uPlot.AlignedData);
  }

  /** Shows all steps again. New points never end a zoom, only this does. */
  reset(): void {
    this.#zoom = null;
    this.onZoom(false);
    this.draw();
  }

  destroy(): void {
    this.#size.disconnect();
    this.#plot.destroy();
  }

  #series(color: string): uPlot.Series[] {
    const line: uPlot.Series = { stroke: color, width: 1.5, spanGaps: false, points: { size: 4, fill: color } };
    const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false } };
    return this.bands ? [line, edge, { ...edge }] : [line];
  }

  #select(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, 'x');
    const to = u.posToVal(left + width, 'x');
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (!(to > from)) return;
    this.#zoom = [from, to];
    this.onZoom(true);
    this.draw();
  }

  /** NaN as a cross above the lower edge, infinities as triangles at their edges. */
  #drawMarkers(): void {
    const u = this.#plot;
    if (!u) return; // the first draw comes from within the constructor
    const { ctx, bbox } = u;
    const size = 4 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left - size, bbox.top - size, bbox.width + 2 * size, bbox.height + 2 * size);
    ctx.clip();
    this.#data.markers.forEach((list, i) => {
      ctx.strokeStyle = this.colors[i] ?? '#888';
      ctx.fillStyle = ctx.strokeStyle;
      ctx.lineWidth = 1.5 * devicePixelRatio;
      for (const { step, kind } of list) {
        const x = u.valToPos(step, 'x', true);
        if (x < bbox.left - size || x > bbox.left + bbox.width + size) continue;
        ctx.beginPath();
        if (kind === 'nan') {
          const y = bbox.top + bbox.height - 3 * size;
          ctx.moveTo(x - size, y - size);
          ctx.lineTo(x + size, y + size);
          ctx.moveTo(x + size, y - size);
          ctx.lineTo(x - size, y + size);
          ctx.stroke();
        } else {
          const up = kind === 'up';
          const y = up ? bbox.top : bbox.top + bbox.height;
          const toward = up ? 2 * size : -2 * size;
          ctx.moveTo(x, y);
          ctx.lineTo(x - size, y + toward);
          ctx.lineTo(x + size, y + toward);
          ctx.fill();
        }
      }
    });
    ctx.restore();
  }
}
