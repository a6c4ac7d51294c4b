import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from '@playwright/test';
import { expect, expectAccessible, expectStatus, test } from './fixtures';

const shots = process.env.WEIR_SHOTS;

async function shot(page: Page, name: string): Promise<void> {
  if (!shots) return;
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: join(shots, `${name}.png`), animations: 'disabled' });
}

for (const scheme of ['light', 'dark'] as const) {
  for (const width of [1440, 390]) {
    test.describe(`${scheme}, ${width} px`, () => {
      const narrow = width === 390;
      test.use({
        viewport: { width, height: narrow ? 844 : 900 },
        isMobile: narrow,
        hasTouch: narrow,
        deviceScaleFactor: narrow ? 2 : 1,
        colorScheme: scheme,
        contextOptions: { reducedMotion: 'reduce' },
      });

      test('the pages are accessible and fit their width', async ({ page, weir }) => {
        const script = await weir.startRun({
          agent: 'script',
          stage: 'train',
          code: `
import json, math
print(json.dumps({"chart_config": {"charts": [{"title": "Loss", "metrics": ["loss", "val_loss"], "type": "line"}]}}))
for step in range(200):
    loss = math.exp(-step / 60)
    point = {"loss": loss, "val_loss": loss + 0.1, "accuracy": 1 - loss}
    if step == 90: point["loss"] = float("inf")
    print(json.dumps({"step": step, "metrics": point}))
    if step % 25 == 0: print(f"\\033[36mepoch {step}\\033[0m: loss {loss:.3f}")
print(json.dumps({"log": {"type": "confusion_matrix", "step": 1, "key": "val", "data": {"labels": ["a", "b"], "matrix": [[9, 1], [0, 10]]}}}))
print("[INFO] " + json.dumps({"step": 1, "metrics": {"loss": 1}}))
`,
        });
        const tour = await weir.startRun({ agent: 'tour', prompt: 'show me around' });
        await page.goto(weir.url);
        await expect(page.getByRole('link', { name: new RegExp(script.session.id) })).toBeVisible();
        await expectAccessible(page);
        await expectNoSidewaysScroll(page);
        await shot(page, `home-${width}-${scheme}`);

        await page.goto(`${weir.url}/s/${script.session.id}`);
        await expectStatus(page, 'Done');
        await expectAccessible(page);
        await expectNoSidewaysScroll(page);
        await shot(page, `script-${width}-${scheme}`);
        if (narrow) await page.getByRole('button', { name: 'Curves' }).click();
        await expect(page.locator('.plot canvas').first()).toBeVisible();
        await expectAccessible(page);
        if (narrow) await shot(page, `curves-${width}-${scheme}`);

        await page.goto(`${weir.url}/s/${tour.session.id}`);
        await expect(page.getByText('1 question waiting for your answer')).toBeVisible();
        await expectAccessible(page);
        await expectNoSidewaysScroll(page);
        await shot(page, `tour-${width}-${scheme}`);
        await weir.query('mutation ($id: ID!) { abortRun(id: $id) { outcome } }', { id: tour.id });
        await expect(page.getByRole('region', { name: 'Abort receipt' })).toContainText('Stopped.');
        await expectAccessible(page);
        await shot(page, `aborted-${width}-${scheme}`);

        const failed = await weir.startRun({
          agent: 'script',
          stage: '',
          code: 'def f():\n  raise ValueError("x is 3")\nf()\n',
        });
        await page.goto(`${weir.url}/s/${failed.session.id}`);
        await expectStatus(page, 'Failed');
        await expectAccessible(page);
        await expectNoSidewaysScroll(page);
        await shot(page, `failed-${width}-${scheme}`);
      });
    });
  }
}

test('the chosen theme overrides the system and is remembered', async ({ page, weir }) => {
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto(weir.url);
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByLabel('Theme').selectOption('dark');
  const dark = await background();
  expect(dark).not.toBe(light);
  await page.reload();
  expect(await background()).toBe(dark);
  await page.getByLabel('Theme').selectOption('light');
  await page.emulateMedia({ colorScheme: 'dark' });
  expect(await background()).toBe(light);
  await page.getByLabel('Theme').selectOption('system');
  expect(await background()).toBe(dark);
});

async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(over).toBe(0);
}
