// The wire: every exchange that the recorder has, what is wrong with it, and what was said, byte for byte.

import { get } from './api.js';
import { button, copy, fill, h, later, Rows, theirs, toast } from './dom.js';
import { curl, pretty, size, took, when } from './format.js';
import { LongText, sign } from './parts.js';

const limit = 20000; // rows that the page keeps

const kinds = {
  '': ['All', () => true],
  findings: ['With findings', (r) => r.findings > 0],
  must: ['Broken MUST', (r) => level(r.worst) === 'must'],
  errors: ['Errors', (r) => r.err || r.status >= 400 || (r.grpc && r.grpc !== '0')],
  streams: ['Streams', (r) => r.stream],
  call: ['Calls', (r) => r.kind === 'call'],
  webhook: ['Webhooks', (r) => r.kind === 'webhook'],
};

const level = (l) => String(l ?? '').toLowerCase();

/** wireView shows what the recorder has. */
export function wireView({ go, hint }) {
  const rows = new Map();
  const search = h('input', { type: 'search', 'aria-label': 'Search', placeholder: 'Search in everything: /', oninput: () => soon() });
  const kind = h('select', { 'aria-label': 'Which', onchange: () => draw() }, Object.entries(kinds).map(([k, [t]]) => h('option', { value: k }, t)));
  const count = h('span.muted', { role: 'status' });
  const wrong = h('span.error', { role: 'alert' });
  const file = h('span.muted.mono');
  const trouble = h('span.error', { role: 'alert' });
  const detail = h('div.detail', { tabindex: -1, role: 'region', 'aria-label': 'Exchange', hidden: true });
  const list = new Rows({
    label: 'Exchanges', kind: 'wire', empty: 'No exchange here.',
    columns: [['No.', 'num'], ['Binding', 'wide'], ['Operation', ''], ['Status', ''], ['Path', 'mono wide'], ['Size', 'num wide'], ['Frames', 'num wide'], ['Time', 'num'], ['Timing', 'wide']],
    cells: (r) => [r.id, r.binding || r.kind, operation(r), status(r), path(r.url), size(r.received), r.stream ? r.frames : '', took(r.duration), timing(r)],
    open: (r) => go(`wire/${r.id}`),
  });
  const split = h('div.split', list.el, detail);
  const el = h('div.view', h('div.tools', search, kind, count, file, trouble, wrong), split);
  let [after, newest, busy, again, found, timer, opened] = [0, 0, false, false, null, 0, 0];

  const draw = later(() => {
    const keep = kinds[kind.value][1];
    const chosen = list.items[list.at]?.id;
    const low = list.el.scrollTop + list.el.clientHeight >= list.el.scrollHeight - 60;
    const items = [...rows.values()].filter((r) => keep(r) && (!found || found.has(r.id)));
    list.set(items, chosen === undefined ? -1 : items.findIndex((r) => r.id === chosen));
    fill(count, items.length === rows.size ? `${rows.size} exchanges` : `${items.length} of ${rows.size} exchanges`);
    if (low && list.at < 0) requestAnimationFrame(() => { list.el.scrollTop = list.el.scrollHeight; });
  });

  // What changed since the last look. Rows stay in the order of their ids.
  async function load() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      for (let more = true; more || again;) {
        again = false;
        const page = await get(`wire?after=${after}`);
        more = page.more;
        let [ordered, calls] = [true, false];
        for (const r of page.rows) {
          ordered &&= rows.has(r.id) || r.id > newest;
          newest = Math.max(newest, r.id);
          calls ||= !/^(ListTasks|GetTask)$/.test(r.operation) && r.kind === 'call';
          rows.set(r.id, r);
          after = Math.max(after, r.version);
          if (r.id === opened && r.done) soonDetail();
        }
        if (!ordered) sort(rows);
        while (rows.size > limit) rows.delete(rows.keys().next().value);
        if (calls) hint('tasks');
        says(page.status);
        if (page.rows.length) draw();
      }
      wrong.textContent = '';
    } catch (e) {
      fill(wrong, theirs(e.message));
    } finally {
      busy = false;
    }
    if (search.value.trim()) soon();
  }

  function says(s) {
    fill(file, s.file && !s.fileError && ['in ', theirs(s.file)]);
    fill(trouble, s.lost > 0 && `${size(s.lost)} passed unrecorded: the recorder could not keep up. `,
      s.fileError && ['The file ended, the traffic goes on: ', theirs(s.fileError)]);
  }

  function soon() {
    clearTimeout(timer);
    timer = setTimeout(find, 200);
  }

  async function find() {
    const q = search.value.trim();
    try {
      found = q ? new Set((await get(`wire/search?q=${encodeURIComponent(q)}`)).ids) : null;
      draw();
    } catch (e) {
      fill(wrong, theirs(e.message));
    }
  }

  async function open(id) {
    opened = id;
    detail.hidden = !id;
    split.classList.toggle('open', !!id);
    if (!id) return;
    try {
      const x = await get(`wire/${id}`);
      if (opened === id) exchange(detail, x, close);
    } catch (e) {
      fill(detail, h('div.tools', button('Close', close)), h('p.error', theirs(e.message)));
    }
  }

  const soonDetail = later(() => open(opened));
  const close = () => go('wire');
  load();

  return {
    el, list, search: () => search.focus(), escape: () => (opened ? close() : list.el.focus()),
    show: (id, query) => {
      const q = query.get('q');
      if (q !== null && q !== search.value) {
        search.value = q;
        find();
      }
      open(Number(id) || 0);
      list.el.focus({ preventScroll: true });
      list.draw();
    },
    changed: (what) => { if (what === 'wire' || what === 'hello') load(); },
  };
}

