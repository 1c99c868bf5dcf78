// The agent card as a person reads it, with what is wrong with it and what its signatures are worth.

import { get } from './api.js';
import { button, copy, fill, h, save } from './dom.js';
import { parse } from './format.js';
import { json } from './parts.js';

/** agentView shows one agent's card. */
export function agentView({ agent }) {
  const el = h('div.view.page', { tabindex: 0, 'aria-label': 'Agent card' });
  async function show() {
    try {
      draw(el, await get(`agents/${agent.name}/card`));
    } catch (e) {
      fill(el, h('div.empty.error', e.message), h('div.empty', button('Try again', show)));
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

const list = (v) => (Array.isArray(v) ? v : []);
const tags = (items) => list(items).map((t) => h('span.tag', t));
const item = (name, ...value) => [h('dt', name), h('dd', value)];

function summary(card, data) {
  const can = card.capabilities ?? {};
  const offers = [
    [can.streaming, 'Streams'], [can.pushNotifications, 'Webhooks'], [can.extendedAgentCard, 'Extended card'],
  ].filter(([on]) => on).map(([, name]) => name);
  return h('section', h('h2', card.name || 'An agent without a name'), h('p.text', card.description),
    h('dl', item('Version', card.version), card.provider && item('Provider', card.provider.organization, ' ', h('code', card.provider.url)),
      card.documentationUrl && item('Documentation', h('code', card.documentationUrl)),
      item('Card from', h('code', data.url)), data.note && item('Changed', data.note), signature(data.signature),
      item('Offers', offers.length ? tags(offers) : 'Answers only: no streams, no webhooks'),
      item('Takes', tags(card.defaultInputModes)), item('Gives', tags(card.defaultOutputModes)),
      item('Reached at', list(card.supportedInterfaces).map((i) =>
        h('div', h('span.tag', i.protocolBinding, ' ', i.protocolVersion), h('code', i.url), i.tenant && ` as ${i.tenant}`))),
      list(can.extensions).length > 0 && item('Extensions', list(can.extensions).map((x) =>
        h('div', h('code', x.uri), x.required && h('b', ' required'))))));
}

function signature(s) {
  const [tone, text] = {
    verified: ['good', `Verified: signed by ${s.origin} (${s.algorithm}, key ${s.keyId})`],
    absent: ['idle', 'The card is not signed'],
  }[s.outcome] ?? ['warn', 'The signature could not be verified'];
  return [
    item('Signature', h('span.state', { 'data-tone': s.drift ? 'bad' : tone }, text), s.why && h('div.muted', s.why),
      s.drift && h('div.error', 'The card is not the one that was approved.')),
    s.digest && item('Digest', h('code', s.digest)),
  ];
}

const skills = (card) => h('section.card', h('h3', `Skills (${list(card.skills).length})`), h('ul.plain', list(card.skills).map((s) =>
  h('li', h('b', s.name || s.id), ' ', h('code.muted', s.id), h('p.text', s.description), tags(s.tags),
    list(s.examples).map((x) => h('p.muted', `“${x}”`))))));

function access(card) {
  const schemes = Object.entries(card.securitySchemes ?? {});
  const needs = list(card.securityRequirements ?? card.security);
  return h('section.card', h('h3', 'Access'), schemes.length === 0 && h('p', 'Anyone who reaches the agent may call it.'),
    h('dl', schemes.map(([name, s]) => item(name, describe(s)))),
    needs.length > 0 && h('p.muted', 'Callers need ', needs.map((r) => Object.keys(r.schemes ?? r).join(' and ')).join(', or '), '.'));
}

function describe(scheme) {
  const [[kind, s] = ['unknown', {}]] = Object.entries(scheme ?? {});
  const what = {
    apiKeySecurityScheme: () => `API key in ${s.location} ${s.name}`,
    httpAuthSecurityScheme: () => `HTTP ${s.scheme} ${s.bearerFormat ?? ''}`,
    oauth2SecurityScheme: () => `OAuth 2.0: ${Object.keys(s.flows ?? {}).join(', ')}`,
    openIdConnectSecurityScheme: () => `OpenID Connect ${s.openIdConnectUrl}`,
    mtlsSecurityScheme: () => 'Client certificate',
  }[kind];
  return [what ? what() : kind, s?.description && h('div.muted', s.description)];
}

function findings({ findings: all }) {
  return h('section.card', { 'aria-label': 'Findings' },
    h('h3', all.length ? `Findings (${all.length})` : 'The card keeps to the specification'),
    all.map((f) => h('div.finding', { 'data-level': f.level }, h('b', f.level.toUpperCase()), ` ${f.clause} `, h('code', f.path),
      h('div', f.text), f.fix && h('div.muted', f.fix))));
}
