// An agent on the official JavaScript SDK, for parley's client and conformance run: it does what the first word of a
// message says, with the words of "parley demo-server". It prints "agent: URL, grpc ADDR" when it is ready.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { Role, TaskState } from '@a2a-js/sdk';
import {
  AgentEvent, DefaultPushNotificationSender, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import express from 'express';

const part = ($case, value, mediaType = '', filename = '') => ({ content: { $case, value }, metadata: undefined, filename, mediaType });
const text = (value) => part('text', value);
const data = part('data', { fruit: 'plum', weights: [1, 2.5] }, 'application/json');
const file = part('raw', Buffer.from('fruit,weight\nplum,2.5\n'), 'text/csv', 'fruit.csv');
const link = part('url', 'https://example.com/fruit.csv', 'text/csv', 'fruit.csv');

const message = (taskId, contextId, ...parts) => ({
  messageId: randomUUID(), role: Role.ROLE_AGENT, parts, taskId, contextId, extensions: [], metadata: undefined, referenceTaskIds: [],
});

/** What a run tells: its task's events. */
class Run {
  constructor({ taskId, contextId }, bus) { Object.assign(this, { taskId, contextId, bus }); }
  task(userMessage) {
    this.bus.publish(AgentEvent.task({
      id: this.taskId, contextId: this.contextId, artifacts: [], history: [userMessage], metadata: undefined,
      status: { state: TaskState.TASK_STATE_SUBMITTED, timestamp: new Date().toISOString(), message: undefined },
    }));
  }
  status(state, words) {
    this.bus.publish(AgentEvent.statusUpdate({
      taskId: this.taskId, contextId: this.contextId, metadata: undefined,
      status: {
        state: TaskState[`TASK_STATE_${state}`], timestamp: new Date().toISOString(),
        message: words && message(this.taskId, this.contextId, text(words)),
      },
    }));
  }
  artifact(name, parts, { artifactId = randomUUID(), append = false, lastChunk = true } = {}) {
    this.bus.publish(AgentEvent.artifactUpdate({
      taskId: this.taskId, contextId: this.contextId, append, lastChunk, metadata: undefined,
      artifact: { artifactId, name, description: '', parts, metadata: undefined, extensions: [] },
    }));
  }
}

const milliseconds = (s = '30s') => { const [, n, unit] = /^(\d+)(ms|s)$/.exec(s) ?? [0, 30, 's']; return n * (unit === 's' ? 1000 : 1); };

class Demo {
  canceled = new Set();
  contexts = new Map(); // of the tasks

  async execute(request, bus) {
    this.contexts.set(request.taskId, request.contextId);
    const { userMessage, task } = request;
    const run = new Run(request, bus);
    const [word, ...rest] = userMessage.parts.map((p) => (p.content?.$case === 'text' ? p.content.value : '')).join(' ').trim().split(/\s+/);
    if (!task && (word === 'message' || word === 'help')) {
      bus.publish(AgentEvent.message(message('', request.contextId, text(rest.join(' ') || 'A message, and no task.'))));
      return;
    }
    if (task) bus.publish(AgentEvent.task(task));
    else run.task(userMessage);
    run.status('WORKING');
    if (task) run.artifact('answer', userMessage.parts);
    else if (await this.say(run, word, rest, userMessage)) return;
    run.status('COMPLETED');
  }

  /** Does what a word says; true: the task does not end as completed. */
  async say(run, word, rest, userMessage) {
    switch (word) {
      case 'text': run.artifact('demo', [text('A line of text.\nAnd another one.')]); return false;
      case 'data': run.artifact('demo', [data]); return false;
      case 'file': run.artifact('demo', [file]); return false;
      case 'link': run.artifact('demo', [link]); return false;
      case 'parts': run.artifact('demo', [text('A line of text.'), data, file, link]); return false;
      case 'chunks': {
        const n = Number(rest[0] ?? 3), artifactId = randomUUID();
        for (let i = 1; i <= n; i++) run.artifact('chunks', [text(i < n ? `chunk ${i}, ` : `chunk ${i}`)], { artifactId, append: i > 1, lastChunk: i === n });
        return false;
      }
      case 'long': {
        for (let i = 1; i <= 10; i++) {
          await new Promise((resolve) => { setTimeout(resolve, milliseconds(rest[0]) / 10); });
          if (this.canceled.delete(run.taskId)) return true;
          run.status('WORKING', `${i * 10}% done`);
        }
        run.artifact('demo', [text(`It took ${rest[0] ?? '30s'}.`)]);
        return false;
      }
      case 'ask': run.status('INPUT_REQUIRED', 'What shall the answer be?'); return true;
      case 'auth': run.status('AUTH_REQUIRED', 'May I? Any answer is a yes.'); return true;
      case 'fail': run.status('FAILED', 'It failed, as you wished.'); return true;
      case 'reject': run.status('REJECTED', 'I will not do that.'); return true;
      default: run.artifact('echo', userMessage.parts); return false;
    }
  }

  cancelTask = async (taskId, bus) => {
    this.canceled.add(taskId);
    new Run({ taskId, contextId: this.contexts.get(taskId) }, bus).status('CANCELED');
  };
}

const app = express();
const http = createServer(app);
await new Promise((resolve) => { http.listen(0, '127.0.0.1', resolve); });
const url = `http://127.0.0.1:${http.address().port}`;
const grpc = new Server();
const grpcPort = await new Promise((resolve, reject) => {
  grpc.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port)));
});

const card = {
  name: 'JavaScript demo', description: 'Does what the first word of a message says.', version: '1.0.0', provider: undefined,
  supportedInterfaces: [
    { url: `${url}/rpc`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' },
    { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', tenant: '', protocolVersion: '1.0' },
    { url: `127.0.0.1:${grpcPort}`, protocolBinding: 'GRPC', tenant: '', protocolVersion: '1.0' }],
  capabilities: { streaming: true, pushNotifications: true, extensions: [], extendedAgentCard: false },
  securitySchemes: {}, securityRequirements: [], defaultInputModes: ['*/*'], defaultOutputModes: ['*/*'],
  skills: [{
    id: 'demo', name: 'Demonstration', description: 'Does what the first word of a message says.', tags: ['demo'],
    examples: ['ask', 'parts'], inputModes: [], outputModes: [], securityRequirements: [],
  }],
  documentationUrl: undefined, iconUrl: undefined, signatures: [],
};
const hooks = new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  card, new InMemoryTaskStore(), new Demo(), undefined, hooks, new DefaultPushNotificationSender(hooks));
const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler(options));
app.use('/rest', restHandler(options));
grpc.addService(A2AService, grpcService(options));
console.log(`agent: ${url}, grpc 127.0.0.1:${grpcPort}`);
