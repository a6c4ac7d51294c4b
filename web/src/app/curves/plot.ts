import uPlot from 'uplot';
import { count, value } from '../ui/format';
import type { Curve } from './curve';
import { bounds, type PlotData, plotData } from './plotdata';

const height = 190;
const detailEveryMs = 2_000;

export interface PlotOptions {
  curves: readonly Curve[];
  colors: readonly string[];
  /** Whether min and max of each bucket are drawn as a band. */
  bands: boolean;
  dark: boolean;
  detail: (curves: readonly Curve[], fromStep: number, toStep: number) => Promise<Curve[] | null>;
  onHover: (step: number | null) => void;
  onZoom: (zoomed: boolean) => void;
}

/** The uPlot side of a chart. */
export class Plot {
  #plot: uPlot;
  #data: PlotData;
  #zoom: [number, number] | null = null;
  /** The curves in the zoomed range, once the server has sent them. */
  #detail: readonly Curve[] | null = null;
  #detailVersion = -1;
  #detailAt = 0;
  #asked = 0;
  #size: ResizeObserver;

  constructor(
    element: HTMLElement,
    private readonly options: PlotOptions,
  ) {
    const { curves, colors, bands, onHover } = options;
    this.#data = plotData(curves, bands);
    const axis = {
      stroke: options.dark ? '#9aa7b4' : '#566170',
      grid: { stroke: options.dark ? '#262e36' : '#e6e9ed', width: 1 },
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
    this.#data = plotData(this.#detail ?? this.options.curves, this.options.bands);
    this.#plot.setData(this.#data.columns as uPlot.AlignedData);
    this.#refine(false);
  }

  /** Shows all steps again. New points never end a zoom, only this does. */
  reset(): void {
    this.#zoom = null;
    this.#detail = null;
    this.#asked += 1;
    this.options.onZoom(false);
    this.draw();
  }

  destroy(): void {
    this.#asked += 1;
    this.#size.disconnect();
    this.#plot.destroy();
  }

  #series(color: string): uPlot.Series[] {
    const line: uPlot.Series = { stroke: color, width: 1.5, spanGaps: false, points: { size: 4, fill: color } };
    const edge: uPlot.Series = { stroke: 'transparent', width: 0, points: { show: false } };
    return this.options.bands ? [line, edge, { ...edge }] : [line];
  }

  #select(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, 'x');
    const to = u.posToVal(left + width, 'x');
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (!(to > from)) return;
    this.#zoom = [from, to];
    this.#detail = null;
    this.options.onZoom(true);
    this.#refine(true);
    this.draw();
  }

  /**
   * Asks for the zoomed range where the page holds folded buckets only; until the
   * answer comes the old data stay, stretched. While points arrive it asks again now and then.
   */
  #refine(now: boolean): void {
    const { curves, detail } = this.options;
    if (!this.#zoom || !curves.some((curve) => curve.width > 1)) return;
    const version = curves.reduce((n, curve) => n + curve.version, 0);
    if (!now && (version === this.#detailVersion || Date.now() - this.#detailAt < detailEveryMs)) return;
    this.#detailVersion = version;
    this.#detailAt = Date.now();
    this.#asked += 1;
    const asked = this.#asked;
    const [from, to] = this.#zoom;
    void detail(curves, Math.floor(from), Math.ceil(to)).then((found) => {
      if (asked !== this.#asked || !found) return;
      this.#detail = found;
      this.draw();
    });
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
      ctx.strokeStyle = this.options.colors[i] ?? '#888';
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
