// The official JavaScript SDK's client against parley serve, on each of its three transports.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { after, before, describe, it } from 'node:test';

import {
  GetTaskRequest, ListTasksRequest, ListTasksResponse, SendMessageRequest, StreamResponse, Task, TaskPushNotificationConfig,
} from '@a2a-js/sdk';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import {
  ContentTypeNotSupportedError, RequestMalformedError, TaskNotCancelableError,
  TaskNotFoundError, UnsupportedOperationError, VersionNotSupportedError,
} from '@a2a-js/sdk/errors';

import { startHost } from './host.mjs';

const timeout = 30_000;
const transports = {
  'JSONRPC': () => new JsonRpcTransportFactory(),
  'HTTP+JSON': () => new RestTransportFactory(),
  'GRPC': () => new GrpcTransportFactory(),
};
const v1 = { serviceParameters: { 'A2A-Version': '1.0' } };
const unknownId = '00000000-0000-4000-8000-000000000000';
const blank = '  \n ';

/** Reads the agent's card and connects to the interface of one binding. */
async function connect(host, binding) {
  const factory = new ClientFactory({ transports: [transports[binding]()] });
  const client = await factory.createFromUrl(host.url);
  assert.equal(client.transport.protocolName, binding);
  return client;
}

/** A request whose message has the given parts (or one text), as the wire has it. */
function request(parts, { configuration, ...message } = {}) {
  if (typeof parts === 'string') parts = [{ text: parts }];
  return SendMessageRequest.fromJSON({ message: { messageId: randomUUID(), role: 'ROLE_USER', parts, ...message }, configuration });
}

/** Sends and returns the task as the wire has it. */
async function send(client, parts, options) {
  const result = await client.sendMessage(request(parts, options));
  assert.ok(result.status, `a task was expected, not ${JSON.stringify(result)}`);
  return Task.toJSON(result);
}

const getTask = async (client, params) => Task.toJSON(await client.getTask(GetTaskRequest.fromJSON(params)));
const cancelTask = async (client, id) => Task.toJSON(await client.cancelTask({ tenant: '', id, metadata: undefined }));
const subscribe = (client, id, options) => client.resubscribeTask({ tenant: '', id }, options);
const listTasks = async (client, params) => ListTasksResponse.toJSON(await client.listTasks(ListTasksRequest.fromJSON(params)));

/** Reads a stream to its end, each event as the wire has it. */
async function collect(stream) {
  const events = [];
  for await (const event of stream) events.push(StreamResponse.toJSON(event));
  return events;
}

const kind = (event) => Object.keys(event)[0];
const texts = (parts) => parts.map((part) => part.text);

/** Folds a stream's events as a client would, to compare with what GetTask says. */
function fold(events) {
  const task = structuredClone(events[0].task);
  task.artifacts ??= [];
  for (const { statusUpdate, artifactUpdate } of events.slice(1)) {
    if (statusUpdate) task.status = statusUpdate.status;
    if (!artifactUpdate) continue;
    const { artifact, append } = artifactUpdate;
    const known = task.artifacts.find((a) => a.artifactId === artifact.artifactId);
    if (!known) task.artifacts.push(structuredClone(artifact));
    else if (append) known.parts.push(...artifact.parts);
    else Object.assign(known, artifact);
  }
  return task;
}

let revisor, echo;
before(async () => { [revisor, echo] = await Promise.all([startHost('revisor', '--allow-private-webhooks'), startHost('echo')]); }, { timeout });
after(async () => { await Promise.all([revisor?.stop(), echo?.stop()]); }, { timeout });

