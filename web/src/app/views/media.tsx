import { useState } from 'react';
import type { MediaRow } from '../session/rows';
import { plural } from '../ui/format';
import { LongText, pretty } from '../ui/longtext';
import { Foreign } from '../ui/text';
import { type Picture, pictures, summary, words } from './mediadata';

const maxRows = 50;
const maxColumns = 20;

/** A logged table, matrix or other value. What has no view of its own is shown as JSON. */
export function Media({ row }: { row: MediaRow }) {
  const grid = gridOf(row);
  const images = pictures(row.media, row.data);
  return (
    <section className="card">
      <div className="card-head">
        <strong>{row.media.toLowerCase().replaceAll('_', ' ')}</strong>
        <Foreign className="one-line mono" text={row.name} />
        <span className="card-state quiet num">
          {row.runTag && <Foreign text={row.runTag} />} step {row.step}
        </span>
      </div>
      <div className="card-body">
        {images ? <Pictures images={images} name={row.name} /> : grid ? <GridTable grid={grid} /> : <Words row={row} />}
      </div>
    </section>
  );
}

function Pictures({ images, name }: { images: Picture[]; name: string }) {
  return (
    <div className="pictures">
      {images.map((image, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the images never change
        <figure key={i}>
          <img className={image.small ? 'small' : ''} src={image.src} alt={image.caption || name} loading="lazy" />
          {image.caption && (
            <figcaption className="quiet">
              <Foreign text={image.caption.slice(0, 200)} />
            </figcaption>
          )}
        </figure>
      ))}
    </div>
  );
}

function Words({ row }: { row: MediaRow }) {
  const text = words(row.media, row.data);
  if (text !== null) return <LongText text={text} />;
  const line = summary(row.media, row.data);
  return (
    <>
      {line !== null && <LongText text={line} />}
      {line === null ? <LongText mono text={pretty(row.data)} /> : <Raw data={row.data} />}
    </>
  );
}

/** The values themselves, on demand. */
function Raw({ data }: { data: unknown }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="link" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? 'Hide the values' : 'Show the values'}
      </button>
      {open && <LongText mono text={pretty(data)} />}
    </>
  );
}

interface Grid {
  columns: string[];
  rows: { head: string | null; cells: string[] }[];
}

function gridOf(row: MediaRow): Grid | null {
  const data = row.data as { columns?: unknown; rows?: unknown; labels?: unknown; matrix?: unknown } | null;
  if (row.media === 'TABLE' && Array.isArray(data?.columns) && isMatrix(data.rows)) {
    return { columns: data.columns.map(cell), rows: data.rows.map((r) => ({ head: null, cells: r.map(cell) })) };
  }
  if (row.media === 'CONFUSION_MATRIX' && Array.isArray(data?.labels) && isMatrix(data.matrix)) {
    const labels = data.labels.map(cell);
    return { columns: labels, rows: data.matrix.map((r, i) => ({ head: labels[i] ?? '', cells: r.map(cell) })) };
  }
  return null;
}

function isMatrix(value: unknown): value is unknown[][] {
  return Array.isArray(value) && value.every((r) => Array.isArray(r));
}

function cell(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function GridTable({ grid }: { grid: Grid }) {
  const headed = grid.rows.some((r) => r.head !== null);
  return (
    <div className="grid">
      <table>
        <thead>
          <tr>
            {headed && <td />}
            {grid.columns.slice(0, maxColumns).map((name, i) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: names may repeat; the table never changes
              <th key={i} scope="col">
                <Foreign text={name.slice(0, 200)} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {grid.rows.slice(0, maxRows).map((r, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the table never changes
            <tr key={i}>
              {r.head !== null && (
                <th scope="row">
                  <Foreign text={r.head.slice(0, 200)} />
                </th>
              )}
              {r.cells.slice(0, maxColumns).map((text, k) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the table never changes
                <td key={k}>
                  <Foreign text={text.slice(0, 200)} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {grid.rows.length > maxRows && <p className="quiet">{plural(grid.rows.length - maxRows, 'more row')}</p>}
      {grid.columns.length > maxColumns && (
        <p className="quiet">{plural(grid.columns.length - maxColumns, 'more column')}</p>
      )}
    </div>
  );
}
