import { count } from '../src/app/ui/format';
import { expect, expectEvents, expectStatus, lastSeq, loadAll, test, watchSeqs } from './fixtures';
import { Weir } from './weir';

test('after kill -9 and a restart the page comes back by itself and shows everything', async ({ page, watch }) => {
  watch.expectErrors(/ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|WebSocket connection/);
  const weir = await Weir.start();
  try {
    const first = await weir.startRun({
      agent: 'script',
      stage: 'train',
      code: `
import json, time
for step in range(1, 100000):
    print(json.dumps({"step": step, "metrics": {"loss": 1 / step}}), flush=True)
    if step % 10 == 0: print(f"line {step}", flush=True)
    time.sleep(0.01)
`,
    });
    const sockets = watchSeqs(page);
    await page.goto(`${weir.url}/s/${first.session.id}`);
    // Far enough, and over the socket too: the page begins with what it asks for.
    await expect.poll(() => lastSeq(page)).toBeGreaterThan(60);
    await expect.poll(() => sockets.flat().length).toBeGreaterThan(20);
    await weir.kill();
    await expect(page.getByRole('status').filter({ hasText: 'Reconnecting' })).toBeVisible();
    const foot = page.locator('.resume');
    // This test hears of a frame later than the page does.
    const newest = () => Math.max(...sockets.flat());
    const shownUpTo = /Shown up to event ([\d,]+); it goes on from there by itself\.$/;
    await expect.poll(async () => shownUpTo.exec((await foot.textContent()) ?? '')?.[1] === count(newest())).toBe(true);
    const seen = newest();
    await weir.up();

    await expect(page.getByRole('status').filter({ hasText: /Live|Up to date/ })).toBeVisible({ timeout: 20_000 });
    await expectStatus(page, 'Failed');
    await expectStatus(page, 'server lost');
    // The end of the lost run came after the cut, and the line counts it.
    await expect(foot).toHaveText(
      new RegExp(
        `^Connection back\\. Resumed after event ${count(seen)}: \\d+ events? came meanwhile, none is missing\\.$`,
      ),
    );

    // A second run of the same session, after the crash, streams into the same page.
    await weir.startRun({
      agent: 'script',
      stage: 'train',
      sessionId: first.session.id,
      command: ['echo', 'second life'],
    });
    await expect(page.getByText('second life').last()).toBeVisible();
    await expectStatus(page, 'Done');

    const log = await weir.log(first.session.id);
    expect(log.map((event) => event.seq)).toEqual(log.map((_, i) => i + 1));
    await expect.poll(newest).toBe(log.length);
    const seqs = sockets.flat();
    // Nothing that the page saw is missing, nothing came twice, nothing was skipped.
    expect(log.length).toBeGreaterThanOrEqual(seen);
    expect(new Set(seqs).size).toBe(seqs.length);
    expect(seqs).toEqual(log.slice(-seqs.length).map((event) => event.seq));
    await loadAll(page);
    await expectEvents(page, log.length);
    await expect(page.getByText('could not be had')).toHaveCount(0);
  } finally {
    await weir.stop();
  }
});
