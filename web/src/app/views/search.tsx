import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import { useSignal } from '../ui/hooks';
import { keepSearch, path, searchOf } from '../ui/route';

const pauseMs = 250;
/** The server takes 1,000 bytes. */
const longest = 200;

/** The search of the sessions list. What is typed goes into the address after a pause; the list follows the address. */
export function Search() {
  const kept = searchOf(useSignal(path));
  const [text, setText] = useState(kept);
  const sent = useRef(kept);
  const input = useRef<HTMLInputElement>(null);

  // The address changed by other means: the way back, or a button.
  if (kept !== sent.current) {
    sent.current = kept;
    setText(kept);
  }
  const keep = (next: string) => {
    sent.current = next;
    keepSearch(next);
  };
  useEffect(() => {
    if (text === sent.current) return;
    const timer = setTimeout(() => {
      sent.current = text;
      keepSearch(text);
    }, pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    const onSlash = (event: globalThis.KeyboardEvent) => {
      if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      const at = event.target as HTMLElement | null;
      if (at?.closest('input, textarea, select, [contenteditable]')) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener('keydown', onSlash);
    return () => removeEventListener('keydown', onSlash);
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'Enter') keep(text);
    if (event.key === 'Escape') {
      event.preventDefault();
      setText('');
      keep('');
    }
  };
  return (
    <search className="search">
      <input
        ref={input}
        type="search"
        aria-label="Search sessions"
        aria-keyshortcuts="/"
        placeholder="Title, agent, prompt or id"
        autoComplete="off"
        spellCheck={false}
        maxLength={longest}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={onKeyDown}
      />
      <span className="key" aria-hidden="true">
        /
      </span>
    </search>
  );
}
