// A conversation with the agent: what the user says starts a task or answers one, what the agent does comes as a stream.

import { a2a } from './api.js';
import { button, fill, h, later, theirs, toast } from './dom.js';
import { base64, ended, parse, short, size, waits } from './format.js';
import { Artifact, message, state } from './parts.js';

/** chatView is the conversation with one agent. It goes on while another view is shown. */
export function chatView({ agent, go }) {
  const service = a2a(agent.name);
  const talk = h('div.talk', { role: 'log', 'aria-label': 'Conversation', tabindex: 0 });
  const text = h('textarea', { rows: 3, 'aria-label': 'Message', placeholder: 'Say something to the agent. Enter sends, Shift+Enter breaks the line.' });
  const data = h('textarea.mono', { rows: 5, 'aria-label': 'JSON part', placeholder: '{"any": "JSON value"}', spellcheck: 'false' });
  const files = h('input', { type: 'file', multiple: true, hidden: true, 'aria-label': 'Files' });
  const chosen = h('span.muted');
  const wrong = h('p.error', { role: 'alert' });
  const where = h('span.muted');
  let contextId = '';
  let current = null; // the task that the next message answers, if it waits for one

  data.hidden = true;
  const useJSON = button('JSON', () => {
    data.hidden = !data.hidden;
    useJSON.setAttribute('aria-expanded', !data.hidden);
    (data.hidden ? text : data).focus();
  }, { 'aria-expanded': false });
  files.addEventListener('change', () => {
    fill(chosen, [...files.files].map((f, i) => [i > 0 && ', ', theirs(f.name), ` (${size(f.size)})`]));
  });
  text.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    }
  });
  const el = h('div.view', talk, h('div.compose', { role: 'form', 'aria-label': 'Message' }, text, data, wrong, h('div.line',
    button('Attach files', () => files.click()), useJSON, files, chosen, where,
    button('Start over', reset, { class: 'end' }), button('Send', () => send(), { class: 'primary' }))));
  reset();

  function reset() {
    contextId = '';
    current = null;
    fill(talk, h('div.empty', 'Nothing was said yet.'));
    where.textContent = '';
  }

  /** parts returns what is in the fields, or throws. */
  async function parts() {
    const out = text.value.trim() ? [{ text: text.value }] : [];
    if (!data.hidden && data.value.trim()) {
      try {
        out.push({ data: parse(data.value) });
      } catch (e) {
        throw new Error(`The JSON part is not JSON: ${e.message}`);
      }
    }
    for (const f of files.files) {
      out.push({ raw: await base64(f), filename: f.name, mediaType: f.type || 'application/octet-stream' });
    }
    if (!out.length) throw new Error('There is nothing to send: write something, or attach a file.');
    return out;
  }

  async function send() {
    wrong.textContent = '';
    let content;
    try {
      content = await parts();
    } catch (e) {
      fill(wrong, theirs(e.message));
      return;
    }
    text.value = data.value = files.value = chosen.textContent = '';
    data.hidden = true;
    useJSON.setAttribute('aria-expanded', false);
    say(content, current?.waiting() ? current : null);
  }

  /** say sends a message: an answer to a task, or a new one. */
  function say(content, task) {
    const m = { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: content };
    if (task?.id) m.taskId = task.id;
    if (task?.contextId || contextId) m.contextId = task?.contextId || contextId;
    talk.querySelector(':scope > .empty')?.remove();
    talk.append(h('article.said.user', { 'aria-label': 'You' }, h('header', h('b', 'You'), task && h('span', 'answer')), message(m)));
    current = task ?? new Turn({ service, go, talk, answer: say, heard });
    if (!task) talk.append(current.el);
    current.el.scrollIntoView({ block: 'nearest' });
    current.follow((signal) => service.stream({ message: m }, signal), () => service.send({ message: m, configuration: { returnImmediately: true } }));
  }

  function heard(turn) {
    if (turn.contextId) contextId = turn.contextId;
    fill(where, turn.waiting() && 'The next message answers the question.');
  }

  return {
    el,
    show: () => text.focus(),
    search: () => text.focus(),
    open: async (task) => {
      reset();
      talk.replaceChildren();
      current = new Turn({ service, go, talk, answer: say, heard });
      talk.append(current.el);
      await current.resume(task);
    },
  };
}

/** Turn is what the agent does about a message: a task, or a message of its own. */
class Turn {
  constructor(on) {
    this.on = on;
    this.id = this.contextId = this.state = '';
    this.artifacts = new Map();
    this.queue = [];
    this.sign = h('span');
    this.name = h('span');
    this.cancelButton = button('Cancel', () => this.cancel(), { hidden: true });
    this.before = h('div');
    this.progress = h('div', { 'aria-live': 'polite' });
    this.output = h('div');
    this.trouble = h('p.error', { role: 'alert' });
    this.answerBox = h('div.answer', { hidden: true });
    this.el = h('article.said', { 'aria-label': 'The agent' }, h('header', h('b', 'Agent'), this.sign, this.name, this.cancelButton),
      this.before, this.progress, this.output, this.trouble, this.answerBox);
    this.draw = later(() => this.drain());
  }

  waiting() { return waits(this.state); }

  /** follow reads a stream to its end; where there is none it sends without one and asks for the task. */
  async follow(stream, instead) {
    this.trouble.textContent = '';
    this.answerBox.hidden = true;
    const stop = (this.stop = new AbortController());
    try {
      for await (const e of stream(stop.signal)) this.push(e);
    } catch (e) {
      if (stop.signal.aborted) return;
      if (e.status === 400 && e.reason === 'UNSUPPORTED_OPERATION' && instead && !this.taken) {
        await this.poll(instead);
        return;
      }
      this.queue.push({ failed: e });
      this.drainNow();
      if (this.id && this.taken) await this.recover(e);
      return;
    }
    this.drainNow();
    if (this.id && !ended(this.state) && !this.waiting()) await this.recover(null);
  }

