// What builds the page. Text comes in as text nodes only, and nowhere but here: nothing that somebody else said is ever
// read as HTML, hides in a text, or turns around what is beside it.

/** h makes an element: h('div.a.b', {title: 't', onclick: f}, 'text', node, [more]). */
export function h(spec, ...rest) {
  const [tag, ...classes] = spec.split('.');
  const el = document.createElement(tag);
  if (classes.length) el.className = classes.join(' ');
  for (const arg of rest) add(el, arg);
  return el;
}

function add(el, arg) {
  if (arg == null || arg === false) return;
  if (Array.isArray(arg)) arg.forEach((a) => add(el, a));
  else if (arg instanceof Node) el.append(arg);
  else if (typeof arg === 'object') attributes(el, arg);
  else el.append(textNode(String(arg)));
}

const read = new Set(['title', 'alt', 'aria-label']); // attributes that people read

function attributes(el, attrs) {
  for (const [name, v] of Object.entries(attrs)) {
    if (name.startsWith('on')) el.addEventListener(name.slice(2), v);
    else if (v === true) el.setAttribute(name, '');
    else if (v != null && read.has(name)) el.setAttribute(name, visible(v));
    else if (v != null && v !== false) el.setAttribute(name, v);
  }
}

// Control characters but for tabs and the ends of lines, separators of lines, and controls of the direction of writing.
const unseen = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** visible returns text with what cannot be seen in it escaped, as the command line does: \u202e. */
const visible = (s) => String(s).replace(unseen, (c) => {
  const code = c.charCodeAt(0).toString(16);
  return c < '\x80' ? `\\x${code.padStart(2, '0')}` : `\\u${code.padStart(4, '0')}`;
});

/** textNode makes a text node. */
export const textNode = (s) => document.createTextNode(visible(s));

/** addText lets a text node grow. */
export const addText = (node, s) => node.appendData(visible(s));

/**
 * theirs is what somebody else said, to stand beside text of ours: whatever direction it is written in, that of ours stays.
 * What should be text and is none is shown as JSON.
 */
export const theirs = (v) => (v == null || v === '' ? null : h('bdi', typeof v === 'string' ? v : JSON.stringify(v)));

/** fill replaces what an element holds. */
export function fill(el, ...kids) {
  el.replaceChildren();
  for (const k of kids) add(el, k);
  return el;
}

/** button makes a button. */
export const button = (label, onclick, attrs = {}) => h('button', { type: 'button', onclick, ...attrs }, label);

/** later returns a function that has f run once before the next frame is drawn, however often it is called. */
export function later(f) {
  let due = false;
  return () => {
    if (due) return;
    due = true;
    const run = () => { if (due) { due = false; f(); } };
    if (document.hidden) setTimeout(run, 50);
    else requestAnimationFrame(run);
  };
}

let timer;

/** toast says something for a moment. */
export function toast(...what) {
  const el = fill(document.getElementById('toast'), what);
  clearTimeout(timer);
  timer = setTimeout(() => fill(el), 3500);
}

/** copy puts text on the clipboard, or shows it to be copied by hand. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    const area = h('textarea', { rows: 10, readonly: true, 'aria-label': what });
    area.value = text;
    const d = h('dialog', h('p', 'The browser does not let the page copy. Select the text and copy it.'), area,
      h('div.line', button('Close', () => d.close())));
    d.addEventListener('close', () => d.remove());
    document.body.append(d);
    d.showModal();
    area.select();
  }
}

/** save offers bytes or text as a file to be kept, never as something to be opened. */
export function save(content, name) {
  const url = URL.createObjectURL(new Blob([content], { type: 'application/octet-stream' }));
  const a = h('a', { href: url, download: safeName(name) });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 30000);
}

function safeName(name) {
  const s = String(name).replace(/[^\p{L}\p{N}._ -]+/gu, '_').replace(/^\.+/, '').slice(0, 120).trim();
  return s || 'download';
}

/**
 * Rows is a list of any length: only the rows that can be seen, and a few around them, are in the page. One row is
 * chosen; the arrow keys, j and k move the choice, Enter opens it.
 */
