// Messages, artifacts and their parts as they are shown: by their media type, and never as HTML.

import { addText, button, copy, fill, h, save, textNode, theirs } from './dom.js';
import { bytes, pretty, size, stateWords } from './format.js';

// Bytes of one text that are in the page. The rest is a click away.
const shown = 64 * 1024;

// Images that a browser draws without running anything that is in them.
const images = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** sign makes the sign of how something stands: a mark in a tone, and words, which have an element so that they can be cut. */
export const sign = (tone, words, attrs = {}) => h('span.state', { 'data-tone': tone, ...attrs }, h('span', words));

/** state makes the sign of a task's state. */
export function state(name) {
  const [text, tone] = stateWords(name);
  return sign(tone, theirs(text));
}

/** LongText shows text that may be of any length, and grow. */
export class LongText {
  constructor(text = '', { name = 'text.txt', mono = false } = {}) {
    this.pieces = [];
    this.length = 0;
    this.node = textNode('');
    this.name = name;
    this.rest = h('div.line', { hidden: true });
    this.el = h('div', h('pre', { class: mono ? '' : 'text', tabindex: 0, role: 'group', 'aria-label': 'Text' }, this.node), this.rest);
    this.append(text);
  }

  append(text) {
    if (this.length < shown) addText(this.node, text.slice(0, shown - this.length));
    this.pieces.push(text);
    this.length += text.length;
    if (this.length <= shown) return;
    if (this.all) addText(this.node, text);
    else if (this.rest.hidden) {
      this.count = h('span.muted');
      this.rest.hidden = false;
      fill(this.rest, this.count, button('Show all', () => this.showAll()),
        button('Copy', () => copy(this.text(), 'Text')), button('Download', () => save(this.text(), this.name)));
    }
    if (this.count) fill(this.count, `The first ${size(shown)} of ${size(this.length)}.`);
  }

  text() {
    if (this.pieces.length > 1) this.pieces = [this.pieces.join('')];
    return this.pieces[0] ?? '';
  }

  showAll() {
    this.node.data = '';
    addText(this.node, this.text());
    this.all = true;
    this.rest.hidden = true;
  }
}

const isText = (type) => /^text\//.test(type) || /[/+](json|xml|yaml|x-ndjson)$/.test(type);

/** part shows one part. */
export function part(p, name = 'part') {
  const type = String(p.mediaType ?? '').split(';')[0].trim().toLowerCase();
  const title = p.filename ? h('p.muted', theirs(p.filename), type && [' (', theirs(type), ')']) : null;
  if (typeof p.text === 'string') return h('div.part', title, textPart(p.text, type, p.filename || `${name}.txt`));
  if (p.data !== undefined) return h('div.part', title, json(JSON.stringify(p.data), `${name}.json`));
  if (typeof p.url === 'string') {
    return h('div.part', title, h('div.line', h('code', theirs(p.url)), button('Copy address', () => copy(p.url, 'Address'))));
  }
  if (typeof p.raw === 'string') return h('div.part', file(p.raw, type, p.filename || name));
  return h('div.part.muted', 'A part with nothing in it.');
}

function textPart(text, type, name) {
  if (/[/+]json$/.test(type)) return json(text, name);
  return new LongText(text, { name }).el;
}

/** json shows JSON text on lines; what is too long for that as it is. */
export function json(text, name = 'data.json') {
  return new LongText((text.length <= 256 * 1024 && pretty(text)) || text, { name, mono: true }).el;
}

function file(raw, type, name) {
  const data = bytes(raw);
  if (!data) return h('p.error', theirs(name), ': the bytes are not base64.');
  const keep = h('div.line', h('span', theirs(name)), h('span.muted', theirs(type) ?? 'no media type', `, ${size(data.length)}`),
    button('Download', () => save(data, name)));
  if (images.has(type)) {
    const url = URL.createObjectURL(new Blob([data], { type }));
    const drop = () => URL.revokeObjectURL(url);
    return h('div', h('img', { src: url, alt: name, onload: drop, onerror: drop }), keep);
  }
  if (isText(type)) {
    try {
      return h('div', textPart(new TextDecoder('utf-8', { fatal: true }).decode(data), type, name), keep);
    } catch { /* no text after all */ }
  }
  return keep;
}

/** Artifact shows an artifact that may come in chunks. */
export class Artifact {
  constructor(a) {
    this.heading = h('b');
    this.note = h('span.muted');
    this.body = h('div');
    this.el = h('section.artifact', { 'data-artifact': a.artifactId },
      h('header', this.heading, this.note, button('Download', () => this.save(), { class: 'quiet' })), this.body);
    this.set(a);
  }

  set(a) {
    this.id = a.artifactId;
    this.name = a.name || a.artifactId;
    fill(this.heading, theirs(this.name));
    fill(this.note, theirs(a.description));
    this.parts = [];
    this.body.replaceChildren();
    this.append(a);
  }

  /** append adds parts. Texts that follow each other are one text, as a reader of the whole has them. */
  append(a) {
    for (const p of a.parts ?? []) {
      const plain = typeof p.text === 'string' && !p.filename && !/json/.test(p.mediaType ?? '');
      if (plain && this.growing) this.growing.append(p.text);
      else if (plain) {
        this.growing = new LongText(p.text, { name: `${this.name}.txt`, mono: true });
        this.body.append(h('div.part', this.growing.el));
      } else {
        this.growing = null;
        this.body.append(part(p, this.name));
      }
      this.parts.push(p);
    }
  }

  save() {
    const [first] = this.parts;
    if (this.parts.length === 1 && typeof first?.raw === 'string') {
      save(bytes(first.raw) ?? '', first.filename || this.name);
    } else if (this.parts.every((p) => typeof p.text === 'string')) {
      save(this.parts.map((p) => p.text).join(''), first?.filename || `${this.name}.txt`);
    } else {
      save(JSON.stringify({ artifactId: this.id, name: this.name, parts: this.parts }, null, 2), `${this.name}.json`);
    }
  }
}

/** message shows the parts of a message. */
export const message = (m) => h('div', (m.parts ?? []).map((p) => part(p, m.messageId || 'message')));
