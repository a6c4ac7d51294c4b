import { count, value } from '../src/app/ui/format';
import { expect, expectEvents, expectStatus, lastSeq, loadAll, test, watchSeqs } from './fixtures';

const code = `
import json, sys, time
print("hello \\033[31mred\\033[0m")
for step in range(1, 41):
    print(json.dumps({"step": step, "metrics": {"loss": float("nan") if step == 20 else 1 / step}}), flush=True)
    time.sleep(0.02)
print("10 %\\r100 %")
print("to the error stream", file=sys.stderr)
print("<script>alert(1)</script> \\u202e end")
`;

test('a script started on the page streams its output and its curve', async ({ page, weir }) => {
  await page.goto(weir.url);
  await page.getByLabel('Agent').selectOption('script');
  await page.getByLabel('Python code').fill(code);
  await page.getByLabel('Stage').fill('train');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.waitForURL(/\/s\/ses_/);

  await expect(page.locator('.chart figcaption')).toContainText('loss');
  await expectStatus(page, 'Done');
  await expect(page.getByText('train_done').first()).toBeVisible();
  await expect(page.getByRole('status').filter({ hasText: 'Up to date' })).toBeVisible();

  const output = page.locator('.output');
  await expect(output.locator('.line-text').first()).toHaveText('hello red');
  await expect(output.locator('.fg1')).toHaveText('red');
  await expect(output).toContainText('100 %');
  await expect(output).not.toContainText('10 %1');
  await expect(output.locator('.stderr')).toHaveText(/to the error stream/);
  await expect(output).toContainText('<script>alert(1)</script> U+202E end');
  await page.getByRole('button', { name: 'Show 40 metric lines' }).click();
  await expect(output).toContainText('"step": 40');

  const legend = page.locator('.chart tbody tr');
  await expect(legend).toHaveCount(1);
  await expect(legend).toContainText('1 not finite');
  await expect(legend.locator('td').first()).toHaveText('0.025');
  await expect(page.locator('.plot canvas')).toBeVisible();
});

test('a reload in mid-run misses nothing and shows nothing twice', async ({ page, weir }) => {
  const started = await weir.startRun({
    agent: 'script',
    stage: 'train',
    code: `
import json, signal, time
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
step = 0
while not stopped:
    step += 1
    print(json.dumps({"step": step, "metrics": {"loss": 1 / step, "odd": step % 7}}), flush=True)
    if step % 10 == 0: print(f"line {step}", flush=True)
    time.sleep(0.005)
print("the end", flush=True)
`,
  });
  const sockets = watchSeqs(page);
  await page.goto(`${weir.url}/?session=${started.session.id}`);
  await expect(page).toHaveURL(`${weir.url}/s/${started.session.id}`);
  await expect(page.getByRole('status').filter({ hasText: 'Live' })).toBeVisible();
  await expect.poll(() => lastSeq(page)).toBeGreaterThan(100);
  await page.reload();
  await expect.poll(() => lastSeq(page)).toBeGreaterThan(700);
  await weir.query('mutation ($id: ID!) { abortRun(id: $id, wait: true) { outcome } }', { id: started.id });
  await expectStatus(page, 'Cancelled');

  const log = await weir.log(started.session.id);
  expect(log.map((event) => event.seq)).toEqual(log.map((_, i) => i + 1));
  const seqs = sockets.at(-1) ?? [];
  // This test hears of a frame later than the page does.
  await expect.poll(() => seqs.at(-1)).toBe(log.length);
  // What came live after the reload is the end of the log, each event once and in order.
  expect(seqs.length).toBeGreaterThan(0);
  expect(new Set(seqs).size).toBe(seqs.length);
  expect(seqs).toEqual(log.slice(-seqs.length).map((event) => event.seq));
  await loadAll(page);
  await expectEvents(page, log.length);

  const text = log
    .filter((event) => event.type === 'OUTPUT_WRITTEN')
    .map((event) => event.text)
    .join('');
  const lines = text.trimEnd().split('\n');
  const steps = lines.filter((line) => line.startsWith('{')).length;
  expect(lines.at(-1)).toBe('the end');
  expect(lines.length).toBe(steps + Math.floor(steps / 10) + 1);
  await page.getByRole('button', { name: `Show ${count(steps)} metric lines` }).click();
  await page.getByRole('button', { name: `${count(lines.length - 12)} more above` }).click();
  const shown = page.locator('.output-all .line-text');
  await expect(shown.last()).toHaveText(lines.at(-1) ?? '');
  await page.locator('.output-all .follow-scroll').focus();
  await page.keyboard.press('Home');
  await expect(shown.first()).toHaveText(lines[0] ?? '');
  // The curve holds every point: its numbers come from all of them.
  const loss = page.locator('.chart', { hasText: 'loss' }).locator('tbody td');
  await expect(loss.nth(0)).toHaveText(value(1 / steps));
  await expect(loss.nth(2)).toHaveText('1');
});

