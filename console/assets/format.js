// Values as people read them. What was received is never rounded on its way: JSON is laid out by its text.

/** parse is JSON.parse that keeps the digits of numbers which a double cannot hold, where the browser can. */
export function parse(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  return JSON.parse(text, (_, v, context) =>
    (typeof v === 'number' && context?.source && String(v) !== context.source ? JSON.rawJSON(context.source) : v));
}

/** pretty lays JSON text out on lines, every token as it is; null if it is no JSON. */
export function pretty(text) {
  try { JSON.parse(text); } catch { return null; }
  let out = '';
  let depth = 0;
  let opened = false; // the last token opened something, so that nothing is on its line yet
  const line = () => `\n${'  '.repeat(depth)}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s"[\]{}:,]+/g)) {
    const closes = token === '}' || token === ']';
    if (closes) depth--;
    if (opened !== closes) out += token === ',' || token === ':' ? '' : (opened || closes) ? line() : '';
    opened = token === '{' || token === '[';
    if (opened) depth++;
    if (token === ',') out += token + line();
    else out += token === ':' ? ': ' : token;
  }
  return out;
}

/** size says a number of bytes. */
export function size(n) {
  if (n < 1000) return `${n} B`;
  if (n < 1e6) return `${(n / 1e3).toFixed(1)} kB`;
  return `${(n / 1e6).toFixed(1)} MB`;
}

/** took says a time in milliseconds. */
export function took(ms) {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** when says a time of today by the clock, another with its date. */
export function when(iso) {
  if (!iso) return '';
  const d = new Date(iso);
  const clock = d.toLocaleTimeString(undefined, { hour12: false });
  return d.toDateString() === new Date().toDateString() ? clock : `${d.toLocaleDateString()} ${clock}`;
}

/** bytes decodes base64; null if it is none. */
export function bytes(base64) {
  try {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch { return null; }
}

/** base64 encodes a file. */
export async function base64(file) {
  const data = new Uint8Array(await file.arrayBuffer());
  if (data.toBase64) return data.toBase64();
  let s = '';
  for (let i = 0; i < data.length; i += 0x8000) s += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(s);
}

const tones = {
  SUBMITTED: 'idle', WORKING: 'work', COMPLETED: 'good', FAILED: 'bad', CANCELED: 'idle', REJECTED: 'bad',
  INPUT_REQUIRED: 'warn', AUTH_REQUIRED: 'warn',
};

/** short returns a state's name without its prefix. */
export const short = (state) => String(state ?? '').replace(/^TASK_STATE_/, '');

/** stateWords returns a state in words, and its tone. */
export function stateWords(state) {
  const name = short(state);
  const words = name.toLowerCase().replaceAll('_', ' ');
  return [words ? words[0].toUpperCase() + words.slice(1) : 'Unknown', tones[name] ?? 'idle'];
}

export const states = Object.keys(tones);

/** ended and waits say where a state stands in a task's life. */
export const ended = (state) => ['COMPLETED', 'FAILED', 'CANCELED', 'REJECTED'].includes(short(state));
export const waits = (state) => ['INPUT_REQUIRED', 'AUTH_REQUIRED'].includes(short(state));

/** words returns the beginning of the text in parts, on one line. */
export function words(parts, limit = 200) {
  let out = '';
  for (const p of parts ?? []) {
    if (out.length > limit) break;
    if (typeof p.text === 'string') out += `${p.text.slice(0, limit)} `;
    else if (p.data !== undefined) out += `${JSON.stringify(p.data).slice(0, limit)} `;
    else out += `[${p.filename || p.mediaType || 'file'}] `;
  }
  return out.replace(/\s+/g, ' ').trim().slice(0, limit);
}

/** who says whose tasks they are: of a caller as it is listed, or of one by its id. What could hide in a name shows. */
export function who(caller) {
  const c = typeof caller === 'string' ? Object.fromEntries(new URLSearchParams(caller)) : caller;
  if (c.own) return 'The console’s own';
  const vouched = [c.issuer, c.tenant && `tenant ${c.tenant}`].filter(Boolean).join(', ');
  const name = c.issuer || c.subject ? c.subject : 'Anonymous';
  return (vouched ? `${name} (${vouched})` : name).replace(/[\p{Cc}\p{Cf}]/gu, '\uFFFD');
}

/** place returns a view, for a caller if one is named. */
export const place = (view, caller) => (caller ? `${view}?caller=${encodeURIComponent(caller)}` : view);

/** taskPlace returns where a task is shown. */
export const taskPlace = (id, caller) => place(`task/${encodeURIComponent(id)}`, caller);

const quote = (s) => `'${String(s).replaceAll("'", `'\\''`)}'`;

// Headers that curl makes by itself, or that only the connection of then had.
const own = new Set(['content-length', 'host', 'connection', 'accept-encoding', 'user-agent', 'te', 'transfer-encoding']);

/** curl returns a command that sends the request of an exchange again. What was redacted is a variable to be set. */
export function curl(x) {
  const lines = [`curl -sS -X ${quote(x.row.method)} ${secret(x.row.url)}`];
  for (const [name, values] of Object.entries(x.requestHeader ?? {})) {
    if (own.has(name.toLowerCase())) continue;
    for (const v of values) {
      const variable = name.toUpperCase().replace(/[^A-Z0-9]+/g, '_');
      if (redacted.test(v)) lines.push(`-H ${quote(`${name}: `)}"$${variable}"`);
      else lines.push(`-H ${quote(`${name}: ${v}`)}`);
    }
  }
  if (x.row.stream) lines.push('-N');
  if (x.request.text) lines.push(`--data-binary ${secret(x.request.text)}`);
  return lines.join(' \\\n  ');
}

// What the recorder writes in the place of a secret.
const redacted = /\[redacted\]/;

function secret(text) {
  return text.split(/(\[redacted\])/).map((s, i) => (i % 2 ? '"$SECRET"' : s && quote(s))).join('') || "''";
}