function sort(map) {
  const all = [...map.values()].sort((a, b) => a.id - b.id);
  map.clear();
  for (const r of all) map.set(r.id, r);
}

const title = (r) => r.operation || { card: 'Agent card', webhook: 'Notification' }[r.kind] || r.method;
const path = (url) => { try { const u = new URL(url, 'http://x'); return u.pathname + u.search; } catch { return url; } };

function operation(r) {
  return r.findings ? [theirs(title(r)), ' ', h('span.count', { 'data-level': level(r.worst), title: `${r.findings} findings` }, `▲${r.findings}`)] : theirs(title(r));
}

function status(r) {
  const tone = r.err || r.status >= 400 || (r.grpc && r.grpc !== '0') ? 'bad' : r.done ? 'good' : 'work';
  const text = r.err ? 'broken' : r.grpc && r.grpc !== '0' ? ['gRPC ', theirs(r.grpc)] : r.status || (r.done ? 'none' : 'waits');
  return sign(tone, text, { title: r.err || null });
}

// Times are drawn on a logarithmic scale from 0 to 10 minutes: a millisecond and a minute can both be seen.
const place = (ms) => Math.min(100, (Math.log10(1 + ms * 10) / Math.log10(1 + 6e6)) * 100);

function timing(r) {
  const wait = h('i');
  const rest = h('i');
  const [a, b] = [place(r.first || r.duration), place(r.duration)];
  wait.style.width = `${a}%`;
  rest.style.left = `${a}%`;
  rest.style.width = `${Math.max(0, b - a)}%`;
  return h('div.bar', { title: `first byte after ${took(r.first || r.duration)}, end after ${took(r.duration)}` }, wait, rest);
}

const heads = (header) => h('div.box.heads', Object.entries(header ?? {}).flatMap(([name, values]) =>
  values.flatMap((v) => [h('span.muted', theirs(name)), h('span', theirs(v))])));

/** finding shows one broken clause. */
const finding = (f) => h('div.finding', { 'data-level': level(f.level) },
  h('b', String(f.level)), ` ${f.section} ${f.rule}`, f.client && h('span.muted', ' by the client'), h('div', theirs(f.says)),
  h('div.muted', f.path && ['at ', theirs(f.path), ': '], f.got && ['got ', theirs(f.got)], f.want && [', want ', theirs(f.want)]));

