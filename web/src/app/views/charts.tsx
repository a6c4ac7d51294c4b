import { useCallback, useMemo, useState } from 'react';
import type { Curve } from '../curves/curve';
import { DrawLoop } from '../curves/loop';
import type { SessionController } from '../session/controller';
import { plural } from '../ui/format';
import { useSignal } from '../ui/hooks';
import { Chart } from './chart';

const chartsAtFirst = 12;
const curvesPerChart = 20;

/** The session's curves, one chart for each name or as the program asked for. */
export function ChartPane({ session }: { session: SessionController }) {
  useSignal(session.curves.structure);
  const runs = useSignal(session.runs.all);
  const [more, setMore] = useState(0);
  const detail = useCallback(
    (curves: readonly Curve[], from: number, to: number) => session.detail(curves, from, to),
    [session],
  );
  const loop = useMemo(() => new DrawLoop(), []);
  const charts = session.curves.charts();
  const current = session.runs.current();
  const limit = chartsAtFirst + more;
  const order = [...runs.values()].sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1)).map((run) => run.id);
  return (
    <section className="charts" aria-label="Curves">
      <h2>Curves</h2>
      {charts.length === 0 && current && current.stage === null && (
        <p className="quiet empty">This run has no stage, so its lines are not parsed for metrics.</p>
      )}
      {charts.length === 0 && current && current.stage !== null && (
        <p className="quiet empty">
          No curves. A line such as <code>{'{"step": 1, "metrics": {"loss": 0.5}}'}</code> on a program's standard
          output becomes a point.
        </p>
      )}
      {charts.slice(0, limit).map((spec) => {
        const curves = session.curves.curvesOf(spec);
        const several = new Set(curves.map((curve) => curve.runId)).size > 1;
        const nameOf = (curve: Curve) =>
          [
            spec.names.length > 1 || (!several && !curve.runTag) ? curve.name : '',
            curve.runTag ?? '',
            several ? `${runs.get(curve.runId)?.agent ?? 'run'} ${order.indexOf(curve.runId) + 1}` : '',
          ]
            .filter(Boolean)
            .join(' · ');
        return (
          <div key={spec.id}>
            <Chart
              title={spec.title || '(no name)'}
              curves={curves.slice(0, curvesPerChart)}
              nameOf={nameOf}
              loop={loop}
              detail={detail}
            />
            {curves.length > curvesPerChart && (
              <p className="quiet">{plural(curves.length - curvesPerChart, 'more curve')} not drawn</p>
            )}
          </div>
        );
      })}
      {charts.length > limit && (
        <button type="button" onClick={() => setMore(more + chartsAtFirst)}>
          Show {Math.min(chartsAtFirst, charts.length - limit)} of {plural(charts.length - limit, 'more chart')}
        </button>
      )}
    </section>
  );
}