for (const binding of Object.keys(transports)) {
  describe(binding, () => {
    let client, echoClient;
    before(async () => { [client, echoClient] = await Promise.all([connect(revisor, binding), connect(echo, binding)]); });
    after(() => {
      for (const c of [client, echoClient]) c?.transport.grpcClient?.close();
    });

    it('is found by the card', { timeout }, async () => {
      const card = await client.getAgentCard();
      assert.equal(card.name, revisor.name);
      assert.equal(card.capabilities.streaming, true);
      assert.ok(card.skills.some((skill) => skill.id === 'text_stats'));
      for (const face of card.supportedInterfaces) assert.equal(face.protocolVersion, '1.0');
      assert.deepEqual(new Set(card.supportedInterfaces.map((face) => face.protocolBinding)), new Set(Object.keys(transports)));
    });

    it('sends a message and gets the finished task', { timeout }, async () => {
      const contextId = randomUUID();
      const task = await send(client, 'Hello there. Good day!', { contextId });
      assert.equal(task.status.state, 'TASK_STATE_COMPLETED');
      assert.equal(task.contextId, contextId);
      assert.equal(task.artifacts.length, 1);
      const stats = task.artifacts[0].parts.find((part) => part.data)?.data;
      assert.equal(stats.words, 4);
      assert.equal(stats.sentences, 2);
      assert.equal(stats.characters, 22);
    });

    it('streams a task from its start to its end', { timeout }, async () => {
      const events = await collect(client.sendMessageStream(request('One two three.\n\n'.repeat(20_000))));
      assert.equal(kind(events[0]), 'task');
      assert.ok(events.slice(1).every((event) => ['statusUpdate', 'artifactUpdate'].includes(kind(event))));
      assert.ok(events.some((event) => event.statusUpdate?.status.message), 'no progress was told about a long text');
      assert.equal(events.at(-1).statusUpdate?.status.state, 'TASK_STATE_COMPLETED');
      const stored = await getTask(client, { id: events[0].task.id });
      assert.deepEqual(fold(events).artifacts, stored.artifacts);
      assert.equal(stored.artifacts[0].parts.find((part) => part.data).data.words, 60_000);
    });

    it('asks for input and takes the answer in the same task', { timeout }, async () => {
      const asked = await send(client, blank);
      assert.equal(asked.status.state, 'TASK_STATE_INPUT_REQUIRED');
      assert.ok(asked.status.message.parts[0].text, 'no question');
      const done = await send(client, 'Now there is text.', { taskId: asked.id });
      assert.equal(done.id, asked.id);
      assert.equal(done.contextId, asked.contextId);
      assert.equal(done.status.state, 'TASK_STATE_COMPLETED');
      assert.equal(done.artifacts[0].parts.find((part) => part.data).data.words, 4);
    });

    it('ends a stream at INPUT_REQUIRED and streams the answer', { timeout }, async () => {
      const asked = await collect(client.sendMessageStream(request(blank)));
      assert.equal(fold(asked).status.state, 'TASK_STATE_INPUT_REQUIRED');
      const { id } = asked[0].task;
      const answered = await collect(client.sendMessageStream(request('Some text.', { taskId: id })));
      assert.equal(answered[0].task?.id, id);
      assert.equal(answered.at(-1).statusUpdate?.status.state, 'TASK_STATE_COMPLETED');
    });

    it('answers at once when asked to', { timeout }, async () => {
      const task = await send(client, 'Some text.', { configuration: { returnImmediately: true } });
      assert.ok(task.id);
      const events = [];
      try {
        events.push(...await collect(subscribe(client, task.id)));
      } catch (error) { // it had finished before the subscription came
        assert.ok(error instanceof UnsupportedOperationError, error);
      }
      if (events.length) assert.equal(kind(events[0]), 'task');
      assert.equal((await getTask(client, { id: task.id })).status.state, 'TASK_STATE_COMPLETED');
    });

    it('gets a task with as much history as asked for', { timeout }, async () => {
      const asked = await send(client, blank);
      const question = asked.status.message.parts[0].text;
      await send(client, 'The answer.', { taskId: asked.id });
      const all = await getTask(client, { id: asked.id });
      assert.deepEqual(all.history.map((m) => m.role), ['ROLE_USER', 'ROLE_AGENT', 'ROLE_USER']);
      assert.deepEqual(all.history.flatMap((m) => texts(m.parts)), [blank, question, 'The answer.']);
      assert.ok(all.history.every((m) => m.taskId === asked.id && m.contextId === asked.contextId));
      const last = await getTask(client, { id: asked.id, historyLength: 1 });
      assert.deepEqual(last.history.flatMap((m) => texts(m.parts)), ['The answer.']);
      const none = await getTask(client, { id: asked.id, historyLength: 0 });
      assert.equal(none.history?.length ?? 0, 0);
    });

    it('lists the tasks of a context, page by page', { timeout }, async () => {
      const contextId = randomUUID();
      const sent = [];
      for (let i = 0; i < 5; i++) sent.push((await send(client, `Text ${i}.`, { contextId })).id);
      const parked = await send(client, blank, { contextId });
      const seen = [];
      let pageToken = '';
      do {
        const page = await listTasks(client, { contextId, pageSize: 4, pageToken });
        assert.equal(page.totalSize, 6);
        assert.ok(page.tasks.every((task) => !task.artifacts?.length), 'artifacts were not asked for');
        seen.push(...page.tasks.map((task) => task.id));
        pageToken = page.nextPageToken;
      } while (pageToken);
      assert.deepEqual(seen, [...sent, parked.id].reverse());
      const waiting = await listTasks(client, { contextId, status: 'TASK_STATE_INPUT_REQUIRED', includeArtifacts: true });
      assert.deepEqual(waiting.tasks.map((task) => task.id), [parked.id]);
      const none = await listTasks(client, { contextId: randomUUID() });
      assert.equal(none.tasks?.length ?? 0, 0);
    });

    it('cancels a task', { timeout }, async () => {
      const { id } = await send(client, blank);
      assert.equal((await cancelTask(client, id)).status.state, 'TASK_STATE_CANCELED');
      assert.equal((await cancelTask(client, id)).status.state, 'TASK_STATE_CANCELED', 'canceling again returns the task');
      assert.equal((await getTask(client, { id })).status.state, 'TASK_STATE_CANCELED');
    });

    it('subscribes to a waiting task and follows it to its end', { timeout }, async () => {
      const { id } = await send(client, blank);
      const stream = subscribe(client, id);
      const first = StreamResponse.toJSON((await stream.next()).value);
      assert.equal(first.task?.id, id);
      assert.equal(first.task.status.state, 'TASK_STATE_INPUT_REQUIRED');
      const answer = send(client, 'Some text.', { taskId: id });
      const events = [first, ...await collect(stream)];
      assert.equal(events.at(-1).statusUpdate?.status.state, 'TASK_STATE_COMPLETED');
      assert.deepEqual(fold(events).artifacts, (await answer).artifacts);
    });

    it('loses nothing when a subscriber goes away', { timeout }, async () => {
      const { id } = await send(client, blank);
      const leave = new AbortController();
      const stream = subscribe(client, id, { signal: leave.signal });
      await stream.next();
      leave.abort();
      await stream.next().catch(() => {});
      assert.equal((await send(client, 'Some text.', { taskId: id })).status.state, 'TASK_STATE_COMPLETED');
    });

    it('carries every kind of part unchanged', { timeout }, async () => {
      const parts = [
        { text: '<a&b> \u{1F9D1}\u200D\u{1F680}', mediaType: 'text/plain' },
        { raw: Buffer.from([0x00, 0xff, 0xfe]).toString('base64'), filename: 'three.bin', mediaType: 'application/octet-stream' },
        { url: 'https://example.com/a?b=c', mediaType: 'image/png' },
        { data: { n: 1, z: null, e: {}, l: [null, {}], s: 'x', f: 1.5, t: true }, metadata: { k: ['v'] } },
      ];
      const task = await send(echoClient, parts);
      assert.equal(task.status.state, 'TASK_STATE_COMPLETED');
      assert.equal(task.artifacts.length, 1);
      assert.deepEqual(task.artifacts[0].parts, parts);
      assert.deepEqual(task.history[0].parts, parts);
    });

    it('has a webhook called, and hides its secrets', { timeout }, async () => {
      const got = [];
      let end;
      const ended = new Promise((resolve) => { end = resolve; });
      const receiver = createServer(async (req, res) => {
        let body = '';
        for await (const chunk of req) body += chunk;
        got.push({ headers: req.headers, event: JSON.parse(body) });
        res.end();
        if (got.at(-1).event.task) end();
      });
      await new Promise((resolve) => { receiver.listen(0, '127.0.0.1', resolve); });
      try {
        const task = await send(client, 'Some text.');
        const url = `http://127.0.0.1:${receiver.address().port}/hook`;
        const made = TaskPushNotificationConfig.toJSON(await client.createTaskPushNotificationConfig(TaskPushNotificationConfig.fromJSON({
          taskId: task.id, url, token: 'tok', authentication: { scheme: 'Bearer', credentials: 'secret' },
        })));
        assert.ok(made.id);
        await ended;
        assert.equal(got[0].headers.authorization, 'Bearer secret');
        assert.equal(got[0].headers['x-a2a-notification-token'], 'tok');
        assert.equal(got[0].headers['content-type'], 'application/a2a+json');
        assert.equal(got[0].event.task.id, task.id);
        assert.equal(got[0].event.task.status.state, 'TASK_STATE_COMPLETED');
        const read = TaskPushNotificationConfig.toJSON(
          await client.getTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: made.id }));
        assert.equal(read.url, url);
        assert.ok(!JSON.stringify(read).includes('secret'));
        const { configs } = await client.listTaskPushNotificationConfig({ tenant: '', taskId: task.id, pageSize: 0, pageToken: '' });
        assert.equal(configs.length, 1);
        await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: made.id });
        await client.deleteTaskPushNotificationConfig({ tenant: '', taskId: task.id, id: made.id });
      } finally {
        receiver.close();
      }
    });

    describe('errors', () => {
      let done;
      before(async () => { done = await send(client, 'Some text.'); });

      const cases = [
        ['get of an unknown task', TaskNotFoundError, () => getTask(client, { id: unknownId })],
        ['cancel of an unknown task', TaskNotFoundError, () => cancelTask(client, unknownId)],
        ['subscription to an unknown task', TaskNotFoundError, () => collect(subscribe(client, unknownId))],
        ['message to an unknown task', TaskNotFoundError, () => send(client, 'x', { taskId: unknownId })],
        ['stream to an unknown task', TaskNotFoundError, () => collect(client.sendMessageStream(request('x', { taskId: unknownId })))],
        ['cancel of a finished task', TaskNotCancelableError, () => cancelTask(client, done.id)],
        ['message to a finished task', UnsupportedOperationError, () => send(client, 'x', { taskId: done.id })],
        ['stream to a finished task', UnsupportedOperationError,
          () => collect(client.sendMessageStream(request('x', { taskId: done.id })))],
        ['subscription to a finished task', UnsupportedOperationError, () => collect(subscribe(client, done.id))],
        ['extended card', UnsupportedOperationError, () => client.transport.getExtendedAgentCard({ tenant: '' }, v1)],
        ['part of a type that the agent does not read', ContentTypeNotSupportedError,
          () => send(client, [{ raw: 'AAAA', mediaType: 'image/png' }])],
        ['webhook at a private address', RequestMalformedError, async () => {
          const task = await send(echoClient, 'x');
          await echoClient.createTaskPushNotificationConfig(
            TaskPushNotificationConfig.fromJSON({ taskId: task.id, url: 'https://127.0.0.1:9/' }));
        }],
        ['webhook of an unknown task', TaskNotFoundError,
          () => client.createTaskPushNotificationConfig(TaskPushNotificationConfig.fromJSON({ taskId: unknownId, url: 'http://127.0.0.1:9/' }))],
        ['a version that is not spoken', VersionNotSupportedError,
          () => client.transport.getTask({ tenant: '', id: done.id }, { serviceParameters: { 'A2A-Version': '99.0' } })],
        ['no version', VersionNotSupportedError, () => client.transport.getTask({ tenant: '', id: done.id })],
        ['a negative history length', RequestMalformedError, () => getTask(client, { id: done.id, historyLength: -1 })],
        ['another context than the task has', RequestMalformedError, async () => {
          const { id } = await send(client, blank);
          await send(client, 'x', { taskId: id, contextId: randomUUID() });
        }],
      ];
      for (const [name, ErrorClass, call] of cases) {
        it(`${name}: ${ErrorClass.name}`, { timeout }, async () => {
          await assert.rejects(call, (error) => {
            assert.ok(error instanceof ErrorClass, `${error.name}: ${error.message}`);
            return true;
          });
        });
      }
    });
  });
}

describe('raw HTTP', () => {
  const call = (headers) => fetch(revisor.url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ListTasks', params: {} }),
  });

  it('without A2A-Version is told what to send', { timeout }, async () => {
    const { error } = await (await call({})).json();
    assert.equal(error.code, -32009);
    assert.match(error.message, /A2A-Version: 1\.0/);
    assert.equal(error.data[0].reason, 'VERSION_NOT_SUPPORTED');
  });

  it('with A2A-Version is served', { timeout }, async () => {
    const { id, result } = await (await call({ 'A2A-Version': '1.0' })).json();
    assert.equal(id, 1);
    assert.ok(Array.isArray(result.tasks));
  });
});
