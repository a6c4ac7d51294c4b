import { Signal } from '../api/signal';

export type Theme = 'system' | 'light' | 'dark';

const key = 'weir.theme';

function stored(): Theme {
  try {
    const value = localStorage.getItem(key);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system'; // storage may be forbidden
  }
}

export const theme = new Signal<Theme>(stored());

const dark = matchMedia('(prefers-color-scheme: dark)');

/** Whether the page is dark now; canvases need to know, CSS does not. */
export const isDark = new Signal(false);

function apply(): void {
  const chosen = theme.get();
  document.documentElement.dataset.theme = chosen;
  isDark.set(chosen === 'system' ? dark.matches : chosen === 'dark');
}

export function setTheme(next: Theme): void {
  theme.set(next);
  try {
    if (next === 'system') localStorage.removeItem(key);
    else localStorage.setItem(key, next);
  } catch {
    // The choice then lasts as long as the page.
  }
}

theme.subscribe(apply);
dark.addEventListener('change', apply);
apply();
