// One message in full: its facts, headers, and the payload as text, JSON or hex.
import { h, fill, facts, button } from './dom.js';
import { time, duration, bytes } from './format.js';

const SHOWN = 64 * 1024;

export function payloadBytes(message) {
  if (message.payload_base64 !== undefined) {
    return Uint8Array.from(atob(message.payload_base64), (c) => c.charCodeAt(0));
  }
  return new TextEncoder().encode(message.payload ?? '');
}

export function hexDump(data) {
  const lines = [];
  for (let i = 0; i < data.length; i += 16) {
    const part = [...data.slice(i, i + 16)];
    const hex = part.map((b) => b.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((b) => (b >= 0x20 && b < 0x7f ? String.fromCharCode(b) : '.')).join('');
    lines.push(`${i.toString(16).padStart(6, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join('\n');
}

function asJson(message) {
  try {
    const value = JSON.parse(message.payload);
    return typeof value === 'object' && value !== null ? JSON.stringify(value, null, 2) : null;
  } catch {
    return null;
  }
}

// One line of the payload, for tables.
export function preview(message, length = 80) {
  if (message.payload === undefined) return `${bytes(message.size)} of binary data`;
  const line = message.payload.slice(0, length + 1).replace(/\s+/g, ' ');
  return line.length > length ? `${line.slice(0, length)}…` : line;
}

function payloadView(message) {
  const data = payloadBytes(message);
  const json = message.payload === undefined ? null : asJson(message);
  const forms = [
    message.payload !== undefined && ['Text', () => message.payload.slice(0, SHOWN)],
    json !== null && ['JSON', () => json.slice(0, SHOWN)],
    ['Hex', () => hexDump(data.slice(0, SHOWN / 8))],
  ].filter(Boolean);
  const pre = h('pre', { tabindex: 0, 'aria-label': 'payload' });
  const buttons = forms.map(([name, make]) => button(name, () => choose(name, make), 'small'));
  const choose = (name, make) => {
    fill(pre, make());
    for (const b of buttons) b.setAttribute('aria-pressed', b.textContent === name);
  };
  const first = forms.find(([name]) => name === 'JSON') ?? forms[0];
  choose(...first);
  const isCut = data.length > SHOWN || (first[0] === 'Hex' && data.length > SHOWN / 8);
  return h('div', {}, h('div', { class: 'tools' }, h('h3', {}, `Payload, ${bytes(message.size)}`), buttons), pre,
    isCut && h('small', {}, 'Only the beginning is shown.'));
}

export function holderText(holder) {
  return `connection ${holder.connection}, channel ${holder.channel}${holder.sid && holder.sid !== '-' ? `, ${holder.sid}` : ''}`;
}

// Of what one consumer holds, the lease of the oldest runs; that of the next begins when that one is settled.
export function leaseText(holder) {
  return holder.until === undefined ? 'has not begun' : duration(Math.max(0, holder.until - Date.now()));
}

export function messageView(ctx, message, tools) {
  const headers = Object.entries(message.headers ?? {});
  return h('div', { class: 'message' },
    tools && h('div', { class: 'tools' }, tools),
    facts([
      ['id', h('code', {}, message.id)],
      ['exchange', message.exchange], ['key', message.key],
      ['partition', message.partition], ['offset', message.offset],
      ['state', message.state], ['shard', message.shard], ['rank', message.rank], ['priority', message.priority],
      ['published', time(message.ts)],
      ['due', message.due && time(message.due)], ['expires', message.expires && time(message.expires)],
      ['deliveries', message.deliveries], ['failures', message.failures], ['reason', message.reason],
      ['held by', message.holder && h('a', { href: ctx.href(['connections', String(message.holder.connection)]) },
        holderText(message.holder))],
      ['lease ends in', message.holder && leaseText(message.holder)],
    ]),
    headers.length > 0 && [h('h3', {}, 'Headers'), facts(headers)],
    payloadView(message));
}
