// The page: who may see it, which view is shown, and the keys.

import { Failure, get, open } from './api.js';
import { button, fill, h, theirs } from './dom.js';
import { agentView } from './agent.js';
import { chatView } from './chat.js';
import { taskView } from './task.js';
import { tasksView } from './tasks.js';
import { webhooksView } from './webhooks.js';
import { wireView } from './wire.js';

const byId = (id) => document.getElementById(id);
const main = byId('main');

// The views, in the order of their keys 1, 2, 3 …
const all = {
  agent: ['Agent', agentView],
  conversation: ['Conversation', chatView],
  tasks: ['Tasks', tasksView],
  wire: ['Wire', wireView],
  webhooks: ['Webhooks', webhooksView],
  task: ['', taskView],
};

let about = null; // what there is to see
let agent = null; // the one that is shown; null: there is none now
let current = null; // the view that is shown
let routed = null; // the part of the address that it is shown for
const made = new Map(); // the views that were, by agent

/** go shows a view: its name, and what of it. */
function go(where) {
  location.hash = `#/${where}`;
  route(); // the event comes later, when the user may have gone on
}

function offered() {
  const is = { agent: true, conversation: agent, tasks: agent, wire: about.wire, webhooks: agent?.webhooks };
  return Object.keys(all).filter((v) => is[v]);
}

function viewOf(name) {
  if (!agent && name !== 'wire') return nobody();
  const key = name === 'wire' ? 'wire' : `${agent.name}/${name}`; // the wire is of all agents
  if (!made.has(key)) {
    made.set(key, all[name][1]({ agent, go, hint: changed, wire: about.wire, operator: about.operator }));
  }
  return made.get(key);
}

/** nobody is the view where there is no agent. What was recorded can be seen all the same. */
function nobody() {
  const wrong = h('p.error', { role: 'alert' });
  const again = async () => {
    try {
      await start();
    } catch (e) {
      fill(wrong, theirs(e.message));
    }
  };
  return { el: h('div.empty', h('p', 'There is no agent to be seen now: the log says why', about.wire && ', and the wire what passed', '.'), wrong,
    button('Try again', again)), show: () => {} };
}

function route() {
  if (!about || routed === location.hash) return;
  routed = location.hash;
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  let [name, what = ''] = path.split('/');
  if (!offered().includes(name) && !(agent && name === 'task')) name = 'agent';
  try {
    what = decodeURIComponent(what);
  } catch { /* it is shown as it is */ }
  const view = viewOf(name);
  if (view !== current) {
    current?.hide?.();
    current = view;
    main.replaceChildren(view.el);
  }
  const tab = name === 'task' ? 'tasks' : name;
  fill(byId('views'), offered().map((v, i) => h('a', {
    href: `#/${v}`, 'aria-current': v === tab ? 'page' : null, 'aria-keyshortcuts': i + 1,
  }, all[v][0])));
  document.title = `${all[tab][0]} · Parley console`;
  if (name === 'conversation' && what) view.open(what);
  view.show(what, new URLSearchParams(query));
}

/** changed tells every view that something did. */
function changed(what) {
  for (const v of made.values()) v.changed?.(what);
}

let source = null;

/** listen hears what happens. Hints that were lost while nobody listened are made good by one at the start. */
function listen() {
  source?.close();
  source = new EventSource(new URL('api/events', import.meta.url));
  const live = byId('live');
  for (const what of ['hello', 'tasks', 'wire']) {
    source.addEventListener(what, () => {
      live.removeAttribute('data-lost');
      fill(live, 'live');
      changed(what);
      if (what === 'hello') changed('tasks');
    });
  }
  source.addEventListener('error', () => {
    live.setAttribute('data-lost', '');
    fill(live, 'disconnected');
    if (source.readyState === EventSource.CLOSED) get('session').then((s) => { if (!s.open) signIn(); }, () => setTimeout(listen, 3000));
  });
}