  /** recover finds out how a task stands whose stream broke, and goes on with it. */
  async recover(why) {
    this.lost = (this.lost ?? 0) + 1;
    try {
      const task = await this.on.service.task(this.id);
      this.push({ task });
      this.drainNow();
      if (why) fill(this.trouble, 'The stream broke off: ', theirs(why.message), ' This is the task as it is now.');
      if (ended(this.state) || this.waiting() || this.lost > 5) return;
      const said = [...this.trouble.childNodes];
      const going = this.follow((signal) => this.on.service.subscribe(this.id, signal));
      fill(this.trouble, said);
      await going;
    } catch (e) {
      fill(this.trouble, 'The stream broke off, and the task cannot be read: ', theirs(e.message));
    }
  }

  async poll(start) {
    try {
      this.push(await start());
      this.drainNow();
      while (this.id && !ended(this.state) && !this.waiting()) {
        await new Promise((done) => { setTimeout(done, 1000); });
        this.push({ task: await this.on.service.task(this.id) });
        this.drainNow();
      }
    } catch (e) {
      fill(this.trouble, theirs(e.message));
    }
  }

  /** resume shows a task that is there already and goes on with it. */
  async resume(task) {
    this.id = task;
    this.taken = true;
    await this.recover(null);
  }

  push(event) {
    this.taken = true;
    this.queue.push(event);
    this.draw();
  }

  drainNow() {
    while (this.queue.length) this.drain();
  }

  /** drain shows what came since the last frame that was drawn, for so long that the page stays quick. */
  drain() {
    const { talk } = this.on;
    const low = talk.scrollTop + talk.clientHeight >= talk.scrollHeight - 60; // whoever reads further up stays there
    const until = performance.now() + 12;
    let n = 0;
    for (; n < this.queue.length && performance.now() < until; n++) this.apply(this.queue[n]);
    this.queue.splice(0, n);
    if (this.queue.length) this.draw();
    this.show();
    if (low) talk.scrollTop = talk.scrollHeight;
  }

  apply(e) {
    if (e.failed) fill(this.trouble, theirs(e.failed.message));
    else if (e.task) this.whole(e.task);
    else if (e.message) {
      this.contextId = e.message.contextId || this.contextId;
      this.before.append(message(e.message));
    } else if (e.statusUpdate) this.status(e.statusUpdate.status);
    else if (e.artifactUpdate) this.chunk(e.artifactUpdate);
  }

  whole(task) {
    this.id = task.id;
    this.contextId = task.contextId;
    this.output.replaceChildren();
    this.artifacts.clear();
    for (const a of task.artifacts ?? []) this.chunk({ artifact: a });
    this.status(task.status);
  }

  status(s) {
    if (!s) return;
    this.state = s.state;
    if (!s.message || (s.message.messageId && s.message.messageId === this.heardLast)) return;
    this.heardLast = s.message.messageId;
    // What was said before stays, as far as it is not too much to read: the timeline has all of it.
    if (this.progress.lastChild) this.progress.lastChild.className = 'progress';
    this.progress.append(h('div', message(s.message)));
    while (this.progress.childElementCount > 5) this.progress.firstChild.remove();
  }

  chunk({ artifact, append }) {
    if (!artifact) return;
    const known = this.artifacts.get(artifact.artifactId);
    if (known && append) known.append(artifact);
    else if (known) known.set(artifact);
    else {
      const a = new Artifact(artifact);
      this.artifacts.set(artifact.artifactId, a);
      this.output.append(a.el);
    }
  }

  show() {
    fill(this.sign, this.state && state(this.state));
    if (this.id && !this.name.firstChild) {
      this.name.append(h('a', { href: '#', onclick: (e) => { e.preventDefault(); this.on.go(`task/${encodeURIComponent(this.id)}`); } }, 'Timeline'));
    }
    this.cancelButton.hidden = !this.id || ended(this.state);
    if (this.waiting() && this.answerBox.hidden) this.ask();
    else if (!this.waiting()) this.answerBox.hidden = true;
    this.on.heard(this);
  }

  /** ask lets the user answer in place. */
  ask() {
    const auth = short(this.state) === 'AUTH_REQUIRED';
    const field = h('textarea', { rows: 2, 'aria-label': auth ? 'Answer to the request for authorization' : 'Answer' });
    const reply = () => {
      if (!field.value.trim()) {
        field.focus();
        return;
      }
      this.stop?.abort();
      this.answerBox.hidden = true;
      this.on.answer([{ text: field.value }], this);
    };
    field.addEventListener('keydown', (e) => {
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
        e.preventDefault();
        reply();
      }
    });
    fill(this.answerBox, h('p', auth
      ? 'The agent needs an authorization. Give it where the agent says, then answer here; a message authorizes nothing by itself.'
      : 'The agent asks. Answer here.'), field, h('div.line', button(auth ? 'Answer, and go on' : 'Answer', reply, { class: 'primary' })));
    this.answerBox.hidden = false;
    if (!document.activeElement.value) field.focus({ preventScroll: true }); // nobody's next words go into the answer by mistake
    this.el.scrollIntoView({ block: 'nearest' });
  }

  async cancel() {
    this.cancelButton.disabled = true;
    try {
      const task = await this.on.service.cancel(this.id);
      this.push({ task });
    } catch (e) {
      toast(theirs(e.message));
    } finally {
      this.cancelButton.disabled = false;
    }
  }
}
