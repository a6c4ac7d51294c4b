import { expect, expectAccessible, expectStatus, test } from './fixtures';
import { Weir } from './weir';

const token = 'a token of the tests 123'.replaceAll(' ', '-');

test('the page asks for the token, says when it is wrong, and goes on with the right one', async ({ page, watch }) => {
  watch.expectErrors(/401|WebSocket connection/);
  const weir = await Weir.start(token);
  try {
    const started = await weir.startRun({ agent: 'script', command: ['echo', 'behind the door'] });
    const address = `${weir.url}/s/${started.session.id}`;
    await page.goto(address);
    const form = page.getByRole('form', { name: 'Access' });
    await expect(form).toBeVisible();
    await expect(page.getByText('behind the door')).toHaveCount(0);
    await expectAccessible(page);
    await form.getByLabel('Token').fill('not-the-right-token');
    await form.getByRole('button', { name: 'Continue' }).click();
    await expect(form.getByRole('alert')).toContainText('not the token');

    await form.getByLabel('Token').fill(token);
    await form.getByRole('button', { name: 'Continue' }).click();
    await expectStatus(page, 'Done');
    await expect(page).toHaveURL(address);
    await expect(page.locator('.output')).toContainText('behind the door');
    // The WebSocket took it too.
    await expect(page.getByRole('status').filter({ hasText: 'Up to date' })).toBeVisible();

    await page.reload();
    await expect(page.locator('.output')).toContainText('behind the door');
    // A plain link sends no token.
    const download = page.waitForEvent('download');
    await page.getByRole('link', { name: 'raw stdout' }).click();
    const stream = await (await download).createReadStream();
    let text = '';
    for await (const piece of stream) text += piece;
    expect(text).toBe('behind the door\n');
    await page.goto(weir.url);
    await page.getByLabel('Python code').fill('print("started with a token")');
    await page.getByRole('button', { name: 'Start', exact: true }).click();
    await expectStatus(page, 'Done');

    await page.evaluate(() => sessionStorage.setItem('weir.token', 'a-token-of-yesterday'));
    await page.reload();
    await expect(form.getByRole('alert')).toContainText('does not take the token');
  } finally {
    await weir.stop();
  }
});

test('the playground asks for the token and sends it in queries and subscriptions', async ({ page, watch }) => {
  watch.expectErrors(/401|WebSocket connection/);
  const weir = await Weir.start(token);
  try {
    const started = await weir.startRun({ agent: 'script', command: ['true'] });
    await expect.poll(async () => (await weir.run(started.id)).status).toBe('DONE');
    const query = `subscription { events(sessionId: "${started.session.id}", types: [RUN_ENDED]) { seq type } }`;
    await page.goto(`${weir.url}/playground`);
    const form = page.getByRole('form', { name: 'Access' });
    await expect(form).toBeVisible({ timeout: 30_000 });
    await expectAccessible(page);
    await form.getByLabel('Token').fill(token);
    await form.getByRole('button', { name: 'Continue' }).click();
    const editor = page.locator('.graphiql-query-editor .monaco-editor').first();
    await expect(editor).toBeVisible({ timeout: 30_000 });
    const result = page.locator('.graphiql-response .view-lines');
    await page.getByRole('button', { name: /Execute query/ }).click();
    await expect(result).toContainText('sqlite');
    await editor.click();
    await page.keyboard.press('Control+A');
    await page.keyboard.insertText(query);
    await expect(page.locator('.graphiql-query-editor .view-lines')).toContainText('RUN_ENDED');
    // The playground tells subscriptions by the parsed document; parsing waits for a pause.
    await page.waitForTimeout(1_000);
    await page.getByRole('button', { name: /Execute query/ }).click();
    await expect(result).toContainText('"type": "RUN_ENDED"'.replaceAll(' ', '\u00a0'));
  } finally {
    await weir.stop();
  }
});
