import { type FormEvent, useId, useState } from 'react';
import { AnswerQuestionDocument } from '../../gql/graphql';
import { client } from '../api/client';
import { problemText } from '../api/errors';
import type { QuestionRow } from '../session/rows';
import { LongText, pretty } from '../ui/longtext';
import { visible } from '../ui/text';

/** The answers that a schema offers as buttons: an enum, or yes and no. */
function choicesOf(schema: unknown): { label: string; value: unknown }[] | null {
  const s = schema as { type?: unknown; enum?: unknown } | null | undefined;
  if (Array.isArray(s?.enum) && s.enum.length > 0 && s.enum.length <= 12) {
    return s.enum.map((value) => ({ label: typeof value === 'string' ? value : JSON.stringify(value), value }));
  }
  if (s?.type === 'boolean') {
    return [
      { label: 'Yes', value: true },
      { label: 'No', value: false },
    ];
  }
  return null;
}

function wantsText(schema: unknown): boolean {
  const type = (schema as { type?: unknown } | null | undefined)?.type;
  return schema === null || schema === undefined || type === 'string';
}

export function QuestionCard({ row }: { row: QuestionRow }) {
  const [text, setText] = useState('');
  const [problem, setProblem] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const id = useId();
  const choices = choicesOf(row.schema);
  const asText = wantsText(row.schema);

  const send = async (answer: unknown) => {
    setSending(true);
    setProblem(null);
    const result = await client.mutation(AnswerQuestionDocument, { input: { id: row.questionId, answer } }).toPromise();
    setSending(false);
    if (result.error) setProblem(problemText(result.error));
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (asText) {
      void send(text);
      return;
    }
    try {
      void send(JSON.parse(text));
    } catch (error) {
      setProblem(`This is not JSON: ${error instanceof Error ? error.message : error}`);
    }
  };

  return (
    <section className={`card ${row.state === 'OPEN' ? 'card-ask' : ''}`} aria-label="Question">
      <div className="card-head">
        <strong>Question</strong>
        {row.agent && <span className="quiet">from {visible(row.agent)}</span>}
        <span className="card-state">
          {row.state === 'OPEN' ? (
            <span className="chip chip-ask">open</span>
          ) : (
            <span className="quiet">{row.state.toLowerCase()}</span>
          )}
        </span>
      </div>
      <div className="card-body">
        <LongText text={row.text} />
        {row.state === 'OPEN' && choices && (
          <div className="buttons">
            {choices.map(({ label, value }) => (
              <button key={label} type="button" disabled={sending} onClick={() => void send(value)}>
                {visible(label)}
              </button>
            ))}
          </div>
        )}
        {row.state === 'OPEN' && !choices && (
          <form className="answer" onSubmit={submit}>
            <label htmlFor={id}>{asText ? 'Your answer' : 'Your answer as JSON'}</label>
            <textarea
              id={id}
              rows={asText ? 2 : 4}
              className={asText ? '' : 'mono'}
              value={text}
              onChange={(event) => setText(event.target.value)}
              aria-describedby={`${id}-about`}
            />
            {!asText && (
              <details id={`${id}-about`}>
                <summary>Schema</summary>
                <LongText mono text={pretty(row.schema)} />
              </details>
            )}
            <button type="submit" className="primary" disabled={sending || text === ''}>
              Answer
            </button>
          </form>
        )}
        {problem && (
          <p role="alert" className="bad-text">
            {visible(problem)}
          </p>
        )}
        {row.state === 'ANSWERED' && (
          <div className="labelled">
            <p className="label">Answer</p>
            <LongText text={pretty(row.answer)} />
          </div>
        )}
      </div>
    </section>
  );
}
