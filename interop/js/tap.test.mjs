// The official JavaScript SDK's client through parley tap, in front of Revisor: what it gets is what it gets without it.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';

import { GetTaskRequest, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import { startHost } from './host.mjs';

const timeout = 60_000;
const transports = {
  'JSONRPC': () => new JsonRpcTransportFactory(),
  'HTTP+JSON': () => new RestTransportFactory(),
  'GRPC': () => new GrpcTransportFactory(),
};

/** Starts a tap in front of a host; stop returns its exit code and its log. */
async function startTap(host, file) {
  const child = spawn(process.env.PARLEY_BIN, ['tap', host.url, '--listen', '127.0.0.1:0', '--record', file, '--fail-on', 'must'], { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.on('data', (chunk) => { log += chunk; });
  const exited = new Promise((resolve) => { child.once('close', (code, signal) => resolve(code ?? signal)); });
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^parley: tap at (\S+) for /.exec(line)?.[1];
    assert.ok(url, line);
    child.stdout.resume();
    return { url, stop: async () => { child.kill('SIGTERM'); return [await exited, log]; } };
  }
  throw new Error(`parley tap ended with ${await exited}:\n${log}`);
}

/** JSON with members in the order of their names: over gRPC those of a Struct come in any. */
const sorted = (value) => JSON.stringify(value, (_, v) => (v && typeof v === 'object' && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort()) : v));

/** The same without what is another at every run: ids, times and digests over them. */
const plain = (value) => sorted(value).replace(/[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{64}/g, '*');

const request = (text, more) => SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more } });

/** A stream, a question, its answer, an error: all that the client got, as the wire has it. */
async function converse(client) {
  const events = [];
  for await (const event of client.sendMessageStream(request('One two three. '.repeat(50)))) events.push(StreamResponse.toJSON(event));
  const last = events.at(-1).statusUpdate.status.state;
  const artifacts = events.filter((event) => event.artifactUpdate).map((event) => event.artifactUpdate);
  const asked = Task.toJSON(await client.sendMessage(request('  \n ')));
  const done = Task.toJSON(await client.sendMessage(request('Two words.', { taskId: asked.id })));
  const refused = await client.getTask(GetTaskRequest.fromJSON({ id: '00000000-0000-4000-8000-000000000000' })).then(() => 'a task that never was', (error) => `${error.name} ${error.message}`);
  return { id: done.id, said: plain([last, artifacts, asked, done, refused]) };
}

let host, tap, folder;
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parley-tap-'));
  host = await startHost('revisor');
  tap = await startTap(host, join(folder, 'tap.jsonl'));
}, { timeout });
after(async () => {
  await host?.stop();
  await rm(folder, { recursive: true });
}, { timeout });

describe('through the tap', () => {
  for (const binding of Object.keys(transports)) {
    it(`${binding} is what it is without it`, { timeout }, async () => {
      const connect = async (url) => (new ClientFactory({ transports: [transports[binding]()] })).createFromUrl(url);
      const [direct, tapped] = [await connect(host.url), await connect(tap.url)];
      try {
        const without = await converse(direct);
        assert.equal((await converse(tapped)).said, without.said);
        const read = async (client) => sorted(Task.toJSON(await client.getTask(GetTaskRequest.fromJSON({ id: without.id }))));
        assert.equal(await read(tapped), await read(direct));
      } finally {
        for (const c of [direct, tapped]) c.transport.grpcClient?.close();
      }
    });
  }

  it('is recorded, and no clause was broken', { timeout }, async () => {
    const [code, log] = await tap.stop();
    assert.equal(code, 0, log);
    const lines = (await readFile(join(folder, 'tap.jsonl'), 'utf8')).trimEnd().split('\n').map((line) => JSON.parse(line));
    const calls = lines.filter((line) => line.type === 'begin' && line.kind === 'call');
    assert.deepEqual(new Set(calls.map((call) => call.binding)), new Set(Object.keys(transports)));
    assert.equal(calls.length, lines.filter((line) => line.type === 'end' && line.kind === 'call' && line.done && !line.err).length);
  });
});
