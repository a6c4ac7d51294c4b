import { describe, expect, it, vi } from 'vitest';
import type { AnyRow, ExecutionRow, MessageRow, ToolRow } from '../src/app/session/rows';
import { SessionStore } from '../src/app/session/store';
import { deltas, event } from './events';

function manual() {
  const due: (() => void)[] = [];
  const store = new SessionStore((flush) => {
    due.push(flush);
    return () => due.splice(due.indexOf(flush), 1);
  });
  return { store, due, flush: () => due.splice(0).forEach((f) => void f()) };
}

function row<R extends AnyRow>(store: SessionStore, kind: R['kind'], at = 0): R {
  const found = store.rows.filter((r) => r.kind === kind)[at];
  if (!found) throw new Error(`no row ${kind}`);
  return found as R;
}

describe('the log', () => {
  it('skips what it has and stops at a gap', () => {
    const { store } = manual();
    expect(store.append(deltas(1, 3))).toMatchObject({ kind: 'stored' });
    const again = store.append(deltas(2, 5));
    expect(again.kind === 'stored' && again.fresh.map((e) => e.seq)).toEqual([4, 5]);
    expect(store.append(deltas(8, 9))).toEqual({ kind: 'gap', expected: 6, got: 8 });
    expect(store.lastSeq).toBe(5);
    expect(row<MessageRow>(store, 'message').text).toBe('<1><2><3><4><5>');
  });

  it('keeps what came before a gap in the same batch', () => {
    const { store } = manual();
    expect(store.append([...deltas(1, 2), ...deltas(4, 5)])).toEqual({ kind: 'gap', expected: 3, got: 4 });
    expect(store.lastSeq).toBe(2);
  });

  it('takes a GapEvent for the events that it stands for', () => {
    const { store } = manual();
    const gap = event('GapEvent', 40, { fromSeq: 1, toSeq: 40, runId: null });
    expect(store.append([gap, ...deltas(41, 42)])).toMatchObject({ kind: 'stored' });
    expect([store.firstSeq, store.lastSeq]).toEqual([1, 42]);
    expect(row(store, 'hole')).toMatchObject({ from: 1, to: 40, retention: true });
  });

  it('reads seqs that came as strings', () => {
    const { store } = manual();
    store.append([event('Warning', '1', { text: 'a' }), event('Warning', '2', { text: 'b' })]);
    expect(store.lastSeq).toBe(2);
    expect(store.append([event('Warning', '10', { text: 'c' })])).toEqual({ kind: 'gap', expected: 3, got: 10 });
  });

  it('puts older pages before, and derives the same rows as from the whole', () => {
    const all = [
      event('RunStarted', 1, { prompt: 'go', parentId: null, driver: 'script', model: null, attempt: 1 }),
      ...deltas(2, 6),
      event('AgentMessage', 7, { messageId: 'm', text: 'whole', partial: false }),
    ];
    const whole = manual().store;
    whole.append(all);
    const { store } = manual();
    store.begin(all.slice(4), 7);
    expect(store.firstSeq).toBe(5);
    store.prepend(all.slice(1, 4));
    store.prepend(all.slice(0, 1));
    expect([store.firstSeq, store.lastSeq, store.prepends]).toEqual([1, 7, 2]);
    expect(store.rows.map((r) => r.key)).toEqual(whole.rows.map((r) => r.key));
    expect(row<MessageRow>(store, 'message').text).toBe('whole');
    store.append(deltas(8, 8));
    expect(store.lastSeq).toBe(8);
  });

  it('refuses an older page that does not fit', () => {
    const { store } = manual();
    store.begin(deltas(10, 12), 12);
    store.prepend(deltas(5, 8));
    expect(store.firstSeq).toBe(10);
  });

  it('keeps a hole where it was when older events come', () => {
    const { store } = manual();
    store.begin(deltas(5, 6), 6);
    store.skipTo(9);
    store.append([event('Warning', 9, { text: 'later' })]);
    store.prepend(deltas(1, 4));
    expect(store.rows.map((r) => r.kind)).toEqual(['message', 'hole', 'note']);
    expect(row(store, 'hole')).toMatchObject({ from: 7, to: 8, retention: false });
  });
});

