import { toLong } from '../api/long';
import { budgetText } from './budget';
import { type Event, type EventOf, seqOf } from './event';
import {
  type AnyRow,
  EndRow,
  type ExecutionFacts,
  ExecutionRow,
  FilesRow,
  HoleRow,
  MediaRow,
  MessageRow,
  NoteRow,
  QuestionRow,
  RunRow,
  ThoughtRow,
  type Tone,
  ToolRow,
  UsageRow,
} from './rows';

/**
 * Derives the rows of a session from its events, one event at a time in the
 * order of their seqs. The log may begin anywhere: what has no beginning gets a
 * row all the same.
 */
export class Timeline {
  readonly rows: AnyRow[] = [];
  /** Rows that changed since the store last looked. */
  readonly dirty = new Set<AnyRow>();
  readonly parents = new Map<string, string>();
  readonly openQuestions = new Map<string, QuestionRow>();
  #messages = new Map<string, MessageRow>();
  #tools = new Map<string, ToolRow>();
  #executions = new Map<string, ExecutionRow>();
  #toolOf = new Map<ExecutionRow, ToolRow>();
  #usage = new Map<string, UsageRow>();
  #questions = new Map<string, QuestionRow>();
  /** Runs whose RunEnded is loaded: nothing of theirs runs any more. */
  #ended = new Set<string | null>();

  /** Facts by execution id: they outlive the rows. */
  constructor(private readonly facts: ReadonlyMap<string, ExecutionFacts> = new Map()) {}

  apply(event: Event): void {
    switch (event.__typename) {
      case 'RunStarted': {
        const row = this.#add(new RunRow(`run ${event.runId}`, seqOf(event), event.at, event.runId));
        row.agent = event.agent;
        row.started = event;
        if (event.runId && event.parentId) this.parents.set(event.runId, event.parentId);
        return;
      }
      case 'RunEnded': {
        const row = this.#add(new EndRow(`end ${event.seq}`, seqOf(event), event.at, event.runId));
        row.agent = event.agent;
        row.status = event.status;
        row.exitReason = event.exitReason;
        row.error = event.error;
        this.#endRun(event.runId);
        return;
      }
      case 'StateChanged':
        this.#note(event, 'quiet', 'state', event.state);
        return;
      case 'MessageDelta': {
        const row = this.#message(event);
        if (!row.whole) row.text += event.text;
        return;
      }
      case 'AgentMessage': {
        const row = this.#message(event);
        row.text = event.text;
        row.whole = true;
        row.partial = event.partial;
        return;
      }
      case 'AgentThought':
        this.#add(new ThoughtRow(`thought ${event.seq}`, seqOf(event), event.at, event.runId)).text = event.text;
        return;
      case 'ToolCallStarted': {
        const row = this.#tool(event);
        row.name = event.name;
        row.arguments = event.arguments;
        return;
      }
      case 'ToolCallFinished': {
        const row = this.#tool(event);
        row.name = event.name;
        row.finished = event;
        return;
      }
      case 'ExecutionStarted': {
        const row = this.#execution(event, event.toolCallId);
        row.started = true;
        row.backend = event.backend;
        row.isolation = event.isolation;
        row.command = event.command;
        return;
      }
      case 'OutputWritten': {
        const row = this.#execution(event, null);
        row.screen.write(event.stream, event.text);
        return;
      }
      case 'ExecutionFinished':
        this.#execution(event, null).finished = event;
        return;
      case 'MetricsLogged': {
        const row = this.#execution(event, null);
        row.points += event.points.length;
        for (const point of event.points) row.pointNames.add(point.name);
        return;
      }
      case 'ChartConfigured':
        this.#note(event, 'quiet', 'charts', 'layout set by the program');
        return;
      case 'MediaLogged': {
        const row = this.#add(new MediaRow(`media ${event.seq}`, seqOf(event), event.at, event.runId));
        row.media = event.kind;
        row.name = event.key;
        row.step = toLong(event.step);
        row.runTag = event.runTag;
        row.data = event.data;
        return;
      }
      case 'UsageRecorded': {
        const key = `usage ${event.runId} ${event.requestKey}`;
        const row = this.#find(this.#usage, key, event, () => new UsageRow(key, seqOf(event), event.at, event.runId));
        row.provider = event.provider;
        row.model = event.model;
        row.backend = event.backend;
        row.usage = event.usage;
        return;
      }
      case 'QuestionAsked': {
        const row = this.#question(event);
        row.text = event.text;
        row.schema = event.schema;
        if (row.state === 'OPEN') this.openQuestions.set(row.questionId, row);
        return;
      }
      case 'QuestionAnswered': {
        const row = this.#question(event);
        row.state = event.outcome;
        row.answer = event.answer;
        this.openQuestions.delete(row.questionId);
        return;
      }
      case 'ReportReady':
        this.#note(event, 'good', 'report', event.path);
        return;
      case 'FilesReady':
        this.#add(new FilesRow(`files ${event.seq}`, seqOf(event), event.at, event.runId)).files = event.files;
        return;
      case 'HookFinished':
        this.#note(event, event.isError ? 'warn' : 'quiet', `hook ${event.name}`, event.problem ?? 'done');
        return;
      case 'AbortRequested':
        this.#note(event, 'warn', 'abort asked', event.reason ?? '');
        return;
      case 'AgentAborted':
        this.#note(event, 'warn', 'aborted', event.reason ?? '');
        return;
      case 'AgentTimedOut':
        this.#note(event, 'bad', 'timed out', event.text);
        return;
      case 'AgentErrored':
        this.#note(event, 'bad', 'error', event.text);
        return;
      case 'BudgetReached':
        this.#note(event, event.action === 'ABORT' ? 'bad' : 'warn', 'budget', budgetText(event));
        return;
      case 'AgentEscalated':
        this.#note(event, 'bad', 'escalated', event.text);
        return;
      case 'Warning':
        this.#note(event, 'warn', 'warning', event.text);
        return;
      case 'GapEvent':
        this.hole(toLong(event.fromSeq), toLong(event.toSeq), event.at, true);
        return;
      default:
        unknownEvent(event);
    }
  }

