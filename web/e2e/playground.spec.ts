import { expect, expectAccessible, test } from './fixtures';

// GraphiQL's tab list holds buttons within tabs; it is not ours to change.
const notOurs = ['nested-interactive'];

test('the playground has no serious fault that is ours and runs a query and a subscription, offline', async ({
  page,
  weir,
}) => {
  await page.emulateMedia({ colorScheme: 'light' });
  const started = await weir.startRun({
    agent: 'script',
    command: ['sh', '-c', 'for i in 1 2 3; do echo tick $i; done'],
  });
  await expect.poll(async () => (await weir.run(started.id)).status).toBe('DONE');
  await page.goto(`${weir.url}/playground`);
  const editor = page.locator('.graphiql-query-editor .monaco-editor').first();
  await expect(editor).toBeVisible({ timeout: 30_000 });
  await expectAccessible(page, notOurs);
  const type = async (text: string) => {
    await editor.click();
    await page.keyboard.press('Control+A');
    await page.keyboard.insertText(text);
    // The playground tells subscriptions by the parsed document; parsing waits for a pause.
    await expect(page.locator('.graphiql-query-editor .view-lines')).toContainText(
      text.slice(0, 20).replaceAll(' ', '\u00a0'),
    );
    await page.waitForTimeout(1_000);
    await page.getByRole('button', { name: /Execute query/ }).click();
  };
  const result = page.locator('.graphiql-response .view-lines');
  await type('query { server { version store } }');
  await expect(result).toContainText('sqlite');
  await type(`subscription { events(sessionId: "${started.session.id}", types: [RUN_ENDED]) { seq type } }`);
  await expect(result).toContainText('RUN_ENDED');
});

test('the playground has no serious fault that is ours in the dark either', async ({ page, weir }) => {
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.goto(`${weir.url}/playground`);
  await expect(page.locator('.graphiql-query-editor .monaco-editor').first()).toBeVisible({ timeout: 30_000 });
  await expectAccessible(page, notOurs);
});
