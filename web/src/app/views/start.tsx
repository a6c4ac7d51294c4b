import { type FormEvent, useId, useState } from 'react';
import { useQuery } from 'urql';
import { SetupDocument, type SetupQuery, StartRunDocument, type StartRunInput } from '../../gql/graphql';
import { client } from '../api/client';
import { problemText } from '../api/errors';
import { navigate, sessionPath } from '../ui/route';
import { visible } from '../ui/text';

type Agent = SetupQuery['agents'][number];

const example = `import json, math, time

for step in range(1, 101):
    loss = math.exp(-step / 30) + 0.05 * math.sin(step)
    print(json.dumps({"step": step, "metrics": {"loss": loss, "accuracy": 1 - loss / 2}}), flush=True)
    if step % 20 == 0:
        print(f"step {step}: loss {loss:.4f}", flush=True)
    time.sleep(0.05)
`;

/** The built-in agent, also when a list of agents does not name it. */
const script: Agent = { name: 'script', role: null, driver: 'script', model: null, stage: null, problem: null };

/** The text of an agent in the menu. A definition that cannot be read may have no driver. */
export function agentLabel({ name, driver, problem }: Pick<Agent, 'name' | 'driver' | 'problem'>): string {
  return [name, driver && driver !== name ? ` (${driver})` : '', problem !== null ? ' – cannot be used' : ''].join('');
}

export function StartForm() {
  const [setup] = useQuery({ query: SetupDocument });
  const listed = setup.data?.agents ?? [];
  const agents = listed.some((agent) => agent.name === 'script') ? listed : [script, ...listed];
  const [name, setName] = useState('script');
  const [code, setCode] = useState(example);
  const [prompt, setPrompt] = useState('');
  const [stage, setStage] = useState('train');
  const [problem, setProblem] = useState<string | null>(null);
  const [sending, setSending] = useState(false);
  const id = useId();
  const agent = agents.find((a) => a.name === name) ?? script;
  const runsCode = agent.name === 'script';
  const missing = setup.data?.server.sandboxes.filter((sandbox) => sandbox.available) ?? [];
  const unsandboxed = missing.find((sandbox) => sandbox.isolation === 'UNSANDBOXED');

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setSending(true);
    setProblem(null);
    const input: StartRunInput = runsCode ? { agent: name, code, stage } : { agent: name, prompt };
    const result = await client.mutation(StartRunDocument, { input }).toPromise();
    setSending(false);
    if (result.data) navigate(sessionPath(result.data.startRun.session.id));
    else setProblem(result.error ? problemText(result.error) : 'The server sent no run.');
  };

  return (
    <section className="start" aria-label="Start a run">
      <h2>Start a run</h2>
      <form onSubmit={(event) => void submit(event)}>
        <label htmlFor={`${id}-agent`}>Agent</label>
        <select id={`${id}-agent`} value={name} onChange={(event) => setName(event.target.value)}>
          {agents.map((a) => (
            <option key={a.name} value={a.name}>
              {agentLabel(a)}
            </option>
          ))}
        </select>
        {agent.role && <p className="quiet hint">{visible(agent.role)}</p>}
        {runsCode ? (
          <>
            <label htmlFor={`${id}-code`}>Python code</label>
            <textarea
              id={`${id}-code`}
              className="mono code"
              rows={12}
              spellCheck={false}
              value={code}
              onChange={(event) => setCode(event.target.value)}
            />
            <label htmlFor={`${id}-stage`}>Stage</label>
            <input
              id={`${id}-stage`}
              value={stage}
              onChange={(event) => setStage(event.target.value)}
              aria-describedby={`${id}-stage-hint`}
            />
            <p className="quiet hint" id={`${id}-stage-hint`}>
              Names the phase. With a stage, JSON lines with metrics become curves; without one, nothing is parsed.
            </p>
          </>
        ) : (
          <>
            <label htmlFor={`${id}-prompt`}>Prompt</label>
            <textarea id={`${id}-prompt`} rows={6} value={prompt} onChange={(event) => setPrompt(event.target.value)} />
          </>
        )}
        {unsandboxed && (
          <p className="warn-text hint">
            Sandbox {unsandboxed.backend}: UNSANDBOXED. {visible(unsandboxed.reason ?? '')}
          </p>
        )}
        <button
          type="submit"
          className="primary"
          disabled={sending || agent.problem !== null || (runsCode ? code.trim() === '' : prompt.trim() === '')}
        >
          {sending ? 'Starting …' : 'Start'}
        </button>
        {agent.problem !== null && (
          <p className="bad-text hint agent-problem" role="status">
            This agent cannot be used: {visible(agent.problem)}
          </p>
        )}
        {problem && (
          <p role="alert" className="bad-text">
            {visible(problem)}
          </p>
        )}
      </form>
    </section>
  );
}
