import AxeBuilder from '@axe-core/playwright';
import { test as base, expect, type Page } from '@playwright/test';
import { Weir } from './weir';

interface Watch {
  /** Console errors that the test expects, for example while the server is gone. */
  expectErrors(pattern: RegExp): void;
}

/**
 * Each worker has its server; a page fails its test on errors of its own, on a
 * breach of the Content-Security-Policy and on requests to anywhere else.
 */
export const test = base.extend<{ watch: Watch }, { weir: Weir }>({
  weir: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's form
    async ({}, use) => {
      const weir = await Weir.start();
      await use(weir);
      await weir.stop();
    },
    { scope: 'worker' },
  ],
  watch: [
    async ({ page }, use) => {
      const problems: string[] = [];
      const expected: RegExp[] = [];
      page.on('pageerror', (error) => problems.push(`page error: ${error.message}`));
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') problems.push(`console: ${message.text()}`);
      });
      page.on('request', (request) => {
        const { protocol, hostname } = new URL(request.url());
        if (/^(https?|wss?):$/.test(protocol) && hostname !== '127.0.0.1') problems.push(`request to ${request.url()}`);
      });
      await use({ expectErrors: (pattern) => expected.push(pattern) });
      expect(problems.filter((problem) => !expected.some((pattern) => pattern.test(problem)))).toEqual([]);
    },
    { auto: true },
  ],
});

export { expect };

/** No fault that axe calls serious or critical. */
export async function expectAccessible(page: Page, except: string[] = []): Promise<void> {
  const { violations } = await new AxeBuilder({ page })
    .options({ resultTypes: ['violations'] }) // of what passes it need not write where it is
    .disableRules(except)
    .setLegacyMode() // the pages have no frames, for which it would open a page of its own each time
    .analyze();
  const bad = violations
    .filter((v) => v.impact === 'serious' || v.impact === 'critical')
    .map((v) => `${v.id}: ${v.nodes.map((node) => node.target.join(' ')).join(', ')}`);
  expect(bad).toEqual([]);
}

/** The seqs that came over each of the page's WebSockets, in the order of arrival. */
export function watchSeqs(page: Page): number[][] {
  const sockets: number[][] = [];
  page.on('websocket', (socket) => {
    const seqs: number[] = [];
    sockets.push(seqs);
    socket.on('framereceived', ({ payload }) => {
      const message = JSON.parse(payload.toString());
      for (const event of message.payload?.data?.events ?? []) seqs.push(Number(event.seq));
    });
  });
  return sockets;
}

/** Loads the log from its beginning, page by page. */
export async function loadAll(page: Page): Promise<void> {
  const extent = page.locator('.log-extent');
  for (let now = await extent.textContent(); !now?.startsWith('Events 1–'); now = await extent.textContent()) {
    await page.getByRole('button', { name: /^Load older events/ }).click();
    await expect(extent).not.toHaveText(now ?? '');
  }
}

/** The last seq that the page holds. */
export async function lastSeq(page: Page): Promise<number> {
  const text = await page.locator('.log-extent').textContent();
  return Number(text?.match(/[\d,]+$/)?.[0].replaceAll(',', '') ?? 0);
}

/** "Events 1–n" in the foot of the timeline. */
export async function expectEvents(page: Page, last: number): Promise<void> {
  await expect(page.locator('.log-extent')).toHaveText(`Events 1–${last.toLocaleString('en')}`);
}

/** The badge in the head of a session's page. */
export async function expectStatus(page: Page, text: string, options: { timeout?: number } = {}): Promise<void> {
  await expect(page.locator('.session-head .badge')).toContainText(text, options);
}