test('abort shows its receipt step by step', async ({ page, weir }) => {
  const started = await weir.startRun({
    agent: 'script',
    stage: 'train',
    sandbox: { graceSeconds: 2 },
    code: `
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("I will not go", flush=True)
while True: time.sleep(1)
`,
  });
  await page.goto(`${weir.url}/s/${started.session.id}`);
  await expect(page.locator('.output')).toContainText('I will not go');
  await page.getByRole('button', { name: 'Abort' }).click();
  const receipt = page.getByRole('region', { name: 'Abort receipt' });
  await expect(receipt).toContainText('Stopping');
  await expect(receipt).toContainText('Stopped. Nothing is left running.');
  for (const step of ['Requested', 'Signalled', 'Process gone', 'Sandbox gone']) {
    await expect(receipt.locator('li.step-done', { hasText: step })).toBeVisible();
  }
  await expectStatus(page, 'Cancelled');
  await expect(page.getByRole('button', { name: 'Abort' })).toHaveCount(0);
  expect(await weir.run(started.id)).toEqual({ status: 'CANCELLED', exitReason: 'ABORTED' });
  await page.reload();
  await expect(receipt).toContainText('Stopped. Nothing is left running.');
});

test('a replayed agent shows its text, tools, child run and questions, and gets its answers', async ({
  page,
  weir,
}) => {
  await page.goto(weir.url);
  await page.getByLabel('Agent').selectOption('tour');
  await page.getByLabel('Prompt').fill('show me around');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await expectStatus(page, 'Waiting for you');
  await expect(page.getByText('the weather may change')).toBeVisible();

  const timeline = page.getByRole('feed', { name: 'Events' });
  await timeline.focus();
  await page.keyboard.press('Home');
  await expect(page.getByRole('heading', { name: 'Run tour' })).toBeVisible();
  // Only rows in view exist: what was said first is looked for at the top.
  await expect(page.getByText('Hello, this is **plain** text with <b>no</b> markup.')).toBeVisible();
  const thought = page.getByRole('button', { name: /^Thought/ });
  await expect(thought).toHaveAttribute('aria-expanded', 'false');
  await thought.click();
  await expect(page.getByText('Then I decide.')).toBeVisible();
  const tools = page.getByRole('button', { name: /^execute_code/ });
  await expect(tools.nth(0)).toContainText('ok');
  await expect(tools.nth(0)).toHaveAttribute('aria-expanded', 'false');
  await expect(tools.nth(1)).toContainText('failed');
  await expect(tools.nth(1)).toHaveAttribute('aria-expanded', 'true');
  await tools.nth(0).click();
  await expect(page.locator('.fg1')).toHaveText('stop');

  await page.getByRole('button', { name: /Latest|new/ }).click();
  await page.getByRole('button', { name: 'go on' }).click();
  const answer = page.getByLabel('Your answer as JSON');
  await answer.fill('{n: 2}');
  await page.getByRole('button', { name: 'Answer' }).click();
  await expect(page.getByRole('alert')).toContainText('This is not JSON');
  await answer.fill('{"n": 2}');
  await page.getByRole('button', { name: 'Answer' }).click();
  await expect(page.getByText('Done.', { exact: true })).toBeVisible();
  await expectStatus(page, 'Done');
  await expect(page.getByRole('region', { name: 'Runs', exact: true })).toContainText('helper');
  await expect(page.getByRole('region', { name: 'Runs', exact: true })).toContainText('1,200 in');
});

test('the list shows live sessions first and follows them', async ({ page, weir }) => {
  await page.goto(weir.url);
  await expect(page.getByRole('status').filter({ hasText: 'Connected' })).toBeVisible();
  const started = await weir.startRun({ agent: 'script', command: ['sleep', '600'] });
  const line = page.getByRole('link', { name: new RegExp(started.session.id) });
  await expect(line).toContainText('Running');
  await expect(page.getByRole('heading', { name: 'Live' })).toBeVisible();
  await weir.query('mutation ($id: ID!) { abortRun(id: $id, wait: true) { outcome } }', { id: started.id });
  await expect(line).toContainText('Cancelled');
  await line.click();
  await expect(page).toHaveURL(`${weir.url}/s/${started.session.id}`);
});

test('what is not there is said plainly', async ({ page, weir }) => {
  await page.goto(`${weir.url}/s/ses_00000000000000000000000000`);
  await expect(page.getByRole('heading', { name: 'This session cannot be shown' })).toBeVisible();
  await page.goto(`${weir.url}/nowhere`);
  await expect(page.getByRole('heading', { name: 'There is no such page' })).toBeVisible();
  await page.goto(weir.url);
  await page.getByLabel('Python code').fill('print(1)');
  await page.getByLabel('Stage').fill('no spaces please');
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await expect(page.getByRole('alert')).toContainText('no spaces please');
});

