import { expect, expectStatus, loadAll, test } from './fixtures';

test('a follow-up waits for the open run, or replaces it', async ({ page, weir }) => {
  const first = await weir.startRun({ agent: 'chatter', prompt: 'begin' });
  await page.goto(`${weir.url}/s/${first.session.id}`);
  await expect(page.getByText('I am at it.')).toHaveCount(1);
  const tool = page.getByRole('button', { name: /^execute_code/ });
  await expect(tool).toContainText('running');
  const composer = page.getByRole('form', { name: 'Follow-up' });
  const box = composer.getByLabel('Message to chatter');
  await box.fill('then this');
  await composer.getByRole('button', { name: 'Send' }).click();
  await expect(box).toHaveValue('');
  const runs = page.getByRole('region', { name: 'Runs', exact: true });
  await expect(runs).toContainText('Queued');
  expect((await weir.run(first.id)).status).toBe('RUNNING');

  await composer.getByLabel('While a run is open').selectOption('REPLACE');
  await box.fill('no, this instead');
  await box.press('Enter');
  await expect(page.locator('.prompt', { hasText: 'no, this instead' })).toBeVisible();
  expect(await weir.run(first.id)).toMatchObject({ status: 'CANCELLED', exitReason: 'REPLACED' });
  await expect(runs).toContainText('replaced');
});

test('what an aborted run left open is shown as stopped, also after a reload', async ({ page, weir }) => {
  const started = await weir.startRun({ agent: 'chatter', prompt: 'begin' });
  await page.goto(`${weir.url}/s/${started.session.id}`);
  const tool = page.getByRole('button', { name: /^execute_code/ });
  await expect(tool).toContainText('running');
  await weir.query('mutation ($id: ID!) { abortRun(id: $id, wait: true) { outcome } }', { id: started.id });
  await expectStatus(page, 'Cancelled');
  await expect(page.locator('.working')).toHaveCount(0);
  await page.reload();
  await expectStatus(page, 'Cancelled');
  await expect(tool).toBeVisible();
  await expect(page.locator('.working')).toHaveCount(0);
});

test('an execution that began before the loaded events shows its command and all its lines', async ({ page, weir }) => {
  const started = await weir.startRun({
    agent: 'script',
    stage: 'train',
    code: `
import json, time
print(json.dumps({"chart_config": {"charts": [{"title": "Both", "metrics": ["loss", "accuracy"], "type": "line"}]}}))
for step in range(1000):
    loss = float("nan") if step == 999 else 1000
    print(json.dumps({"step": step, "metrics": {"zebra": 1, "loss": loss, "accuracy": 0.5, "apple": 2}}), flush=True)
    time.sleep(0.005)
print("the end")
`,
  });
  await page.goto(`${weir.url}/s/${started.session.id}`);
  await expectStatus(page, 'Done');
  await page.reload();
  await expectStatus(page, 'Done');
  await expect(page.getByRole('button', { name: /^Load older events/ })).toBeVisible();
  const titles = ['Both', 'apple', 'zebra'];
  await expect(page.locator('.chart figcaption')).toHaveText(titles);
  const loss = page.locator('.chart tbody tr', { hasText: 'loss' }).locator('td');
  await expect(loss).toHaveText(['NaN', '1000', '1000']);
  const card = page.locator('.row-execution .card');
  await expect(card).toContainText('Began before the events loaded here.');
  await expect(card.locator('.card-head')).toContainText('python');
  await expect(card.locator('.accounts')).toContainText('1,001 metric lines · 1,002 lines');
  await loadAll(page);
  await expect(page.locator('.chart figcaption')).toHaveText(titles);
});

test('the head says the last line of an error, and why a run has no curves', async ({ page, weir }) => {
  const failed = await weir.startRun({
    agent: 'script',
    stage: '',
    code: 'def f():\n  raise ValueError("x is 3")\nf()\n',
  });
  await page.goto(`${weir.url}/s/${failed.session.id}`);
  await expectStatus(page, 'Failed');
  await expect(page.locator('.head-error')).toHaveText(/^[^\n]+$/);
  await expect(page.getByText('This run has no stage, so its lines are not parsed for metrics.')).toBeVisible();
  await expect(page.locator('.session-facts')).not.toContainText('cost unknown');
  await expect(page.getByTitle('your own machine costs nothing').first()).toContainText('compute');
  await expect(page.getByRole('form', { name: 'Follow-up' })).toHaveCount(0);
});

test('an agent that cannot be used says why', async ({ page, weir }) => {
  await page.goto(weir.url);
  const menu = page.getByLabel('Agent');
  await expect(menu.locator('option', { hasText: 'cannot be used' })).toHaveCount(1);
  expect(await menu.textContent()).not.toContain('()');
  await menu.selectOption({ label: (await menu.locator('option', { hasText: 'cannot be used' }).textContent()) ?? '' });
  await expect(page.locator('.agent-problem')).toContainText('broken.yaml:2');
  await page.getByLabel('Prompt').fill('do it');
  await expect(page.getByRole('button', { name: 'Start', exact: true })).toBeDisabled();
});

test('the playground can be reached on a small screen', async ({ page, weir }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(weir.url);
  await page.getByRole('link', { name: 'Playground' }).click();
  await expect(page).toHaveURL(`${weir.url}/playground`);
});
