// Builds the page into dist and stamps it with the hash of everything it was
// built from, so that `go test ./web` can tell, without Node, whether the
// committed build is current. With --check it builds into a temporary folder
// and fails when that differs from dist.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const repo = dirname(web);
const slash = (path) => path.split(sep).join('/');

function walk(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? walk(path) : [path];
  });
}

// The same list as inputs() in dist_test.go.
function inputs() {
  const single = [
    '.npmrc',
    'codegen.ts',
    'index.html',
    'package.json',
    'package-lock.json',
    'playground.html',
    'scripts/build.mjs',
    'tsconfig.json',
    'vite.config.ts',
  ];
  return [
    ...single.map((name) => join(web, name)),
    ...walk(join(web, 'src')),
    ...readdirSync(join(repo, 'graph'))
      .filter((name) => name.endsWith('.graphqls'))
      .map((name) => join(repo, 'graph', name)),
  ];
}

// The hash of lines "<sha256>  <path>\n", sorted by path.
function digest(root, files) {
  const byPath = files.map((file) => [slash(relative(root, file)), file]).sort(([a], [b]) => (a < b ? -1 : 1));
  const all = createHash('sha256');
  for (const [path, file] of byPath) {
    all.update(`${createHash('sha256').update(readFileSync(file)).digest('hex')}  ${path}\n`);
  }
  return all.digest('hex');
}

function stamp(dist) {
  const built = walk(dist).filter((file) => relative(dist, file) !== 'BUILD.json');
  const text = { inputs: digest(repo, inputs()), outputs: digest(dist, built) };
  writeFileSync(join(dist, 'BUILD.json'), `${JSON.stringify(text, null, 2)}\n`);
}

async function buildInto(dist) {
  process.chdir(web);
  await build({ root: web, logLevel: 'warn', build: { outDir: dist, emptyOutDir: true } });
  stamp(dist);
}

const committed = join(web, 'dist');
if (!process.argv.includes('--check')) {
  await buildInto(committed);
} else {
  const fresh = mkdtempSync(join(tmpdir(), 'weir-web-'));
  try {
    await buildInto(fresh);
    const list = (root) => digest(root, walk(root));
    if (list(fresh) !== list(committed)) {
      const names = (root) => new Set(walk(root).map((file) => slash(relative(root, file))));
      const [a, b] = [names(committed), names(fresh)];
      console.error('web/dist is not what the sources build; run "make web" and commit the result.');
      console.error('only in dist:', [...a].filter((name) => !b.has(name)).join(' ') || '-');
      console.error('only in the new build:', [...b].filter((name) => !a.has(name)).join(' ') || '-');
      process.exitCode = 1;
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}
