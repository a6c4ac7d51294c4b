import { useState } from 'react';
import { count } from './format';
import { visible } from './text';

const foldedLines = 12;
const foldedChars = 4_000;
const maxChars = 200_000;

/** Foreign text with its line breaks; a long one shows its beginning and says how much more there is. */
export function LongText({ text, className, mono }: { text: string; className?: string; mono?: boolean }) {
  const [all, setAll] = useState(false);
  const lines = text.split('\n');
  const long = lines.length > foldedLines + 1 || text.length > foldedChars;
  const shown = all || !long ? text.slice(0, maxChars) : lines.slice(0, foldedLines).join('\n').slice(0, foldedChars);
  const left = lines.length - foldedLines;
  return (
    <div className={`text ${mono ? 'mono' : ''} ${className ?? ''}`}>
      <bdi>{visible(shown)}</bdi>
      {long && (
        <button type="button" className="link" aria-expanded={all} onClick={() => setAll(!all)}>
          {all
            ? 'Show less'
            : left > 0
              ? `${count(left)} more lines`
              : `${count(text.length - shown.length)} more characters`}
        </button>
      )}
    </div>
  );
}

/** JSON for reading: strings with line breaks stay readable. */
export function pretty(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const fields = Object.entries(value);
    if (fields.length > 0 && fields.every(([, v]) => typeof v === 'string')) {
      return fields.map(([k, v]) => (String(v).includes('\n') ? `${k}:\n${v}` : `${k}: ${v}`)).join('\n');
    }
  }
  return JSON.stringify(value, null, 2) ?? '';
}
