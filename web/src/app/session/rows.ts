import type {
  ExecutionFieldsFragment,
  ExitReason,
  MediaKind,
  QuestionState,
  RunStatus,
  UsageFieldsFragment,
} from '../../gql/graphql';
import { Screen } from '../terminal/screen';
import type { EventOf } from './event';

/**
 * One line, card or block of the timeline, made of one or more events. A row
 * changes in place; its version grows when it does.
 */
export abstract class Row {
  version = 0;
  #listeners = new Set<() => void>();
  /** The seq of the newest event in it. */
  lastSeq: number;

  constructor(
    /** Stays the same when the timeline is derived anew. */
    readonly key: string,
    /** The seq of the oldest event in it. */
    readonly seq: number,
    readonly at: string,
    readonly runId: string | null,
  ) {
    this.lastSeq = seq;
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Only the store calls it, once a frame at most. */
  changed(): void {
    this.version += 1;
    for (const listener of [...this.#listeners]) listener();
  }
}

export class RunRow extends Row {
  readonly kind = 'run';
  agent: string | null = null;
  started: EventOf<'RunStarted'> | null = null;
}

export class EndRow extends Row {
  readonly kind = 'end';
  agent: string | null = null;
  status: RunStatus | null = null;
  exitReason: ExitReason | null = null;
  error: string | null = null;
}

export class MessageRow extends Row {
  readonly kind = 'message';
  agent: string | null = null;
  text = '';
  whole = false;
  /** It broke off, and the model was asked again. */
  partial = false;
  /** Its run ended before the whole came. */
  stopped = false;
}

export class ThoughtRow extends Row {
  readonly kind = 'thought';
  text = '';
}

/** What the server knows about an execution, whatever part of the log is loaded. */
export type ExecutionFacts = ExecutionFieldsFragment;

export class ExecutionRow extends Row {
  readonly kind = 'execution';
  /** Whether its ExecutionStarted is loaded; without it the output here is only the end of it. */
  started = false;
  /** Its run ended, and no ExecutionFinished came. */
  stopped = false;
  facts: ExecutionFacts | null = null;
  backend: string | null = null;
  isolation: string | null = null;
  command: readonly string[] | null = null;
  readonly screen = new Screen();
  points = 0;
  readonly pointNames = new Set<string>();
  finished: EventOf<'ExecutionFinished'> | null = null;

  /** What became of all its output; null while it runs. */
  get loss(): ExecutionFacts['loss'] | null {
    return this.finished?.loss ?? (this.facts?.exitClass ? this.facts.loss : null);
  }

  setFacts(facts: ExecutionFacts): void {
    this.facts = facts;
    this.command ??= facts.command;
    this.backend ??= facts.backend;
    this.isolation ??= facts.isolation;
  }
}

export class ToolRow extends Row {
  readonly kind = 'tool';
  name = '';
  arguments: unknown;
  finished: EventOf<'ToolCallFinished'> | null = null;
  /** Its run ended, and no ToolCallFinished came. */
  stopped = false;
  readonly executions: ExecutionRow[] = [];
}

export class UsageRow extends Row {
  readonly kind = 'usage';
  provider: string | null = null;
  model: string | null = null;
  backend: string | null = null;
  usage: UsageFieldsFragment | null = null;
}

export class QuestionRow extends Row {
  readonly kind = 'question';
  agent: string | null = null;
  questionId = '';
  text = '';
  schema: unknown;
  state: QuestionState = 'OPEN';
  answer: unknown;
}

export class FilesRow extends Row {
  readonly kind = 'files';
  files: EventOf<'FilesReady'>['files'] = [];
}

export class MediaRow extends Row {
  readonly kind = 'media';
  media: MediaKind = 'TEXT';
  name = '';
  step = 0;
  runTag: string | null = null;
  data: unknown;
}

export type Tone = 'quiet' | 'good' | 'warn' | 'bad';

/** A line of text: state changes, warnings, errors, aborts, hooks. */
export class NoteRow extends Row {
  readonly kind = 'note';
  tone: Tone = 'quiet';
  label = '';
  text = '';
}

/** Events that are not there: cut by retention, or missing in what the server sent. */
export class HoleRow extends Row {
  readonly kind = 'hole';
  from = 0;
  to = 0;
  retention = true;
}

export type AnyRow =
  | RunRow
  | EndRow
  | MessageRow
  | ThoughtRow
  | ExecutionRow
  | ToolRow
  | UsageRow
  | QuestionRow
  | FilesRow
  | MediaRow
  | NoteRow
  | HoleRow;