  /** Says that the events from..to are not there. */
  hole(from: number, to: number, at: string, retention: boolean): void {
    const row = this.#add(new HoleRow(`hole ${from}`, from, at, null));
    row.from = from;
    row.to = to;
    row.lastSeq = to;
    row.retention = retention;
  }

  /** The runs that have executions of which neither the start nor the facts are here. */
  headless(): Set<string> {
    const runs = new Set<string>();
    for (const row of this.#executions.values()) {
      if (!row.started && row.facts === null && row.runId !== null) runs.add(row.runId);
    }
    return runs;
  }

  setFacts(facts: ExecutionFacts): void {
    const row = this.#executions.get(`execution ${facts.id}`);
    if (!row) return;
    row.setFacts(facts);
    this.dirty.add(row);
  }

  /** What has no end by now gets none. */
  #endRun(runId: string | null): void {
    this.#ended.add(runId);
    for (const rows of [this.#messages, this.#tools, this.#executions]) {
      for (const row of rows.values()) {
        if (row.runId !== runId || (row.kind === 'message' ? row.whole : row.finished)) continue;
        row.stopped = true;
        this.dirty.add(row);
      }
    }
  }

  #add<R extends AnyRow>(row: R): R {
    this.rows.push(row);
    this.dirty.add(row);
    return row;
  }

  #note(event: Event, tone: Tone, label: string, text: string): void {
    const row = this.#add(new NoteRow(`note ${event.seq}`, seqOf(event), event.at, event.runId));
    row.tone = tone;
    row.label = label;
    row.text = text;
  }

  #find<R extends AnyRow>(rows: Map<string, R>, key: string, event: Event, make: () => R): R {
    let row = rows.get(key);
    if (!row) {
      row = this.#add(make());
      rows.set(key, row);
    }
    row.lastSeq = seqOf(event);
    this.dirty.add(row);
    return row;
  }

  #message(event: EventOf<'MessageDelta' | 'AgentMessage'>): MessageRow {
    const key = `message ${event.runId} ${event.messageId}`;
    const row = this.#find(this.#messages, key, event, () => new MessageRow(key, seqOf(event), event.at, event.runId));
    row.agent = event.agent;
    return row;
  }

  #tool(event: EventOf<'ToolCallStarted' | 'ToolCallFinished'>): ToolRow {
    const key = `tool ${event.runId} ${event.callId}`;
    return this.#find(this.#tools, key, event, () => new ToolRow(key, seqOf(event), event.at, event.runId));
  }

  /** An execution that belongs to a tool call is shown inside its card. */
  #execution(
    event: EventOf<'ExecutionStarted' | 'OutputWritten' | 'ExecutionFinished' | 'MetricsLogged'>,
    callId: string | null,
  ): ExecutionRow {
    const key = `execution ${event.executionId}`;
    let row = this.#executions.get(key);
    if (!row) {
      row = new ExecutionRow(key, seqOf(event), event.at, event.runId);
      row.stopped = this.#ended.has(event.runId);
      const facts = this.facts.get(event.executionId);
      if (facts) row.setFacts(facts);
      this.#executions.set(key, row);
      const tool = callId === null ? undefined : this.#tools.get(`tool ${event.runId} ${callId}`);
      if (tool) {
        tool.executions.push(row);
        this.#toolOf.set(row, tool);
      } else {
        this.#add(row);
      }
    }
    row.lastSeq = seqOf(event);
    this.dirty.add(row);
    const tool = this.#toolOf.get(row);
    if (tool) tool.lastSeq = row.lastSeq;
    if (tool && event.__typename !== 'OutputWritten' && event.__typename !== 'MetricsLogged') this.dirty.add(tool);
    return row;
  }

  #question(event: EventOf<'QuestionAsked' | 'QuestionAnswered'>): QuestionRow {
    const key = `question ${event.questionId}`;
    const row = this.#find(
      this.#questions,
      key,
      event,
      () => new QuestionRow(key, seqOf(event), event.at, event.runId),
    );
    row.agent = event.agent;
    row.questionId = event.questionId;
    return row;
  }
}

/** A newer server may send types that this page does not know; the compiler checks the known ones. */
function unknownEvent(_event: never): void {}