async function start() {
  about = await get('agents');
  const pick = byId('agent');
  fill(pick, about.agents.map((a) => h('option', { value: a.name }, a.name)));
  byId('pick').hidden = about.agents.length < 2;
  const last = sessionStorage.getItem('agent');
  agent = about.agents.find((a) => a.name === last) ?? about.agents[0];
  pick.value = agent?.name;
  pick.onchange = () => {
    agent = about.agents.find((a) => a.name === pick.value);
    sessionStorage.setItem('agent', agent.name);
    if (/^#\/(task|conversation)\//.test(location.hash)) go('tasks');
    else {
      routed = null;
      route();
    }
  };
  listen();
  routed = null;
  route();
}

/** signIn asks for the token or a credential. */
async function signIn(why = '') {
  about = agent = current = routed = null;
  made.clear(); // whoever comes next may be somebody else
  source?.close();
  const can = await get('session').catch((e) => ({ token: true, why: e.message }));
  const secret = h('input', { type: 'password', autocomplete: 'off', 'aria-label': can.token ? 'Token' : 'Credential', size: 40 });
  const header = h('select', { 'aria-label': 'What it is' }, can.token && h('option', { value: '' }, 'Token of the console'),
    can.credential && [h('option', { value: 'X-API-Key' }, 'API key'), h('option', { value: 'Authorization' }, 'Bearer token')]);
  const wrong = h('p.error', { role: 'alert' }, theirs(why || can.why));
  const enter = async (e) => {
    e.preventDefault();
    const value = secret.value.trim();
    try {
      if (header.value === 'Authorization') await open('', { Authorization: `Bearer ${value}` });
      else if (header.value) await open('', { [header.value]: value });
      else await open(value);
      await start();
    } catch (x) {
      fill(wrong, theirs(x.message));
    }
  };
  main.replaceChildren(h('div.view.page', h('form', { onsubmit: enter }, h('h2', 'Open the console'),
    h('p', can.token ? 'Use the address that was printed when the console started, or give its token here.' : 'Show the credential with which you call the agent.'),
    h('div.line', header, secret, h('button.primary', { type: 'submit' }, 'Open')), wrong)));
  secret.focus();
}

const keys = [
  ['1 … 5', 'Go to a view'], ['j, k or ↓, ↑', 'Next and previous row'], ['Enter', 'Open the row; send the message'],
  ['Esc', 'Close the detail, go back, leave a field'], ['/', 'Search, or write'], ['d', 'Dark or light'], ['?', 'This help'],
];

function help() {
  const d = byId('keys');
  fill(d, h('h2', { id: 'keys-title' }, 'Keys'), h('dl', keys.map(([k, what]) => [h('dt', h('kbd', k)), h('dd', what)])),
    h('p.muted', 'What agents and clients said is shown as text. Downloads are never opened by the page.'),
    h('div.line', button('Close', () => d.close(), { class: 'primary' })));
  d.showModal();
}

function theme(next) {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const now = document.documentElement.dataset.theme || (dark ? 'dark' : 'light');
  document.documentElement.dataset.theme = next ?? (now === 'dark' ? 'light' : 'dark');
  localStorage.setItem('theme', document.documentElement.dataset.theme);
}

let ours = ''; // the key that is down, if it was ours

/**
 * pressed handles a key. A key that was ours is nobody else's: it must not be written into a field that it went to, now or
 * when it repeats because it is held.
 */
function pressed(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || e.isComposing || document.querySelector('dialog[open]')) return;
  const field = e.target.closest('input, textarea, select');
  if (field && e.repeat && e.key === ours) e.preventDefault();
  if (!e.repeat) ours = '';
  if (e.key === 'Escape') {
    if (field) field.blur();
    else current?.escape?.();
  } else if (!field && handled(e)) {
    ours = e.key;
    e.preventDefault();
  }
}

/** handled does what a key outside of a field is for, and reports whether it is for anything. */
function handled(e) {
  const plain = !e.target.closest('button, a') || e.key !== 'Enter';
  if (plain && current?.list?.key(e.key)) return true;
  const view = /^[1-9]$/.test(e.key) && about && offered()[e.key - 1];
  if (e.key === '?') help();
  else if (e.key === '/') current?.search?.();
  else if (e.key === 'd') theme();
  else if (view) go(view);
  else return false;
  return true;
}

byId('help').addEventListener('click', help);
byId('theme').addEventListener('click', () => theme());
document.querySelector('[data-skip]').addEventListener('click', (e) => {
  e.preventDefault();
  main.focus();
});
document.addEventListener('keydown', pressed);
window.addEventListener('hashchange', route);
window.addEventListener('signed-out', () => { if (about) signIn(); });

const saved = localStorage.getItem('theme');
if (saved === 'dark' || saved === 'light') theme(saved);

try {
  const token = /^#token=(.+)$/.exec(location.hash);
  if (token) {
    history.replaceState(null, '', location.pathname); // it belongs in no history and no bookmark
    await open(token[1]);
  }
  await start();
} catch (e) {
  await signIn(e instanceof Failure && e.status !== 401 ? e.message : '');
}
