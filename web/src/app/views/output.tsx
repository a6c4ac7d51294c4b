import { memo, useState } from 'react';
import type { Line, Span } from '../terminal/line';
import { PlainLines } from '../terminal/plainlines';
import type { Screen } from '../terminal/screen';
import type { Style } from '../terminal/style';
import { FollowList } from '../ui/followlist';
import { count, plural } from '../ui/format';
import { visible } from '../ui/text';

const previewLines = 12;
const shownColumns = 2_000;

const plainLines = new WeakMap<Screen, PlainLines>();

interface Props {
  screen: Screen;
  version: number;
  /** False when the first lines are not loaded: line numbers would be wrong, and counts are of the loaded part. */
  whole: boolean;
}

/**
 * What a program wrote. Only text: control sequences were dealt with by the screen.
 * Metric lines are curves already; they are counted and shown on demand.
 */
export function Output({ screen, version, whole }: Props) {
  const [all, setAll] = useState(false);
  const [withMetrics, setWithMetrics] = useState(false);
  if (screen.lines.length === 0) return null;
  let view = plainLines.get(screen);
  if (!view) {
    view = new PlainLines();
    plainLines.set(screen, view);
  }
  const { plain, metric } = view.of(screen);
  const lines = withMetrics ? screen.lines : plain;
  const hidden = Math.max(0, lines.length - previewLines);
  const metricLines = plural(metric, whole ? 'metric line' : 'loaded metric line');
  return (
    <div className={whole ? 'output' : 'output unnumbered'}>
      {screen.dropped > 0 && <p className="quiet">The first {plural(screen.dropped, 'line')} are not held any more.</p>}
      {all ? (
        <FollowList
          items={lines}
          version={version}
          label="Output"
          className="output-all"
          render={(line) => <OutputLine key={line.number} line={line} version={line.version} />}
        />
      ) : (
        lines.length > 0 && (
          <div className="output-tail">
            {lines.slice(-previewLines).map((line) => (
              <OutputLine key={line.number} line={line} version={line.version} />
            ))}
          </div>
        )
      )}
      {(hidden > 0 || all || metric > 0) && (
        <div className="output-tools">
          {(hidden > 0 || all) && (
            <button type="button" className="link" aria-expanded={all} onClick={() => setAll(!all)}>
              {all ? 'Show the end only' : `${count(hidden)} more ${whole ? '' : 'loaded '}above`}
            </button>
          )}
          {metric > 0 && (
            <button
              type="button"
              className="link"
              aria-pressed={withMetrics}
              onClick={() => setWithMetrics(!withMetrics)}
            >
              {withMetrics ? `Hide ${metricLines}` : `Show ${metricLines}`}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

const OutputLine = memo(function OutputLine({ line }: { line: Line; version: number }) {
  const [shown, setShown] = useState(shownColumns);
  const spans = line.length > shown ? cut(line.spans, shown) : line.spans;
  return (
    <div className={line.stderr ? 'line stderr' : 'line'}>
      <span className="line-number" aria-hidden="true">
        {line.number}
      </span>
      <span className="line-text">
        {spans.map((span, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: spans have no identity but their place
          <OutputSpan key={i} span={span} />
        ))}
        {line.length === 0 && '\u00a0'}
        {line.length > shown && (
          <button type="button" className="link" onClick={() => setShown(shown * 10)}>
            … {count(line.length - shown)} more characters
          </button>
        )}
        {line.cut > 0 && line.length <= shown && <i className="quiet"> … {count(line.cut)} characters not held</i>}
      </span>
    </div>
  );
});

function cut(spans: readonly Span[], columns: number): Span[] {
  const out: Span[] = [];
  let room = columns;
  for (const span of spans) {
    if (room <= 0) break;
    out.push(span.text.length <= room ? span : { text: span.text.slice(0, room), style: span.style });
    room -= span.text.length;
  }
  return out;
}

function OutputSpan({ span }: { span: Span }) {
  const { className, colors } = look(span.style);
  if (!className && !colors) return visible(span.text);
  return (
    <span className={className} style={colors}>
      {visible(span.text)}
    </span>
  );
}

function look(style: Style): { className?: string; colors?: { color?: string; backgroundColor?: string } } {
  const names: string[] = [];
  const colors: { color?: string; backgroundColor?: string } = {};
  const fg = style.inverse ? (style.bg ?? 'inverse') : style.fg;
  const bg = style.inverse ? (style.fg ?? 'inverse') : style.bg;
  if (typeof fg === 'number') names.push(`fg${fg}`);
  else if (fg === 'inverse') names.push('fg-inverse');
  else if (fg) colors.color = fg;
  if (typeof bg === 'number') names.push(`bg${bg}`);
  else if (bg === 'inverse') names.push('bg-inverse');
  else if (bg) colors.backgroundColor = bg;
  for (const name of ['bold', 'dim', 'italic', 'underline', 'strike'] as const) if (style[name]) names.push(name);
  return {
    className: names.length > 0 ? names.join(' ') : undefined,
    colors: colors.color || colors.backgroundColor ? colors : undefined,
  };
}
