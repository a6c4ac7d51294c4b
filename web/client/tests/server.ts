import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** One request as the fake server got it. */
export interface Asked {
  after: number;
  types?: string[];
  query: string;
  authorization: string | undefined;
  send(...seqs: number[]): void;
  raw(text: string): void;
  /** Breaks the connection. */
  cut(): void;
  answer: ServerResponse;
}

/** A server whose event streams a test writes by hand. */
export class FakeServer {
  readonly asked: Asked[] = [];
  #server: Server;
  #onAsk: (asked: Asked) => void = () => {};

  private constructor(handle: (self: FakeServer, request: IncomingMessage, answer: ServerResponse) => void) {
    this.#server = createServer((request, answer) => handle(this, request, answer));
  }

  static async start(): Promise<FakeServer> {
    const fake = new FakeServer((self, request, answer) => void self.#handle(request, answer));
    await new Promise<void>((resolve) => fake.#server.listen(0, '127.0.0.1', resolve));
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What is done for each request that comes from now on. */
  script(onAsk: (asked: Asked, n: number) => void): void {
    this.#onAsk = (asked) => onAsk(asked, this.asked.length);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #handle(request: IncomingMessage, answer: ServerResponse): Promise<void> {
    let body = '';
    for await (const piece of request) body += piece;
    const { query, variables } = JSON.parse(body);
    const raw = (text: string) => {
      if (!answer.headersSent) answer.writeHead(200, { 'content-type': 'text/event-stream' });
      answer.write(text);
    };
    const asked: Asked = {
      ...variables,
      query,
      authorization: request.headers.authorization,
      raw,
      send: (...seqs) =>
        raw(`event: next\ndata: ${JSON.stringify({ data: { events: seqs.map((seq) => event(seq)) } })}\n\n`),
      cut: () => request.socket.destroy(),
      answer,
    };
    this.asked.push(asked);
    this.#onAsk(asked);
  }
}

export function event(seq: number, more: Record<string, unknown> = {}) {
  return { __typename: 'Warning', seq, at: '2026-01-01T00:00:00Z', type: 'WARNING', ...more };
}
