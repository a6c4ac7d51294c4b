import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A replayed agent with one of everything that the page shows. */
const tour = `name: tour
role: Shows what a session can hold
driver: replay
provider: replay
model: replay-large
turns:
  - thought: "First I look around.\\nThen I decide."
  - text: {say: "Hello, this is **plain** text with <b>no</b> markup.", pace: 200}
  - tool: {name: execute_code, command: [sh, -c, "printf 'red: \\\\033[31mstop\\\\033[0m\\\\n10 %%\\\\r100 %%\\\\n'"]}
  - tool: {name: execute_code, command: [sh, -c, "echo broken >&2; exit 3"]}
  - usage: {input: 1200, cacheRead: 300, output: 50, costUsd: "0.0042"}
  - warning: the weather may change
  - delegate: {agent: helper, prompt: count to two}
  - ask: {text: "Shall I go on?", schema: {type: string, enum: [go on, stop]}}
  - ask: {text: "How many?", schema: {type: object, required: [n], properties: {n: {type: integer}}}}
  - text: {say: "Done."}
`;

const helper = `name: helper
driver: replay
provider: replay
model: replay-small
turns:
  - text: {say: "One, two."}
`;

/** Takes a prompt and is at it until it is stopped. */
const chatter = `name: chatter
driver: replay
provider: replay
model: replay-small
turns:
  - text: {say: "I am at it."}
  - tool: {name: execute_code, command: [sleep, "600"]}
`;

/** A Weir server of its own: own port, own data, the real binary. */
export class Weir {
  readonly url: string;
  #folder = mkdtempSync(join(tmpdir(), 'weir-e2e-'));
  #process: ChildProcess | null = null;
  #log = '';

  private constructor(
    private readonly port: number,
    private readonly token: string | undefined,
  ) {
    this.url = `http://127.0.0.1:${port}`;
    chmodSync(this.#folder, 0o711); // a server run by root gives its sandboxes another user
    const agents = join(this.#folder, 'agents');
    mkdirSync(agents);
    writeFileSync(join(agents, 'tour.yaml'), tour);
    writeFileSync(join(agents, 'helper.yaml'), helper);
    writeFileSync(join(agents, 'chatter.yaml'), chatter);
    writeFileSync(join(agents, 'broken.yaml'), 'name: broken\nturns: 7\n');
  }

  static async start(token?: string): Promise<Weir> {
    const weir = new Weir(await freePort(), token);
    await weir.up();
    return weir;
  }

  /** Starts the server, also again after kill() on the same port and data. */
  async up(): Promise<void> {
    const bin = process.env.WEIR_BIN;
    if (!bin) throw new Error('WEIR_BIN is not set');
    const child = spawn(
      bin,
      [
        'serve',
        `--listen=127.0.0.1:${this.port}`,
        `--data=${join(this.#folder, 'data')}`,
        `--agents=${join(this.#folder, 'agents')}`,
        '--allow-unsandboxed',
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, WEIR_TOKEN: this.token } },
    );
    this.#process = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (data: Buffer) => {
        this.#log += data.toString();
      });
    }
    const until = Date.now() + 20_000;
    while (Date.now() < until && child.exitCode === null) {
      const ready = await fetch(`${this.url}/readyz`).then(
        (answer) => answer.ok,
        () => false,
      );
      if (ready) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the server did not get ready:\n${this.#log}`);
  }

  /** kill -9: nothing is finished in good order. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  /** Ends it in good order; up() starts it again. */
  async terminate(): Promise<void> {
    await this.#end('SIGTERM');
  }

  async stop(): Promise<void> {
    await this.terminate();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async query<T = Record<string, unknown>>(query: string, variables: Record<string, unknown> = {}): Promise<T> {
    const answer = await fetch(`${this.url}/graphql`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(this.token ? { authorization: `Bearer ${this.token}` } : {}),
      },
      body: JSON.stringify({ query, variables }),
    });
    const { data, errors } = (await answer.json()) as { data: T; errors?: unknown };
    if (errors) throw new Error(JSON.stringify(errors));
    return data;
  }

  async startRun(input: Record<string, unknown>): Promise<{ id: string; session: { id: string } }> {
    const data = await this.query<{ startRun: { id: string; session: { id: string } } }>(
      'mutation ($input: StartRunInput!) { startRun(input: $input) { id session { id } } }',
      { input },
    );
    return data.startRun;
  }

  async run(id: string): Promise<{ status: string; exitReason: string | null }> {
    const data = await this.query<{ run: { status: string; exitReason: string | null } }>(
      'query ($id: ID!) { run(id: $id) { status exitReason } }',
      { id },
    );
    return data.run;
  }

  /** The session's whole log, in pages. */
  async log(sessionId: string): Promise<{ seq: number; type: string; text?: string; stream?: string }[]> {
    const all: { seq: number; type: string; text?: string; stream?: string }[] = [];
    for (let more = true; more; ) {
      const data = await this.query<{ events: { hasMore: boolean; nodes: typeof all } }>(
        `query ($id: ID!, $after: Long) { events(sessionId: $id, after: $after, first: 1000) {
          hasMore nodes { seq type ... on OutputWritten { text stream } ... on AgentMessage { text } } } }`,
        { id: sessionId, after: all.at(-1)?.seq ?? 0 },
      );
      all.push(...data.events.nodes);
      more = data.events.hasMore;
    }
    return all;
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await gone;
  }
}

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
