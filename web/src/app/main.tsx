import 'uplot/dist/uPlot.min.css';
import './style.css';
import { createRoot } from 'react-dom/client';
import { Provider } from 'urql';
import { client } from './api/client';
import { parseRoute, path, sessionPath } from './ui/route';
import { App } from './views/app';

// Links with ?session= are as good as /s/ ones; the page shows one form only.
const route = parseRoute(new URL(location.href));
if (route.page === 'session' && location.pathname !== sessionPath(route.id)) {
  history.replaceState(null, '', sessionPath(route.id) + location.hash);
  path.set(location.href);
}

const root = document.getElementById('root');
if (root) {
  createRoot(root).render(
    <Provider value={client}>
      <App />
    </Provider>,
  );
}