test('zooming a folded curve shows the steps themselves, and new points do not end the zoom', async ({
  page,
  weir,
}) => {
  const started = await weir.startRun({
    agent: 'script',
    stage: 'train',
    code: `
import json, time
for step in range(6001):
    print(json.dumps({"step": step, "metrics": {"loss": 1000 if step == 3001 else step % 10}}))
print("written", flush=True)
for step in range(6001, 100000):
    print(json.dumps({"step": step, "metrics": {"loss": 5}}), flush=True)
    time.sleep(0.05)
`,
  });
  await page.goto(`${weir.url}/s/${started.session.id}`);
  await expect(page.locator('.output')).toContainText('written');
  const chart = page.locator('.chart');
  // No spike is lost by folding.
  await expect(chart.locator('tbody td').nth(2)).toHaveText('1000');
  const over = chart.locator('.u-over');
  const box = await over.boundingBox();
  if (!box) throw new Error('no chart');
  const y = box.y + box.height / 2;
  const step = async (x: number) => {
    await page.mouse.move(box.x + x, y);
    return Number((await chart.locator('figcaption .num').textContent())?.replace(/\D/g, ''));
  };
  await page.mouse.move(box.x + box.width * 0.45, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.52, y, { steps: 5 });
  await page.mouse.up();
  await expect(chart.getByRole('button', { name: 'Reset zoom' })).toBeVisible();
  // In the exact data neighbouring pixels reach odd steps, which no folded bucket begins at.
  await expect
    .poll(async () => {
      const steps: number[] = [];
      for (let x = 20; x < 60; x += 2) steps.push(await step(x));
      return steps.some((s) => s % 2 === 1);
    })
    .toBe(true);
  const before = await lastSeq(page);
  await expect.poll(() => lastSeq(page)).toBeGreaterThan(before + 20);
  await weir.query('mutation ($id: ID!) { abortRun(id: $id, wait: true) { outcome } }', { id: started.id });
  await expectStatus(page, 'Cancelled');
  await expect(chart.getByRole('button', { name: 'Reset zoom' })).toBeVisible();
  expect(await step(box.width - 2)).toBeLessThan(4_000);
  await chart.getByRole('button', { name: 'Reset zoom' }).click();
  await expect(chart.getByRole('button', { name: 'Reset zoom' })).toHaveCount(0);
  expect(await step(box.width - 2)).toBeGreaterThan(5_900); // a pixel holds some steps
});

test('the timeline follows its end until the reader scrolls up, and again when asked', async ({ page, weir }) => {
  const started = await weir.startRun({
    agent: 'script',
    stage: 'train',
    code: `
import json, time
for i in range(4000):
    print(json.dumps({"log": {"type": "text", "step": i, "key": f"note {i}", "data": {"text": "a note"}}}), flush=True)
    time.sleep(0.03)
`,
  });
  await page.goto(`${weir.url}/s/${started.session.id}`);
  const rows = page.locator('.row-media');
  const newestInView = async () => {
    const row = rows.last();
    await expect(row).toBeInViewport();
    return Number(await row.getAttribute('data-seq'));
  };
  await expect.poll(newestInView).toBeGreaterThan(60);
  await expect.poll(newestInView).toBeGreaterThan(120);

  await page.locator('.timeline-list').hover();
  await page.mouse.wheel(0, -900);
  const pill = page.locator('.timeline-list > .pill');
  await expect(pill).toBeVisible();
  const unread = async () => Number((await pill.textContent())?.match(/^\d+/)?.[0] ?? 0);
  const firstInView = () =>
    page.locator('.timeline-list').evaluate((list) => {
      const top = list.getBoundingClientRect().top;
      for (const row of list.querySelectorAll('.row')) {
        const box = row.getBoundingClientRect();
        if (box.bottom > top) return { seq: row.getAttribute('data-seq'), y: Math.round(box.top) };
      }
      return null;
    });
  await expect.poll(unread).toBeGreaterThan(3);
  const place = await firstInView();
  expect(place).not.toBeNull();
  const before = await unread();
  await expect.poll(unread).toBeGreaterThan(before + 20);
  expect(await firstInView()).toEqual(place);

  await pill.click();
  await expect(pill).toHaveCount(0);
  const seen = await newestInView();
  await expect.poll(newestInView).toBeGreaterThan(seen + 20);
  await weir.query('mutation ($id: ID!) { abortRun(id: $id, wait: true) { outcome } }', { id: started.id });
  await expect(page.locator('.row-end')).toBeInViewport();
});
