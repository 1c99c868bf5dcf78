// One task as the timeline of its log.

import { a2a, about, get } from './api.js';
import { button, copy, fill, h, Rows, theirs, toast } from './dom.js';
import { ended, place, size, when, who } from './format.js';
import { Artifact, json, message, state } from './parts.js';
import { line } from './tasks.js';
import { progress, stands as hookStands } from './webhooks.js';

/** taskView shows one task of one agent. Another caller's is only read. */
export function taskView({ agent, go, wire }) {
  let whose = ''; // the id of the caller whose task it is
  let service = a2a(agent.name);
  const sign = h('span');
  const name = h('code');
  const cancel = button('Cancel', stop, { hidden: true });
  const goOn = button('Go on in the conversation', () => go(`conversation/${encodeURIComponent(id)}`));
  const owner = h('span.muted');
  const back = () => go(place('tasks', whose));
  const wrong = h('span.error', { role: 'alert' });
  const detail = h('div.detail', { tabindex: -1, role: 'region', 'aria-label': 'Detail' });
  const rows = new Rows({
    label: 'Timeline', kind: 'log', columns: [['No.', 'num'], ['Event', ''], ['What', ''], ['Time', 'num wide']],
    cells: (e) => {
      const l = line(e.event, e.turn);
      return [e.generation || '–', l.sign, e.cut ? `${size(e.size)}, shown with the task` : l.text, when(l.at)];
    },
    open: (e) => one(e),
  });
  const split = h('div.split', rows.el, detail);
  const el = h('div.view', h('div.tools.first', button('← Tasks', back), sign, name, owner, wrong), h('div.tools',
    button('The task as it is', () => whole()), goOn,
    agent.webhooks && button('Webhooks', hooks), wire && button('On the wire', () => go(`wire?q=${encodeURIComponent(id)}`)), cancel), split);
  let [id, task, following, reading, again] = ['', null, null, false, false];

  async function show(wanted, query) {
    rows.el.focus();
    const caller = query.get('caller') ?? '';
    if (wanted === id && caller === whose) return catchUp();
    id = wanted;
    whose = caller;
    service = a2a(agent.name, whose);
    fill(owner, whose && ['of ', theirs(who(whose)), ': you can only look']);
    goOn.hidden = whose !== '';
    fill(name, theirs(id));
    task = null;
    following?.abort();
    rows.set([], -1);
    split.classList.remove('open');
    fill(detail);
    fill(sign);
    wrong.textContent = '';
    await read();
    whole(false);
    return agent.log ? catchUp() : follow();
  }

  async function read() {
    const mine = id;
    try {
      const t = await service.task(mine);
      if (mine !== id) return;
      task = t;
      stands(t.status?.state);
    } catch (e) {
      fill(wrong, theirs(e.message));
    }
  }

  function stands(s) {
    fill(sign, state(s));
    cancel.hidden = whose !== '' || !s || ended(s);
  }

  // The log is read from where it was left; a hint that comes meanwhile has it read once more.
  async function catchUp() {
    if (!agent.log || !id) return;
    if (reading) {
      again = true;
      return;
    }
    reading = true;
    const mine = id;
    try {
      for (let more = true; more || again;) {
        again = false;
        const after = rows.items.at(-1)?.generation ?? 0;
        const page = await get(`agents/${agent.name}/tasks/${encodeURIComponent(mine)}/log?after=${after}`, { headers: about(whose) });
        if (mine !== id) break;
        more = page.more;
        if (page.records.length) {
          rows.set(rows.items.concat(page.records));
          const last = page.records.findLast((r) => r.event.statusUpdate || r.event.task)?.event;
          if (last) stands((last.statusUpdate ?? last.task).status?.state);
        }
      }
    } catch (e) {
      fill(wrong, theirs(e.message));
      if (e.status === 410 && !rows.items.length) rows.set(past(task));
    } finally {
      reading = false;
    }
  }

  // Where the log is elsewhere, the timeline is the task as it is, and then what comes.
  async function follow() {
    if (!task) return;
    rows.set(past(task));
    if (ended(task.status?.state)) return;
    const stopped = (following = new AbortController());
    try {
      for await (const event of service.subscribe(id, stopped.signal)) {
        if (stopped.signal.aborted) return;
        if (event.task) continue;
        rows.set(rows.items.concat([{ event }]));
        if (event.statusUpdate) stands(event.statusUpdate.status?.state);
      }
    } catch (e) {
      if (!stopped.signal.aborted) fill(wrong, theirs(e.message));
    }
  }

  function one(e) {
    split.classList.add('open');
    const l = line(e.event, e.turn);
    const a = e.event.artifactUpdate?.artifact;
    const m = e.event.statusUpdate?.status?.message ?? e.event.message;
    fill(detail, h('div.tools', button('Close', close), button('Copy', () => copy(JSON.stringify(e.event, null, 2), 'Event'))),
      h('h3', l.sign, ' ', when(l.at)), e.turn && [h('h3', 'What the user said'), h('div.box', message(e.turn))],
      m && [h('h3', 'What the agent said'), h('div.box', message(m))], a && new Artifact(a).el,
      e.cut ? h('p', `This event has ${size(e.size)}: see the task as it is.`)
        : [h('h3', 'The event'), h('div.box', json(JSON.stringify(e.event), 'event.json'))]);
  }

  async function whole(open = true) {
    if (open) {
      await read();
      split.classList.add('open');
    }
    if (!task || (!open && split.classList.contains('open'))) return;
    fill(detail, h('div.tools', button('Close', close)),
      h('dl', h('dt', 'State'), h('dd', state(task.status?.state)), h('dt', 'Since'), h('dd', when(task.status?.timestamp)),
        h('dt', 'Context'), h('dd', h('code', theirs(task.contextId)))),
      task.status?.message && [h('h3', 'Last words'), h('div.box', message(task.status.message))],
      (task.artifacts ?? []).map((a) => new Artifact(a).el),
      (task.history ?? []).length > 0 && [h('h3', 'History'), task.history.map((m) =>
        h('div.box', h('b.muted', m.role === 'ROLE_USER' ? 'User' : 'Agent'), message(m)))],
      task.metadata && [h('h3', 'Metadata'), h('div.box', json(JSON.stringify(task.metadata)))]);
  }

  async function stop() {
    cancel.disabled = true;
    try {
      task = await service.cancel(id);
      stands(task.status?.state);
      await catchUp();
    } catch (e) {
      toast(theirs(e.message));
    } finally {
      cancel.disabled = false;
    }
  }

  async function hooks() {
    split.classList.add('open');
    if (whose) return othersHooks();
    const url = h('input', { type: 'url', 'aria-label': 'Address of the webhook', placeholder: 'https://hooks.example/a2a', size: 34 });
    const say = h('p.error', { role: 'alert' });
    const list = h('ul.plain');
    const draw = async () => {
      try {
        const { configs = [] } = await service.hooks(id);
        fill(list, configs.length ? configs.map((c) => h('li', h('code', theirs(c.url)), h('div.line', h('span.muted', theirs(c.id)),
          button('Remove', async () => { await service.removeHook(id, c.id).catch((e) => { fill(say, theirs(e.message)); }); draw(); }))))
          : h('li.muted', 'No webhook is registered for this task.'));
      } catch (e) {
        fill(say, theirs(e.message));
      }
    };
    const add = async () => {
      say.textContent = '';
      try {
        await service.addHook(id, { url: url.value });
        url.value = '';
      } catch (e) {
        fill(say, theirs(e.message));
      }
      await draw();
    };
    fill(detail, h('div.tools', button('Close', close)), h('h3', 'Webhooks of this task'), list,
      h('div.line', url, button('Register', add, { class: 'primary' })), say);
    await draw();
  }

  async function othersHooks() {
    const list = h('ul.plain');
    const say = h('p.error', { role: 'alert' });
    fill(detail, h('div.tools', button('Close', close)), h('h3', 'Webhooks of this task'), list, say);
    try {
      const { webhooks } = await get(`agents/${agent.name}/webhooks?task=${encodeURIComponent(id)}`, { headers: about(whose) });
      fill(list, webhooks.length ? webhooks.map((w) => h('li', h('div.line', h('code', theirs(w.url)), hookStands(w)), progress(w)))
        : h('li.muted', 'No webhook is registered for this task.'));
    } catch (e) {
      fill(say, theirs(e.message));
    }
  }

  function close() {
    split.classList.remove('open');
    whole(false);
    rows.el.focus();
  }

  return {
    el, show, list: rows, hide: () => {},
    escape: () => (split.classList.contains('open') ? close() : back()),
    changed: (what) => { if (what === 'tasks') catchUp(); },
  };
}

/** past returns what a task tells of its own past as items of a timeline. */
function past(task) {
  if (!task) return [];
  const said = (task.history ?? []).map((message_) => ({ event: { message: message_ } }));
  const made = (task.artifacts ?? []).map((artifact) => ({ event: { artifactUpdate: { artifact } } }));
  return [...said, ...made, { event: { statusUpdate: { status: task.status ?? {} } } }];
}
