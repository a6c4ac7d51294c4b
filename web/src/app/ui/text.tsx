import type { ReactNode } from 'react';

// Characters that change how their neighbours look or that cannot be seen: C0 and
// C1 controls but tab and newline, zero-width marks, bidi controls, tag characters.
const hidden =
  /[\0-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udc7f]/;

/** Foreign text for display: invisible and direction-changing characters are shown as tokens. */
export function visible(text: string): ReactNode {
  if (!hidden.test(text)) return text;
  const parts: ReactNode[] = [];
  const all = new RegExp(hidden.source, 'g');
  let at = 0;
  for (let match = all.exec(text); match; match = all.exec(text)) {
    if (match.index > at) parts.push(text.slice(at, match.index));
    const code = match[0].codePointAt(0) ?? 0;
    parts.push(
      <span key={match.index} className="hidden-char">
        U+{code.toString(16).toUpperCase().padStart(4, '0')}
      </span>,
    );
    at = match.index + match[0].length;
    if (parts.length > 2_000) break; // more tokens than anybody reads
  }
  parts.push(text.slice(at));
  return parts;
}

/** The line that says most of an error: a traceback ends with it. */
export function lastLine(text: string): string {
  return (
    text
      .trimEnd()
      .split(/[\r\n]+/)
      .findLast((line) => line.trim() !== '')
      ?.trim() ?? ''
  );
}

/** Foreign text, isolated so that its direction does not reach its neighbours. */
export function Foreign({ text, className }: { text: string; className?: string }) {
  return <bdi className={className}>{visible(text)}</bdi>;
}