function body(title, b, href) {
  if (!b.size && !b.text) return null;
  const text = b.cut ? b.text : pretty(b.text) ?? b.text;
  return [h('h3', title, h('span.muted', ` ${size(b.size)}${b.cut ? ', the beginning' : ''}`)),
    h('div.box', new LongText(text, { mono: true, name: `${title}.txt` }).el),
    b.kept && h('div.line', h('a', { href, download: '' }, `Download the ${title.toLowerCase()} as it is`))];
}

function exchange(el, x, close) {
  const r = x.row;
  const at = new URL(`api/wire/${r.id}/`, import.meta.url);
  fill(el, h('div.tools', button('Close', close), button('Copy as curl', () => copy(curl(x), 'curl command')),
    r.kind === 'call' && r.binding === 'GRPC' && h('span.muted', 'curl does not speak gRPC: the bytes are not in the command.')),
  h('h2', theirs(title(r))), h('dl',
    h('dt', 'Request'), h('dd', h('code', theirs(r.method), ' ', theirs(r.url))),
    x.upstream && [h('dt', 'Went to'), h('dd', h('code', theirs(x.upstream)))],
    h('dt', 'Status'), h('dd', status(r), r.err && h('div.error', theirs(r.err))),
    h('dt', 'Time'), h('dd', `${when(r.start)}, first byte after ${took(r.first || r.duration)}, ${r.done ? 'ended' : 'still open'} after ${took(r.duration)}`, timing(r)),
    h('dt', 'From'), h('dd', theirs(x.client), ' ', theirs(x.proto)),
    r.task && [h('dt', 'Task'), h('dd', h('a', { href: `#/task/${encodeURIComponent(r.task)}` }, theirs(r.task)))],
    x.note && [h('dt', 'The tap'), h('dd', theirs(x.note))],
    x.truncated > 0 && [h('dt', 'Left out'), h('dd', `${size(x.truncated)}: they are in the file.`)]),
  x.findings.length > 0 && [h('h3', `Findings (${x.findings.length})`), x.findings.map(finding)],
  h('h3', 'Request headers'), heads(x.requestHeader), body('Request', x.request, new URL('request', at)),
  x.responseHeader && [h('h3', 'Response headers'), heads(x.responseHeader)], body('Response', x.response, new URL('response', at)),
  r.frames > 0 && frames(r), x.trailer && Object.keys(x.trailer).length > 0 && [h('h3', 'Trailers'), heads(x.trailer)]);
}

/** frames lists the frames of a stream, which are fetched as far as somebody scrolls. */
function frames(r) {
  const one = h('div');
  let [busy, total] = [false, r.frames];
  const rows = new Rows({
    label: 'Frames', kind: 'frames', columns: [['No.', 'num'], ['After', 'num wide'], ['Data', 'mono'], ['Size', 'num wide'], ['', '']],
    cells: (f) => [f.n + 1, took(f.at), f.data.text.slice(0, 300), size(f.size),
      f.findings.length > 0 && h('span.count', { 'data-level': level(f.findings[0].level) }, `▲${f.findings.length}`)],
    open: (f) => fill(one, h('h3', `Frame ${f.n + 1}`, h('span.muted', ` ${size(f.size)}`)), f.findings.map(finding),
      h('div.box', new LongText(f.data.cut ? f.data.text : pretty(f.data.text) ?? f.data.text, { mono: true }).el)),
    end: () => more(),
  });
  rows.el.classList.add('box');
  async function more() {
    if (busy || rows.items.length >= total) return;
    busy = true;
    try {
      const page = await get(`wire/${r.id}/frames?after=${rows.items.length}`);
      total = page.total;
      rows.set(rows.items.concat(page.frames));
    } catch (e) {
      toast(theirs(e.message));
    } finally {
      busy = false;
    }
  }
  more();
  rows.el.addEventListener('keydown', (e) => {
    if (rows.key(e.key)) {
      e.preventDefault();
      e.stopPropagation();
    }
  });
  return [h('h3', `Frames (${r.frames})`), rows.el, one];
}
