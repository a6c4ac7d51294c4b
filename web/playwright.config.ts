import { defineConfig } from '@playwright/test';

// WEIR_BIN: the binary to test (default: built here from the repository).
// WEIR_CHROMIUM: the browser. WEIR_SHOTS: a folder for screenshots.
export default defineConfig({
  testDir: 'e2e',
  globalSetup: './e2e/build.ts',
  fullyParallel: true,
  workers: 2,
  // A browser on a busy machine may be late once; a retry is reported as flaky.
  retries: process.env.CI ? 1 : 0,
  forbidOnly: process.env.CI === 'true',
  timeout: 120_000,
  expect: { timeout: 15_000 },
  outputDir: 'test-results',
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    video: 'off',
    // A trace costs a fifth of the time: in CI it is written when a test is tried again.
    trace: process.env.CI ? 'on-first-retry' : 'retain-on-failure',
    launchOptions: {
      executablePath: process.env.WEIR_CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    },
  },
});
