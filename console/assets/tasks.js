// The caller's tasks, those with the newest status first, as they change. The operator may look at another caller's.

import { a2a, get } from './api.js';
import { button, fill, h, later, Rows, theirs } from './dom.js';
import { short, states, stateWords, taskPlace, when, who, words } from './format.js';
import { state } from './parts.js';

// Callers that are offered; and milliseconds for which they are not asked for anew because a task changed.
const [most, fresh] = [10000, 5000];

/** tasksView lists the tasks of one agent. */
export function tasksView({ agent, go, operator }) {
  let whose = ''; // the id of the caller whose tasks they are
  let service = a2a(agent.name);
  const caller = h('select', { 'aria-label': 'Caller', hidden: true, onchange: () => { choose(caller.value); load(); } });
  const status = h('select', { 'aria-label': 'State', onchange: () => load() }, h('option', { value: '' }, 'Any state'),
    states.map((s) => h('option', { value: `TASK_STATE_${s}` }, stateWords(s)[0])));
  const context = h('input', { type: 'search', 'aria-label': 'Context', placeholder: 'Context id', oninput: () => soon() });
  const count = h('span.muted', { role: 'status' });
  const wrong = h('span.error', { role: 'alert' });
  const rows = new Rows({
    label: 'Tasks', kind: 'tasks', empty: 'There is no task. Say something to the agent in the conversation.', columns: [['State', ''], ['What was said last', ''], ['Context', 'mono wide'], ['Since', 'num']],
    cells: (t) => [state(t.status?.state), words(t.status?.message?.parts) || words(t.history?.at(-1)?.parts) || t.id, t.contextId, when(t.status?.timestamp)],
    open: (t) => go(taskPlace(t.id, whose)),
    end: later(() => more()),
  });
  const el = h('div.view', h('div.tools', caller, status, context, button('Refresh', () => { load(); callers(); }), count, wrong), h('div.split', rows.el));
  let [next, loading, timer, turn] = ['', false, 0, 0];
  let [asked, offered] = [0, ''];

  function choose(id) {
    if (id === whose) return;
    whose = id;
    service = a2a(agent.name, whose);
    turn++; // what is on its way is another's
    next = '';
    rows.set([], -1);
    count.textContent = '';
  }

  // Whose tasks there are. A list of one is no choice.
  async function callers() {
    if (!operator || !agent.log) return;
    asked = Date.now();
    const all = [];
    try {
      for (let after = null; after !== '' && all.length < most;) {
        const page = await get(`agents/${agent.name}/callers${after ? `?after=${encodeURIComponent(after)}` : ''}`);
        all.push(...page.callers);
        after = page.next;
      }
    } catch (e) {
      fill(wrong, theirs(e.message));
      return;
    }
    const now = JSON.stringify(all);
    if (now !== offered) {
      offered = now;
      fill(caller, all.map((c) => h('option', { value: c.id }, who(c))), all.length >= most && h('option', { disabled: true }, 'There are more'));
    }
    if (!all.some((c) => c.id === whose) && ![...caller.options].some((o) => o.value === whose)) {
      caller.append(h('option', { value: whose }, who(whose)));
    }
    caller.value = whose;
    caller.hidden = caller.options.length < 2;
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(load, 250);
  }

  function query(pageToken) {
    const q = { pageSize: 100, historyLength: 1 };
    if (status.value) q.status = status.value;
    if (context.value.trim()) q.contextId = context.value.trim();
    if (pageToken) q.pageToken = pageToken;
    return q;
  }

  // The first page is read anew; what was read beyond it stays where it is not in the way.
  async function load() {
    const mine = ++turn;
    try {
      const page = await service.tasks(query());
      if (mine !== turn) return;
      const chosen = rows.items[rows.at]?.id;
      next = page.nextPageToken;
      const known = new Map(rows.items.map((t) => [JSON.stringify(t), t])); // what did not change is not drawn anew
      const items = (page.tasks ?? []).map((t) => known.get(JSON.stringify(t)) ?? t);
      rows.set(items, items.findIndex((t) => t.id === chosen));
      fill(count, `${page.totalSize} ${page.totalSize === 1 ? 'task' : 'tasks'}`);
      wrong.textContent = '';
    } catch (e) {
      fill(wrong, theirs(e.message));
    }
  }

  async function more() {
    if (!next || loading) return;
    loading = true;
    const mine = turn;
    try {
      const page = await service.tasks(query(next));
      if (mine !== turn) return;
      next = page.nextPageToken;
      rows.set(rows.items.concat(page.tasks ?? []));
    } catch (e) {
      fill(wrong, theirs(e.message));
    } finally {
      loading = false;
    }
  }

  return {
    el, list: rows, search: () => context.focus(),
    show: (_, query) => {
      if (query.has('caller')) choose(query.get('caller'));
      load();
      callers();
      rows.el.focus();
    },
    changed: (what) => {
      if (what !== 'tasks') return;
      soon();
      if (Date.now() - asked > fresh) callers();
    },
  };
}

/** line says an event of a task in one line: what it is, what it says, and when. */
export function line(event, turn) {
  if (event.statusUpdate) {
    const s = event.statusUpdate.status ?? {};
    const said = turn ? ['You: ', theirs(words(turn.parts))] : words(s.message?.parts);
    return { sign: state(s.state), text: said, at: s.timestamp };
  }
  if (event.artifactUpdate) {
    const { artifact: a = {}, append, lastChunk } = event.artifactUpdate;
    const kind = append ? 'Chunk' : 'Artifact';
    return { sign: h('span', lastChunk && append ? 'Last chunk' : kind), text: [theirs(a.name || a.artifactId), ': ', theirs(words(a.parts))] };
  }
  if (event.task) {
    const t = event.task;
    const asked = (t.history ?? []).map((m) => words(m.parts)).join(' · ');
    return { sign: state(t.status?.state), text: asked || ['Task ', theirs(t.id)], at: t.status?.timestamp };
  }
  if (event.message) return { sign: h('span', theirs(short(event.message.role))), text: words(event.message.parts) };
  return { sign: h('span', 'Unknown'), text: JSON.stringify(event).slice(0, 200) };
}
