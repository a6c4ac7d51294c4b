import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

type Module = typeof import('../src/access/token');

const stored = new Map<string, string>();
let sut: Module;
let requests: { authorization: string | null }[] = [];
let answer = () => new Response('{}', { status: 200 });

beforeEach(async () => {
  stored.clear();
  requests = [];
  vi.stubGlobal('sessionStorage', {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, value: string) => void stored.set(key, value),
  });
  vi.stubGlobal('fetch', async (_: unknown, init?: RequestInit) => {
    requests.push({ authorization: new Headers(init?.headers).get('authorization') });
    return answer();
  });
  answer = () => new Response('{}', { status: 200 });
  vi.resetModules();
  sut = await import('../src/access/token');
});
afterEach(() => vi.unstubAllGlobals());

describe('the token', () => {
  it('is asked for when the server refuses a request without one, and sent from then on', async () => {
    answer = () => new Response('{}', { status: 401 });
    await sut.authorizedFetch('/graphql');
    expect(sut.access.get()).toEqual({ kind: 'asked', why: 'missing', times: 0 });
    sut.keepToken('sesame');
    expect(sut.access.get()).toMatchObject({ kind: 'open', times: 1 });
    answer = () => new Response('{}', { status: 200 });
    await sut.authorizedFetch('/graphql', { headers: { accept: 'x' } });
    expect(requests.map((r) => r.authorization)).toEqual([null, 'Bearer sesame']);
    expect(sut.socketParams(sut.token())).toEqual({ authorization: 'Bearer sesame' });
    expect([...stored.values()]).toEqual(['sesame']);
  });

  it('is called wrong when the server refuses a kept one; late refusals of an older one do not count', () => {
    sut.keepToken('old');
    sut.keepToken('new');
    sut.refused('old');
    sut.refused(null);
    expect(sut.access.get().kind).toBe('open');
    sut.refused('new');
    expect(sut.access.get()).toMatchObject({ kind: 'asked', why: 'wrong' });
  });

  it('leaves a header that the reader of the playground wrote alone', async () => {
    sut.keepToken('sesame');
    answer = () => new Response('{}', { status: 401 });
    await sut.authorizedFetch('/graphql', { headers: { Authorization: 'Bearer mine' } });
    expect(requests[0]?.authorization).toBe('Bearer mine');
    expect(sut.access.get().kind).toBe('open');
  });

  it('lasts as long as the page where storage is forbidden', () => {
    vi.stubGlobal('sessionStorage', undefined);
    sut.keepToken('sesame');
    expect(sut.token()).toBe('sesame');
  });

  it('is tried before it is kept', async () => {
    expect(await sut.tryToken('sesame')).toBeNull();
    answer = () => new Response('{}', { status: 401 });
    expect(await sut.tryToken('other')).toContain('not the token');
    answer = () => new Response('', { status: 503 });
    expect(await sut.tryToken('other')).toContain('503');
    answer = () => {
      throw new TypeError('failed to fetch');
    };
    expect(await sut.tryToken('other')).toContain('did not answer');
    expect(await sut.tryToken('schlüssel –')).toContain('characters');
    expect(sut.token()).toBeNull();
  });
});
