import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The page runs under a Content-Security-Policy without data: scripts and
// fonts, so nothing is inlined. The build is committed: no source maps, and
// nothing in it may depend on the time, the machine or the folder.
export default defineConfig({
  base: '/',
  plugins: [react()],
  build: {
    target: 'es2022',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    sourcemap: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 4096,
    manifest: 'manifest.json',
    license: { fileName: 'licenses.md' },
    rolldownOptions: {
      input: { app: 'index.html', playground: 'playground.html' },
      // GraphiQL's sources carry a "use no memo" that means nothing to a bundler.
      onLog: (level, log, show) => {
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') show(level, log);
      },
    },
  },
  worker: { format: 'es' },
  server: {
    host: '127.0.0.1',
    proxy: {
      '/graphql': { target: process.env.WEIR_URL ?? 'http://127.0.0.1:8080', ws: true, changeOrigin: true },
    },
  },
});
