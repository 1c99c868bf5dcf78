// Webhooks, how far each has come, and the attempts to deliver to them.

import { get } from './api.js';
import { fill, h, Rows, theirs } from './dom.js';
import { taskPlace, when, who } from './format.js';
import { sign } from './parts.js';

/** webhooksView shows the webhooks of one agent. */
export function webhooksView({ agent, go }) {
  const list = h('ul.plain');
  const wrong = h('span.error', { role: 'alert' });
  const rows = new Rows({
    label: 'Attempts', kind: 'hooks', empty: 'Nothing was delivered yet.', columns: [['Time', ''], ['Result', ''], ['Address', 'mono wide'], ['What', '']],
    cells: (d) => [when(d.time), came(d), d.url, d.failure || (d.exchange ? `exchange ${d.exchange}` : `delivered up to entry ${d.delivered}`)],
    open: (d) => go(d.exchange ? `wire/${d.exchange}` : taskPlace(d.task, d.caller)),
  });
  const el = h('div.view', h('div.tools', h('h2', 'Webhooks'), wrong), h('section.hooklist', list),
    h('div.tools', h('h3', 'Attempts, the latest first')), h('div.split', rows.el));
  let [timer, before] = [0, ''];

  async function load() {
    try {
      const page = await get(`agents/${agent.name}/webhooks`);
      wrong.textContent = '';
      const now = JSON.stringify(page);
      if (now === before) return;
      before = now;
      fill(list, page.webhooks.length ? page.webhooks.map(hook)
        : h('li.muted', agent.log ? 'No webhook is registered. A task has a button to register one.'
          : 'The agent is elsewhere: each task tells of its own webhooks, and what passes the tap is below.'));
      rows.set(page.deliveries);
    } catch (e) {
      fill(wrong, theirs(e.message));
    }
  }

  const hook = (w) => h('li', h('div.line', h('code', theirs(w.url)), stands(w),
    h('a.end', { href: `#/${taskPlace(w.task, w.caller)}` }, 'Task')), progress(w, w.caller && ['of ', theirs(who(w.caller)), ', ']));

  return {
    el, list: rows,
    show: () => { load(); clearInterval(timer); timer = setInterval(() => { if (!document.hidden) load(); }, 2000); },
    hide: () => clearInterval(timer),
  };
}

/** progress says how far a webhook has come. */
export const progress = (w, first) => [h('div.muted', first, `delivered up to entry ${w.delivered}`,
  w.attempts > 0 && `, ${w.attempts} attempts failed in a row`, w.due && `, the next ${when(w.due)}`,
  w.scheme && [', with ', theirs(w.scheme), ' credentials'], w.token && ', with a token'), w.failure && h('div.error', theirs(w.failure))];

/** stands makes the sign of a webhook. */
export function stands(w) {
  const [tone, text] = w.done && w.failure ? ['bad', 'Given up'] : w.done ? ['good', 'Finished']
    : w.attempts ? ['warn', 'Tries again'] : ['work', 'Delivers'];
  return sign(tone, text);
}

const came = (d) => (d.failure ? sign('bad', 'Failed') : sign('good', 'Delivered'));
