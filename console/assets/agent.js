// The agent card as a person reads it, with what is wrong with it and what its signatures are worth.

import { get } from './api.js';
import { button, copy, fill, h, save, theirs } from './dom.js';
import { parse } from './format.js';
import { json, sign } from './parts.js';

/** agentView shows one agent's card. */
export function agentView({ agent }) {
  const el = h('div.view.page', { tabindex: 0, 'aria-label': 'Agent card' });
  async function show() {
    try {
      draw(el, await get(`agents/${agent.name}/card`));
    } catch (e) {
      fill(el, h('div.empty.error', theirs(e.message)), h('div.empty', button('Try again', show)));
    }
  }
  return { el, show };
}

function draw(el, data) {
  let card;
  try {
    card = parse(data.card);
  } catch {
    card = null;
  }
  fill(el, card && typeof card === 'object' ? [summary(card, data), skills(card), access(card), findings(data)] : findings(data),
    h('section.card', h('div.line', h('h3', 'The card as it was served'),
      button('Copy', () => copy(data.card, 'Card'), { class: 'end' }), button('Download', () => save(data.card, 'agent-card.json'))),
    json(data.card, 'agent-card.json')));
}

const list = (v) => (Array.isArray(v) ? v.filter((x) => x != null) : []);
const tags = (items) => list(items).map((t) => h('span.tag', theirs(t)));
const code = (v) => h('code', theirs(v));
const item = (name, ...value) => [h('dt', name), h('dd', value)];

function summary(card, data) {
  const can = card.capabilities ?? {};
  const offers = [
    [can.streaming, 'Streams'], [can.pushNotifications, 'Webhooks'], [can.extendedAgentCard, 'Extended card'],
  ].filter(([on]) => on).map(([, name]) => name);
  return h('section', h('h2', theirs(card.name) ?? 'An agent without a name'), h('p.text', theirs(card.description)),
    h('dl', item('Version', theirs(card.version)), card.provider && item('Provider', theirs(card.provider.organization), ' ', code(card.provider.url)),
      card.documentationUrl && item('Documentation', code(card.documentationUrl)),
      item('Card from', code(data.url)), data.note && item('Changed', data.note), signature(data.signature),
      item('Offers', offers.length ? tags(offers) : 'Answers only: no streams, no webhooks'),
      item('Takes', tags(card.defaultInputModes)), item('Gives', tags(card.defaultOutputModes)),
      item('Reached at', list(card.supportedInterfaces).map((i) =>
        h('div', h('span.tag', theirs(i.protocolBinding), ' ', theirs(i.protocolVersion)), code(i.url), i.tenant && [' as ', theirs(i.tenant)]))),
      list(can.extensions).length > 0 && item('Extensions', list(can.extensions).map((x) =>
        h('div', code(x.uri), x.required && h('b', ' required'))))));
}

function signature(s) {
  const [tone, text] = {
    verified: ['good', ['Verified: signed by ', theirs(s.origin), ' (', theirs(s.algorithm), ', key ', theirs(s.keyId), ')']],
    absent: ['idle', 'The card is not signed'],
  }[s.outcome] ?? ['warn', 'The signature could not be verified'];
  return [
    item('Signature', sign(s.drift ? 'bad' : tone, text), s.why && h('div.muted', theirs(s.why)),
      s.drift && h('div.error', 'The card is not the one that was approved.')),
    s.digest && item('Digest', h('code', s.digest)),
  ];
}

const skills = (card) => h('section.card', h('h3', `Skills (${list(card.skills).length})`), h('ul.plain', list(card.skills).map((s) =>
  h('li', h('b', theirs(s.name || s.id)), ' ', h('code.muted', theirs(s.id)), h('p.text', theirs(s.description)), tags(s.tags),
    list(s.examples).map((x) => h('p.muted', '“', theirs(x), '”'))))));

function access(card) {
  const schemes = Object.entries(card.securitySchemes ?? {});
  const needs = list(card.securityRequirements ?? card.security);
  return h('section.card', h('h3', 'Access'), schemes.length === 0 && h('p', 'Anyone who reaches the agent may call it.'),
    h('dl', schemes.map(([name, s]) => item(theirs(name), describe(s)))),
    needs.length > 0 && h('p.muted', 'Callers need ', joined(needs.map((r) => joined(Object.keys(r.schemes ?? r).map(theirs), ' and ')), ', or '), '.'));
}

const joined = (items, by) => items.flatMap((x, i) => (i ? [by, x] : [x]));

function describe(scheme) {
  const [[kind, value] = ['unknown']] = Object.entries(scheme ?? {});
  const s = value ?? {};
  const what = {
    apiKeySecurityScheme: () => ['API key in ', theirs(s.location), ' ', theirs(s.name)],
    httpAuthSecurityScheme: () => ['HTTP ', theirs(s.scheme), ' ', theirs(s.bearerFormat)],
    oauth2SecurityScheme: () => ['OAuth 2.0: ', joined(Object.keys(s.flows ?? {}).map(theirs), ', ')],
    openIdConnectSecurityScheme: () => ['OpenID Connect ', theirs(s.openIdConnectUrl)],
    mtlsSecurityScheme: () => 'Client certificate',
  }[kind];
  return [what ? what() : theirs(kind), s.description && h('div.muted', theirs(s.description))];
}

function findings({ findings: all }) {
  return h('section.card', { 'aria-label': 'Findings' },
    h('h3', all.length ? `Findings (${all.length})` : 'The card keeps to the specification'),
    all.map((f) => h('div.finding', { 'data-level': f.level }, h('b', f.level.toUpperCase()), ` ${f.clause} `, code(f.path),
      h('div', theirs(f.text)), f.fix && h('div.muted', theirs(f.fix)))));
}
