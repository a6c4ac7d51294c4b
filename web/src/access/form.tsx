import './form.css';
import { type FormEvent, useId, useState } from 'react';
import { access, keepToken, tryToken } from './token';

/** Asks for the token in place of the page, and goes on once the server has taken it. */
export function TokenForm() {
  const [text, setText] = useState('');
  const [problem, setProblem] = useState<string | null>(
    access.get().why === 'wrong' ? 'The server does not take the token that this tab has kept.' : null,
  );
  const [sending, setSending] = useState(false);
  const id = useId();

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const candidate = text.trim();
    setSending(true);
    setProblem(null);
    const refusal = await tryToken(candidate);
    setSending(false);
    if (refusal === null) keepToken(candidate);
    else setProblem(refusal);
  };

  return (
    <form className="token-form" aria-label="Access" onSubmit={(event) => void submit(event)}>
      <h1>This server asks for a token</h1>
      <label htmlFor={id}>Token</label>
      <input
        id={id}
        type="password"
        autoComplete="off"
        spellCheck={false}
        value={text}
        onChange={(event) => setText(event.target.value)}
        aria-describedby={`${id}-about`}
        aria-invalid={problem !== null}
      />
      <p id={`${id}-about`} className="token-about">
        It was given to the server when it was started (WEIR_TOKEN or --token-file). This tab keeps it until it is
        closed.
      </p>
      {problem && (
        <p role="alert" className="token-problem">
          {problem}
        </p>
      )}
      <button type="submit" disabled={sending || text.trim() === ''}>
        {sending ? 'Asking …' : 'Continue'}
      </button>
    </form>
  );
}
