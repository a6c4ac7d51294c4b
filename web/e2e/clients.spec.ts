import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Page } from '@playwright/test';
import { serverAudits } from 'graphql-http';
import { build } from 'vite';
import { Arrived } from './clients/cursor';
import { clients } from './clients/node';
import { expect, test } from './fixtures';
import { Weir } from './weir';

/** The clients of e2e/clients/browser.ts as one script. */
async function bundle(): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"' },
    build: {
      write: false,
      minify: false,
      rollupOptions: {
        input: fileURLToPath(new URL('clients/browser.ts', import.meta.url)),
        output: { format: 'iife', entryFileNames: 'clients.js' },
      },
    },
  });
  const { output } = (Array.isArray(built) ? built[0] : built) as { output: { type: string; code?: string }[] };
  const code = output.find((chunk) => chunk.type === 'chunk')?.code;
  if (!code) throw new Error('nothing was built');
  return code;
}

/** Opens a page of the server's own origin and brings the clients into it. */
async function open(page: Page, weir: Weir): Promise<void> {
  await page.route('**/favicon.ico', (route) => route.fulfill({ status: 204 }));
  await page.goto(`${weir.url}/healthz`);
  await page.evaluate(await bundle());
}

const points = (n: number) => `
import json, time
for step in range(${n}):
    print(json.dumps({"step": step, "metrics": {"loss": 1}}), flush=True)
    time.sleep(0.005)
`;

/** WEIR_CLIENT_ROUNDS: how many times the server is killed. */
const rounds = Number(process.env.WEIR_CLIENT_ROUNDS ?? 1);

test('every client resumes by its cursor after kill -9 and a restart: nothing is missing, nothing doubled', async ({
  page,
  watch,
}) => {
  test.setTimeout(60_000 + rounds * 40_000);
  watch.expectErrors(/ERR_|WebSocket connection/);
  const weir = await Weir.start();
  const stops: (() => unknown)[] = [];
  try {
    await open(page, weir);
    const versions = (await page.evaluate('queries()')) as { server: { version: string } }[];
    expect(versions.map((data) => typeof data.server.version)).toEqual(['string', 'string', 'string']);

    const { createSession: session } = await weir.query<{ createSession: { id: string } }>(
      'mutation { createSession(input: {}) { id } }',
    );
    const start = (code: string) =>
      weir.startRun({ agent: 'script', stage: 'train', sessionId: session.id, onBusy: 'QUEUE', code });
    const arrived: Record<string, Arrived> = {};
    for (const [name, follow] of Object.entries(clients)) {
      const mine = new Arrived();
      arrived[`${name} (Node)`] = mine;
      stops.push(follow(weir.url, session.id, mine));
    }
    await page.evaluate(`watch(${JSON.stringify(session.id)})`);
    const all = async () => {
      const seqs: Record<string, number[]> = {};
      for (const [name, mine] of Object.entries(arrived)) seqs[name] = [...mine.seqs];
      const there = (await page.evaluate('arrived()')) as Record<string, number[]>;
      for (const [name, mine] of Object.entries(there)) seqs[`${name} (Chromium)`] = mine;
      return seqs;
    };
    const behind = async (seq: number) =>
      Object.entries(await all())
        .filter(([, got]) => (got.at(-1) ?? 0) < seq)
        .map(([name]) => name);
    const stand = async () => (await weir.log(session.id)).map((event) => event.seq);
    for (let round = 0; round < rounds; round++) {
      const run = await start(points(100_000));
      const before = (await stand()).length;
      await expect.poll(() => behind(before + 200), { timeout: 30_000 }).toEqual([]);
      await weir.kill(); // in the midst of a few hundred events a second
      await weir.up();
      await expect.poll(async () => (await weir.run(run.id)).status, { timeout: 30_000 }).toBe('FAILED');
    }
    await weir.terminate(); // and in good order, while nothing happens
    await weir.up();
    const last = await start(points(200));
    await expect.poll(async () => (await weir.run(last.id)).status, { timeout: 30_000 }).toBe('DONE');

    const seqs = await stand();
    expect(seqs).toEqual(seqs.map((_, i) => i + 1));
    expect(seqs.length).toBeGreaterThan(200 * rounds);
    await expect.poll(() => behind(seqs.length), { timeout: 30_000 }).toEqual([]);
    const got = await all();
    expect(Object.keys(got)).toHaveLength(Object.keys(clients).length + 6);
    for (const [name, mine] of Object.entries(got)) expect(mine, name).toEqual(seqs);
    expect(await page.title()).toBe('');
  } finally {
    for (const stop of stops) await stop();
    await weir.stop();
  }
});

test('the audits of graphql-http pass, but for what docs/transports.md lists', async ({ weir }) => {
  const missed: string[] = [];
  let ran = 0;
  for (const audit of serverAudits({ url: `${weir.url}/graphql`, fetchFn: fetch })) {
    ran += 1;
    const { status } = await audit.fn();
    if (status !== 'ok') missed.push(`${audit.id} ${audit.name}`);
  }
  expect(ran).toBeGreaterThan(50);
  expect(missed.filter((name) => name.includes(' MUST '))).toEqual([]);
  const docs = readFileSync(fileURLToPath(new URL('../../docs/transports.md', import.meta.url)), 'utf8');
  const listed = [...docs.matchAll(/^\| `(\w{4})` \| (.*?) \|/gm)].map(([, id, name]) => `${id} ${name}`);
  expect(missed.sort()).toEqual(listed.sort());
});