export class Rows {
  /**
   * columns: [[title, class]]; cells(item) returns a node or text, which is theirs, for each; open(item, index) is called on Enter and
   * click, end() when the last row can be seen; empty is said where there is no row.
   */
  constructor({ label, kind, columns, cells, open, end, empty }) {
    Object.assign(this, { cells, open, end, columns, items: [], at: -1, made: new Map() });
    this.id = `rows-${++Rows.count}`;
    const head = h('div.row.head', { role: 'row', 'aria-rowindex': 1 },
      columns.map(([title, cls]) => h('span', { role: 'columnheader', class: cls }, title)));
    this.space = h('div.space', { role: 'rowgroup' });
    this.empty = h('div.empty', { hidden: true }, empty);
    this.el = h('div.rows', { role: 'grid', tabindex: 0, 'aria-label': label, 'aria-rowcount': 1, class: `rows ${kind}` }, head, this.space, this.empty);
    this.draw = later(() => this.render());
    this.el.addEventListener('scroll', this.draw, { passive: true });
    // A row may be drawn anew between the press and the release of a button: the press counts.
    this.el.addEventListener('pointerdown', (e) => { this.pressed = e.target.closest('[data-n]')?.dataset.n; });
    this.el.addEventListener('click', (e) => this.clicked(e));
    new ResizeObserver(() => { this.height = 0; this.draw(); }).observe(this.el);
  }

  /** set replaces the items. An item that is the same object is not drawn anew. */
  set(items, at = this.at) {
    this.items = items;
    this.empty.hidden = items.length > 0 || !this.empty.firstChild;
    this.at = Math.min(at, items.length - 1);
    this.draw();
  }

  clicked(e) {
    const n = this.pressed ?? e.target.closest('[data-n]')?.dataset.n;
    this.pressed = undefined;
    if (n === undefined) return;
    this.choose(Number(n));
    this.enter();
  }

  enter() {
    if (this.items[this.at]) this.open?.(this.items[this.at], this.at);
  }

  /** key handles a key and reports whether it was one of the list's. */
  key(key) {
    const page = Math.max(1, Math.floor(this.el.clientHeight / this.rowHeight()) - 2);
    const steps = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -1e9, End: 1e9 };
    if (key === 'Enter') this.enter();
    else if (key in steps) this.choose(this.at + steps[key]);
    else return false;
    return true;
  }

  choose(n) {
    if (!this.items.length) return;
    this.at = Math.max(0, Math.min(n, this.items.length - 1));
    const [height, top] = [this.rowHeight(), this.at * this.rowHeight()];
    const head = this.el.firstElementChild.offsetHeight;
    const room = this.el.clientHeight - head;
    if (top < this.el.scrollTop) this.el.scrollTop = top;
    else if (top + height > this.el.scrollTop + room) this.el.scrollTop = top + height - room;
    this.draw();
  }

  rowHeight() {
    return (this.height ||= parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')) || 36);
  }

  render() {
    const height = this.rowHeight();
    this.space.style.height = `${this.items.length * height}px`;
    this.el.setAttribute('aria-rowcount', this.items.length + 1);
    const first = Math.max(0, Math.floor(this.el.scrollTop / height) - 6);
    const last = Math.min(this.items.length, Math.ceil((this.el.scrollTop + this.el.clientHeight) / height) + 6);
    for (const [n, row] of this.made) {
      if (n < first || n >= last || row.item !== this.items[n]) {
        row.el.remove();
        this.made.delete(n);
      }
    }
    for (let n = first; n < last; n++) this.place(n, height);
    const row = this.made.get(this.at);
    if (row) this.el.setAttribute('aria-activedescendant', row.el.id);
    else this.el.removeAttribute('aria-activedescendant');
    if (this.end && this.items.length && last === this.items.length) this.end();
  }

  place(n, height) {
    let row = this.made.get(n);
    if (!row) {
      const item = this.items[n];
      const cells = this.cells(item).map((c, i) => h('span', { role: 'gridcell', class: this.columns[i][1] }, typeof c === 'string' ? theirs(c) : c));
      row = { item, el: h('div.row', { role: 'row', id: `${this.id}-${n}`, 'data-n': n, 'aria-rowindex': n + 2 }, cells) };
      this.made.set(n, row);
      this.space.append(row.el);
    }
    row.el.style.top = `${n * height}px`;
    row.el.setAttribute('aria-selected', n === this.at);
  }
}
Rows.count = 0;