describe('readers', () => {
  it('are told once a flush, and rows only when they changed', () => {
    const { store, flush, due } = manual();
    store.append([event('AgentThought', 1, { text: 't' }), ...deltas(2, 3)]);
    flush();
    const thought = row(store, 'thought');
    const message = row<MessageRow>(store, 'message');
    const [onThought, onMessage, onStore] = [vi.fn(), vi.fn(), vi.fn()];
    thought.subscribe(onThought);
    message.subscribe(onMessage);
    store.version.subscribe(onStore);
    store.append(deltas(4, 5));
    store.append(deltas(6, 6));
    expect(due.length).toBe(1);
    expect(onMessage).not.toHaveBeenCalled();
    flush();
    expect(onMessage).toHaveBeenCalledTimes(1);
    expect(onStore).toHaveBeenCalledTimes(1);
    expect(onThought).not.toHaveBeenCalled();
  });

  it('hear nothing after close', () => {
    const { store, due } = manual();
    store.append(deltas(1, 1));
    store.close();
    expect(due.length).toBe(0);
  });
});

describe('rows', () => {
  it('join a message and let the whole replace the deltas, also late ones', () => {
    const { store } = manual();
    store.append([
      ...deltas(1, 2),
      event('AgentMessage', 3, { messageId: 'm', text: 'done', partial: false }),
      event('MessageDelta', 4, { messageId: 'm', text: 'late' }),
      event('MessageDelta', 5, { messageId: 'n', text: 'next' }),
    ]);
    expect(row<MessageRow>(store, 'message', 0)).toMatchObject({ text: 'done', whole: true });
    expect(row<MessageRow>(store, 'message', 1)).toMatchObject({ text: 'next', whole: false });
  });

  it('put an execution inside the card of its tool call', () => {
    const { store } = manual();
    store.append([
      event('ToolCallStarted', 1, { callId: 'c', name: 'run', arguments: { code: 'x' } }),
      event('ExecutionStarted', 2, {
        executionId: 'e',
        backend: 'local',
        isolation: null,
        command: ['x'],
        toolCallId: 'c',
      }),
      event('OutputWritten', 3, { executionId: 'e', stream: 'STDOUT', text: 'hi\n', offset: 0 }),
      event('ToolCallFinished', 4, { callId: 'c', name: 'run', text: 'hi', isError: false, seconds: 1 }),
    ]);
    expect(store.rows.map((r) => r.kind)).toEqual(['tool']);
    const tool = row<ToolRow>(store, 'tool');
    expect(tool.executions[0]?.screen.lines.map((l) => l.text)).toEqual(['hi']);
    expect(tool.finished?.text).toBe('hi');
    expect(tool.lastSeq).toBe(4);
  });

  it('exist also when the log begins in the middle', () => {
    const { store } = manual();
    store.begin(
      [
        event('OutputWritten', 7, { executionId: 'e', stream: 'STDERR', text: 'oops', offset: 900 }),
        event('ToolCallFinished', 8, { callId: 'c', name: 'read', text: 'x', isError: true, seconds: 1 }),
      ],
      8,
    );
    expect(row<ExecutionRow>(store, 'execution').screen.lines[0]).toMatchObject({ text: 'oops', stderr: true });
    expect(row<ToolRow>(store, 'tool').name).toBe('read');
  });

  it('improve a usage record in place', () => {
    const { store } = manual();
    const usage = (seq: number, output: number) =>
      event('UsageRecorded', seq, { requestKey: 'k', usage: { output } as never });
    store.append([usage(1, 1), usage(2, 9)]);
    expect(store.rows.length).toBe(1);
    expect(store.rows[0]).toMatchObject({ kind: 'usage', usage: { output: 9 }, seq: 1, lastSeq: 2 });
  });

  it('say "stopped" of what has no end when its run has ended, and of nothing else', () => {
    const all = [
      event('ToolCallStarted', 1, { callId: 'a', name: 'slow', arguments: {} }),
      event('ToolCallStarted', 2, { callId: 'b', name: 'quick', arguments: {} }),
      event('ToolCallFinished', 3, { callId: 'b', name: 'quick', text: '', isError: false, seconds: 1 }),
      event('ExecutionStarted', 4, {
        executionId: 'e',
        backend: 'local',
        isolation: null,
        command: ['x'],
        toolCallId: null,
      }),
      event('ToolCallStarted', 5, { callId: 'c', name: 'other', arguments: {}, runId: 'run_2' }),
      event('MessageDelta', 6, { messageId: 'm', text: 'I was' }),
      event('RunEnded', 7, { status: 'CANCELLED', exitReason: 'ABORTED', error: null }),
    ];
    const stopped = (store: SessionStore) =>
      store.rows.map((r) => ('stopped' in r ? [r.kind, r.stopped] : [r.kind])).filter(([kind]) => kind !== 'end');
    const expected = [
      ['tool', true],
      ['tool', false],
      ['execution', true],
      ['tool', false],
      ['message', true],
    ];
    const live = manual();
    live.store.append(all.slice(0, 6));
    live.flush();
    const told = vi.fn();
    row(live.store, 'tool').subscribe(told);
    expect(stopped(live.store).every(([, is]) => !is)).toBe(true);
    live.store.append(all.slice(6));
    live.flush();
    expect(stopped(live.store)).toEqual(expected);
    expect(told).toHaveBeenCalledTimes(1);
    const { store } = manual();
    store.begin(all.slice(3), 7);
    store.prepend(all.slice(0, 3));
    expect(stopped(store)).toEqual(expected);
  });

  it('take the command and the totals of an execution that began before them from its run', () => {
    const { store, flush } = manual();
    const written = (seq: number) =>
      event('OutputWritten', seq, { executionId: 'e', stream: 'STDOUT', text: `${seq}\n`, offset: 0 });
    store.begin([written(10), written(11)], 11);
    flush();
    expect([...store.headlessRuns()]).toEqual(['run_1']);
    const told = vi.fn();
    row(store, 'execution').subscribe(told);
    const loss = {
      bytesRead: 9_000,
      linesRead: 1_000,
      linesParsed: 990,
      linesRejected: 0,
      bytesTruncated: 0,
      rejectedSamples: [],
    };
    const facts = { id: 'e', backend: 'local', isolation: null, command: ['sh', '-c', 'x'], exitClass: null, loss };
    store.setFacts([{ ...facts, exitClass: null }]);
    flush();
    expect(told).toHaveBeenCalledTimes(1);
    const execution = () => row<ExecutionRow>(store, 'execution');
    expect(execution()).toMatchObject({ started: false, command: ['sh', '-c', 'x'], loss: null });
    expect(store.headlessRuns().size).toBe(0);
    store.setFacts([{ ...facts, exitClass: 'OK' }]);
    expect(execution().loss).toMatchObject({ linesRead: 1_000, linesParsed: 990 });
    // Deriving the rows anew does not lose it.
    store.prepend([written(9)]);
    expect(execution()).toMatchObject({ started: false, command: ['sh', '-c', 'x'], loss: { linesRead: 1_000 } });
    store.prepend([
      event('ExecutionStarted', 8, {
        executionId: 'e',
        backend: 'bwrap',
        isolation: null,
        command: ['sh'],
        toolCallId: null,
      }),
    ]);
    expect(execution()).toMatchObject({ started: true, backend: 'bwrap' });
  });

  it('count open questions', () => {
    const { store } = manual();
    store.append([event('QuestionAsked', 1, { questionId: 'q', text: '?', schema: null })]);
    expect(store.openQuestions).toBe(1);
    store.append([event('QuestionAnswered', 2, { questionId: 'q', outcome: 'CANCELLED', answer: null })]);
    expect(store.openQuestions).toBe(0);
    expect(row(store, 'question')).toMatchObject({ state: 'CANCELLED', text: '?' });
  });

  it('survive a type that a newer server invents', () => {
    const { store } = manual();
    store.append([{ ...event('Warning', 1, { text: '' }), __typename: 'Later' } as never, ...deltas(2, 2)]);
    expect(store.lastSeq).toBe(2);
  });
});
