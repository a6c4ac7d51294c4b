import type { Page } from '@playwright/test';
import { expect, expectAccessible, expectStatus, test } from './fixtures';

const stubborn = `# Count until told to stop
import json, signal, time
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
open("model.txt", "w").write("weights")
step = 0
while not stopped:
    step += 1
    print(json.dumps({"step": step, "metrics": {"loss": 1 / step}}), flush=True)
    if step % 10 == 0: print(f"line {step}", flush=True)
    time.sleep(0.02)
`;

test('sessions are found by title, agent, prompt and id, and the address keeps the search', async ({ page, weir }) => {
  const named = await weir.startRun({ agent: 'script', title: 'Blüten 100%', command: ['true'] });
  const asked = await weir.startRun({ agent: 'tour', prompt: 'Heading\nwith a needle in it' });
  await page.goto(weir.url);
  const lines = page.locator('.session-line');
  await expect(lines.filter({ hasText: named.session.id })).toBeVisible();
  await page.locator('h1').click();
  await page.keyboard.press('/');
  const box = page.getByRole('searchbox', { name: 'Search sessions' });
  await expect(box).toBeFocused();
  await page.keyboard.type('NEEDLE');
  await expect(lines).toHaveCount(1);
  await expect(lines).toContainText('Heading');
  await expect(lines).toContainText('tour');
  await expect(page).toHaveURL(`${weir.url}/?q=NEEDLE`);
  for (const [text, id] of [
    ['blüten 100%', named.session.id],
    [asked.session.id.slice(8), asked.session.id],
  ] as const) {
    await box.fill(text);
    await expect(lines).toHaveCount(1);
    await expect(lines).toContainText(id);
  }
  await lines.click();
  await expect(page.locator('h1')).toHaveText('Heading');
  await page.goBack();
  await expect(box).toHaveValue(asked.session.id.slice(8));
  await expect(lines).toHaveCount(1);

  await box.fill('no such <thing>');
  await expect(page.getByText('No session has “no such <thing>” in its title, agent, prompt or id.')).toBeVisible();
  await expectAccessible(page);
  await page.reload();
  await expect(box).toHaveValue('no such <thing>');
  await page.getByRole('button', { name: 'Show all sessions' }).click();
  await expect(box).toHaveValue('');
  await expect(page).toHaveURL(`${weir.url}/`);
  await expect(lines.filter({ hasText: named.session.id })).toBeVisible();
  // A slash that is typed is a slash.
  await page.getByLabel('Stage').focus();
  await page.keyboard.press('/');
  await expect(box).not.toBeFocused();
  await weir.query('mutation ($id: ID!) { abortRun(id: $id, wait: true) { outcome } }', { id: asked.id });
});

test('a run is started, watched and aborted by keyboard alone, and the focus is always seen', async ({
  page,
  weir,
}) => {
  await page.setViewportSize({ width: 800, height: 900 });
  await page.goto(weir.url);
  await expect(page.locator('#root main')).toBeVisible();
  await tabTo(page, 'Agent');
  await page.keyboard.type('script');
  await tabTo(page, 'Python code');
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(stubborn);
  await tabTo(page, 'Stage');
  await tabTo(page, 'Start');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\/s\/ses_/);
  await expect(page.locator('h1')).toHaveText('Count until told to stop');
  await expect(page.locator('h1')).toBeFocused();
  await expectStatus(page, 'Running');
  await expect(page.locator('.output')).toContainText('line 10');

  await tabTo(page, 'Curves');
  await page.keyboard.press('Enter');
  await expect(page.locator('.plot canvas')).toBeVisible();
  await expect(page.locator('.timeline')).toBeHidden();
  await tabTo(page, 'Timeline', 'Shift+Tab');
  await page.keyboard.press('Space');
  await expect(page.locator('.output')).toBeVisible();
  await tabTo(page, 'Abort', 'Shift+Tab');
  await page.keyboard.press('Enter');
  const receipt = page.getByRole('region', { name: 'Abort receipt' });
  await expect(receipt).toContainText('Stopped. Nothing is left running.');
  await expect(receipt.locator('summary')).toBeFocused();
  await expectStatus(page, 'Cancelled');
  await page.keyboard.press('Enter');
  await expect(receipt.getByText('Process gone')).toBeHidden();
});

test.describe('on a phone', () => {
  test.use({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });

  test('a run is started, watched and aborted, and leaves its files', async ({ page, weir }) => {
    await page.goto(weir.url);
    await page.getByLabel('Python code').fill(stubborn);
    await page.getByRole('button', { name: 'Start', exact: true }).tap();
    await page.waitForURL(/\/s\/ses_/);
    await expect(page.locator('.output')).toContainText('line 10');
    await page.getByRole('button', { name: 'Curves' }).tap();
    await expect(page.locator('.plot canvas')).toBeInViewport();
    const files = page.getByRole('region', { name: 'Files' });
    await page.getByRole('button', { name: 'Abort' }).tap();
    await expect(page.getByRole('region', { name: 'Abort receipt' })).toContainText('Stopped.');
    await expect(files.getByRole('row', { name: 'model.txt' })).toContainText('7 B');
    const raw = files.getByRole('link', { name: 'raw stdout' });
    const download = page.waitForEvent('download');
    await raw.tap();
    const stream = await (await download).createReadStream();
    let text = '';
    for await (const piece of stream) text += piece;
    expect(text).toMatch(/^\{"step": 1, "metrics": \{"loss": 1\.0\}\}\n/);
    await expectAccessible(page);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  });
});

/** Presses Tab until the element of this name has the focus; each stop on the way must be seen. */
async function tabTo(page: Page, name: string, key: 'Tab' | 'Shift+Tab' = 'Tab'): Promise<void> {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press(key);
    const at = await page.evaluate(() => {
      const element = document.activeElement as HTMLElement | null;
      if (!element || element === document.body) return null;
      const style = getComputedStyle(element);
      const labels = (element as HTMLInputElement).labels;
      return {
        name: element.getAttribute('aria-label') ?? labels?.[0]?.textContent ?? element.textContent ?? '',
        seen: style.outlineStyle !== 'none' && Number.parseFloat(style.outlineWidth) >= 2,
      };
    });
    if (!at) continue; // the browser's own controls
    expect(at.seen, `the focus on "${at.name.slice(0, 40)}" is seen`).toBe(true);
    if (at.name.trim() === name) return;
  }
  throw new Error(`no Tab leads to ${name}`);
}
