import { expect, expectAccessible, test } from './fixtures';

test('the playground runs a query and a subscription, offline', async ({ page, weir }) => {
  const started = await weir.startRun({
    agent: 'script',
    command: ['sh', '-c', 'for i in 1 2 3; do echo tick $i; done'],
  });
  await expect.poll(async () => (await weir.run(started.id)).status).toBe('DONE');
  await page.goto(`${weir.url}/playground`);
  const editor = page.locator('.graphiql-query-editor .monaco-editor').first();
  await expect(editor).toBeVisible({ timeout: 30_000 });
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

for (const scheme of ['light', 'dark'] as const) {
  test(`the playground has no serious fault that is ours, ${scheme}`, async ({ page, weir }) => {
    await page.emulateMedia({ colorScheme: scheme });
    await page.goto(`${weir.url}/playground`);
    await expect(page.locator('.graphiql-query-editor .monaco-editor').first()).toBeVisible({ timeout: 30_000 });
    // GraphiQL's tab list holds buttons within tabs; it is not ours to change.
    await expectAccessible(page, ['nested-interactive']);
  });
}
