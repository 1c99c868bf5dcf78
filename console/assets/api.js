// The console's resources, and the protocol itself as its REST binding has it.

import { parse } from './format.js';

/** Failure is an answer that says no. */
export class Failure extends Error {
  constructor(status, message, reason) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

const root = new URL('api/', import.meta.url);

async function request(path, options = {}) {
  let res;
  try {
    res = await fetch(new URL(path, root), { credentials: 'same-origin', ...options });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Failure(0, 'The console cannot be reached: has the program ended?');
  }
  if (res.ok) return res;
  const text = await res.text();
  throw failure(text, res.status);
}

function failure(text, status) {
  let message = text.slice(0, 300) || `HTTP status ${status}`;
  let reason = '';
  try {
    const { error } = JSON.parse(text);
    message = typeof error === 'string' ? error : error.message;
    reason = error.details?.find((d) => d.reason)?.reason ?? '';
    status ||= error.code;
  } catch { /* it is said as it is */ }
  if (status === 401) window.dispatchEvent(new Event('signed-out'));
  return new Failure(status, message, reason);
}

/** get reads a resource of the console. */
export async function get(path, options) {
  return parse(await (await request(path, options)).text());
}

/** open opens a session with the console's token, or with a credential in a header. */
export const open = (token, headers = {}) => request('session', {
  method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify({ token }),
});

/** about returns the headers of a request about another caller's tasks, by the caller's id; '': about those of the session. */
export const about = (caller) => (caller ? { 'Parley-Caller': caller } : {});

/** a2a is a client of one agent. On another caller's tasks it can only read. */
export function a2a(name, caller = '') {
  const base = `agents/${name}/a2a/`;
  const plain = { 'A2A-Version': '1.0', Accept: 'application/json', ...about(caller) };
  const headers = { ...plain, 'Content-Type': 'application/json' };
  const id = encodeURIComponent;
  const call = async (method, path, body, options = {}) => {
    const res = await request(base + path, {
      method, headers: body === undefined ? plain : headers,
      body: body === undefined ? undefined : JSON.stringify(body), ...options,
    });
    const text = await res.text();
    return text ? parse(text) : {};
  };
  async function* stream(path, body, signal) {
    const res = await request(base + path, {
      method: 'POST', headers: { ...headers, Accept: 'text/event-stream, application/json' }, body: JSON.stringify(body), signal,
    });
    for await (const data of events(res.body)) {
      if (/^\s*\{\s*"error"/.test(data.slice(0, 40))) throw failure(data, 0);
      yield parse(data);
    }
  }
  return {
    send: (body) => call('POST', 'message:send', body),
    stream: (body, signal) => stream('message:stream', body, signal),
    subscribe: (task, signal) => stream(`tasks/${id(task)}:subscribe`, {}, signal),
    task: (task) => call('GET', `tasks/${id(task)}`),
    tasks: (query) => call('GET', `tasks?${new URLSearchParams(query)}`),
    cancel: (task) => call('POST', `tasks/${id(task)}:cancel`, {}),
    hooks: (task) => call('GET', `tasks/${id(task)}/pushNotificationConfigs`),
    addHook: (task, config) => call('POST', `tasks/${id(task)}/pushNotificationConfigs`, config),
    removeHook: (task, hook) => call('DELETE', `tasks/${id(task)}/pushNotificationConfigs/${id(hook)}`),
  };
}

/** events yields the data of server-sent events. Pieces are joined once, so that a large event costs its size. */
async function* events(body) {
  let [pieces, data, held] = [[], [], ''];
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const lines = chunk.split('\n');
    for (const [i, part] of lines.entries()) {
      pieces.push(part);
      if (i === lines.length - 1) break;
      held = pieces.join('');
      pieces = [];
      if (held.endsWith('\r')) held = held.slice(0, -1);
      if (held.startsWith('data:')) data.push(held.slice(held[5] === ' ' ? 6 : 5));
      else if (held === '' && data.length) {
        yield data.join('\n');
        data = [];
      }
    }
  }
}
