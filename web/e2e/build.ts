import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Builds the server once for all workers, unless WEIR_BIN names one. Gives the clean-up. */
export default function build(): (() => void) | undefined {
  if (process.env.WEIR_BIN) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'weir-e2e-bin-'));
  const bin = join(folder, 'weir');
  const repo = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
  execFileSync('go', ['build', '-o', bin, '.'], { cwd: repo, stdio: 'inherit' });
  process.env.WEIR_BIN = bin;
  return () => rmSync(folder, { recursive: true, force: true });
}
