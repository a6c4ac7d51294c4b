import { ConnectionLost, fromErrors, WeirError } from './errors.js';
import type { GraphQLRequest, GraphQLResult, Transport } from './transport.js';

export interface HttpOptions {
  /** The API's address, for example http://127.0.0.1:8080/graphql. */
  url: string;
  fetch: typeof fetch;
  headers: () => Promise<Record<string, string>>;
  /** A stream that is silent for so long is taken for dead; the server sends something every 25 s. */
  silenceMs: number;
}

/** One message of an event stream. */
export interface Message {
  event: string;
  data: string;
}

/** Cuts text, in whatever pieces it comes, into the messages of an event stream. */
export class Parser {
  #rest = '';
  #event = '';
  #data: string[] = [];

  /** Gives the messages that the piece completes. */
  push(piece: string): Message[] {
    const messages: Message[] = [];
    const text = this.#rest + piece;
    let start = 0;
    for (;;) {
      const end = text.indexOf('\n', start);
      if (end < 0) break;
      const line = text.slice(start, text[end - 1] === '\r' ? end - 1 : end);
      start = end + 1;
      if (line !== '') {
        this.#field(line);
        continue;
      }
      if (this.#data.length > 0) messages.push({ event: this.#event || 'message', data: this.#data.join('\n') });
      this.#event = '';
      this.#data = [];
    }
    this.#rest = text.slice(start);
    return messages;
  }

  #field(line: string): void {
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'event') this.#event = value;
    else if (name === 'data') this.#data.push(value);
  }
}

/** What an answer that is no stream says. */
export async function refusal(answer: Response): Promise<WeirError> {
  const text = await answer.text().catch(() => '');
  try {
    const { errors } = JSON.parse(text);
    if (Array.isArray(errors) && errors.length > 0) return fromErrors(errors);
  } catch {
    // Not from the server itself, perhaps from a proxy.
  }
  return new WeirError(`The server answered ${answer.status} ${answer.statusText}.`, 'UNAVAILABLE');
}

/** Subscribes by POST and reads an event stream: one request for each subscription. */
export function sseTransport(options: HttpOptions): Transport {
  return async function* (request: GraphQLRequest, signal: AbortSignal): AsyncGenerator<GraphQLResult> {
    const over = new AbortController();
    const stop = () => over.abort(signal.reason);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(() => over.abort(new ConnectionLost('The server fell silent.')), options.silenceMs);
    };
    try {
      heard();
      const answer = await options.fetch(options.url, {
        method: 'POST',
        headers: { ...(await options.headers()), 'content-type': 'application/json', accept: 'text/event-stream' },
        body: JSON.stringify(request),
        cache: 'no-store',
        signal: over.signal,
      });
      if (!answer.ok || !answer.body) throw await refusal(answer);
      const reader = answer.body.getReader();
      const decoder = new TextDecoder();
      const parser = new Parser();
      for (;;) {
        heard();
        const { done, value } = await reader.read();
        // While the reader of this iteration is busy nothing is read: that is no silence.
        clearTimeout(timer);
        if (done) break;
        for (const message of parser.push(decoder.decode(value, { stream: true }))) {
          if (message.event === 'complete') return;
          if (message.event === 'next') yield JSON.parse(message.data) as GraphQLResult;
        }
      }
      throw new ConnectionLost('The stream broke off.');
    } catch (error) {
      if (error instanceof WeirError || error instanceof ConnectionLost) throw error;
      if (over.signal.reason instanceof ConnectionLost) throw over.signal.reason;
      throw new ConnectionLost('The connection was lost.', { cause: error });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      over.abort(); // ends the request, however the iteration was left
    }
  };
}
