/** What the loop draws: it is asked for its version and, when that moved, told to draw. */
export interface Drawable {
  version(): number;
  draw(): void;
}

const everyMs = 100;

/**
 * Draws all charts in one frame, ten times a second at most, and only those that
 * are in view and changed: the cost goes with the number of redraws.
 */
export class DrawLoop {
  #charts = new Map<Element, { chart: Drawable; drawn: number; inView: boolean }>();
  #timer: ReturnType<typeof setInterval> | undefined;
  #frame = 0;
  #watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const known = this.#charts.get(entry.target);
      if (known) known.inView = entry.isIntersecting;
    }
  });

  add(element: Element, chart: Drawable): () => void {
    this.#charts.set(element, { chart, drawn: -1, inView: true });
    this.#watch.observe(element);
    this.#timer ??= setInterval(() => this.#tick(), everyMs);
    return () => {
      this.#watch.unobserve(element);
      this.#charts.delete(element);
      if (this.#charts.size > 0) return;
      clearInterval(this.#timer);
      cancelAnimationFrame(this.#frame);
      this.#timer = undefined;
    };
  }

  #tick(): void {
    if (document.hidden) return;
    const dirty = [...this.#charts.values()].filter((c) => c.inView && c.chart.version() !== c.drawn);
    if (dirty.length === 0) return;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => {
      for (const entry of dirty) {
        entry.drawn = entry.chart.version();
        entry.chart.draw();
      }
    });
  }
}
