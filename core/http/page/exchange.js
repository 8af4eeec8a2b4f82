// One exchange: what leads there, and what it leads to, as a picture and as a list.
import { h, fill, facts, section, button } from './dom.js';
import { api, at } from './api.js';
import { number } from './format.js';
import { table } from './table.js';
import { ask, confirm } from './dialog.js';
import { tell } from './toast.js';
import { placeLink } from './source.js';
import { bindingPicture, hrefOf, patternText } from './picture.js';

const REFRESH_MS = 3000;
const PAGE = 40;         // bindings of the exchange in the picture: those of the table's page
const INCOMING = 20;     // bindings that lead here
const FURTHER = 4;       // exchanges behind it that are shown with their own bindings
const FURTHER_BINDINGS = 12;

// Lines `name=value` as an object. A name alone is a flag.
export function parseOptions(text) {
  const options = {};
  for (const line of text.split('\n').map((one) => one.trim()).filter(Boolean)) {
    const [, name, value] = line.match(/^([^=]+?)\s*(?:=\s*(.*))?$/s) ?? [null, line, undefined];
    options[name] = value ?? '1';
  }
  return options;
}

export function exchangeFlags(exchange) {
  return [
    exchange.unusable && h('span', { class: 'badge bad', title: exchange.unusable }, 'unusable'),
    !exchange.durable && h('span', { class: 'badge' }, 'not durable'),
    exchange.auto_delete && h('span', { class: 'badge' }, 'auto-delete'),
    exchange.options?.internal && h('span', { class: 'badge' }, 'internal'),
  ];
}

function bindings(ctx, query) {
  return api.get(at(ctx.vhost, 'bindings'), query, { signal: ctx.signal });
}

// What the picture shows beside the page of the table.
async function loadNeighbours(ctx, name, page) {
  const next = [...new Set(page.items.filter((b) => b.to === 'exchange').map((b) => b.destination))]
    .filter((other) => other !== name).slice(0, FURTHER);
  const [incoming, exchanges, ...further] = await Promise.all([
    bindings(ctx, { destination: name, to: 'exchange', max: INCOMING }),
    api.get(at(ctx.vhost, 'exchanges'), { max: 1000 }, { signal: ctx.signal }),
    ...next.map((exchange) => bindings(ctx, { exchange, max: FURTHER_BINDINGS })),
  ]);
  const more = Object.fromEntries(next.map((exchange, i) => [exchange, further[i].total - further[i].items.length]));
  more[name] = page.total - page.items.length;
  const all = [...page.items, ...incoming.items, ...further.flatMap((one) => one.items)];
  const keys = new Set();
  const unique = all.filter((b) => {
    const key = JSON.stringify(b);
    return !keys.has(key) && keys.add(key);
  });
  return { bindings: unique, exchanges: exchanges.items, here: name, more };
}

function askToBind(ctx, name, type, refresh) {
  return ask({
    title: `Bind to ${name}`, verb: 'Bind',
    specs: [{ name: 'to', label: 'What gets the messages', type: 'select',
      options: [['queue', 'a queue'], ['topic', 'a topic'], ['exchange', 'an exchange']], value: 'queue' },
    { name: 'destination', label: 'Its name', required: true },
    { name: 'pattern', label: 'Pattern', placeholder: type === 'topic' ? 'orders.eu.#' : '',
      help: ['fanout', 'headers'].includes(type) ? `of a ${type} exchange it says nothing` : null },
    { name: 'options', label: 'Options', type: 'textarea', rows: 2,
      placeholder: type === 'headers' ? 'h:region=eu\nx-match=all' : 'name=value' }],
    submit: async (form) => {
      await api.post(at(ctx.vhost, 'bindings'), { exchange: name, destination: form.destination, to: form.to,
        pattern: form.pattern, options: parseOptions(form.options) });
      tell(`${form.destination} is bound to ${name}.`);
      await refresh();
    },
  });
}

function askToUnbind(ctx, binding, refresh) {
  return confirm({
    title: 'Unbind?', verb: 'Unbind',
    text: `${binding.to} ${binding.destination} gets no more messages of exchange ${binding.exchange} by ` +
      `${patternText(binding)}.`,
    submit: async () => {
      await api.delete(at(ctx.vhost, 'bindings'), {}, { body: { exchange: binding.exchange,
        destination: binding.destination, to: binding.to, pattern: binding.pattern, options: binding.options ?? {} } });
      tell('The binding is gone.');
      await refresh();
    },
  });
}

function askToDelete(ctx, name) {
  return confirm({
    title: `Delete exchange ${name}?`, verb: 'Delete', typed: name,
    text: 'Its bindings go with it. Who publishes to it gets an error.',
    submit: async () => {
      await api.delete(at(ctx.vhost, 'exchanges', name));
      tell(`Exchange ${name} is deleted.`);
      ctx.go(ctx.href(['exchanges']));
    },
  });
}

function factsOf(ctx, x) {
  return facts([
    ['type', x.type], ['script', x.script && placeLink(ctx, { file: x.script })],
    ['bindings', number(x.bindings)], ['published', number(x.published)], ['unroutable', number(x.unroutable)],
    ['alternate', x.options?.alternate && h('a', { href: hrefOf(ctx, 'exchange', x.options.alternate) },
      x.options.alternate)],
    ['options', Object.entries(x.options ?? {}).filter(([key]) => key !== 'alternate' && key !== 'internal')
      .map(([key, value]) => `${key}=${value}`).join(' ')],
    ['cannot be used', x.unusable],
  ]);
}

// The last keys that led nowhere.
function lostKeys(ctx, name, keys) {
  return keys.length > 0 && h('p', {}, 'No queue took: ', keys.map((one, i) => [i ? ', ' : '',
    h('a', { class: 'place', href: ctx.href(['route'], { exchange: name, key: one.key }) }, one.key || '(empty)'),
    ` (${number(one.count)})`]));
}

async function render(ctx) {
  const { name } = ctx.params;
  const picture = h('div', { 'data-part': 'picture' });
  const head = h('div', {});
  const flags = h('span', {});
  const lost = h('div', { 'data-part': 'unroutable' });
  let type = '';
  let shown = '';
  const list = table(ctx, {
    name: 'bindings', search: 'part of a pattern or a destination', max: PAGE, empty: 'Nothing is bound to it.',
    columns: [
      { key: 'destination', text: 'Destination', cell: (b) => h('a', { href: hrefOf(ctx, b.to, b.destination) },
        b.destination) },
      { key: 'to', text: 'is', cell: (b) => b.to },
      { key: 'pattern', text: 'Pattern', class: 'mono', cell: (b) => patternText(b) },
      { key: 'unusable', text: '', cell: (b) => (b.unusable ? h('span', { class: 'badge bad', title: b.unusable },
        'unusable') : '') },
      { key: 'unbind', text: '', cell: (b) => button('Unbind', () => askToUnbind(ctx, b, refresh), 'small') },
    ],
    id: (b) => JSON.stringify([b.to, b.destination, b.pattern, b.options]),
    load: async ({ max, offset, match }) => {
      const page = await bindings(ctx, { exchange: name, max, offset, match });
      const around = await loadNeighbours(ctx, name, page);
      const now = JSON.stringify(around);
      if (now !== shown && !ctx.signal.aborted) {
        shown = now;
        fill(picture, bindingPicture(ctx, { ...around, label: `what leads to ${name}, and what it leads to` }));
      }
      return page;
    },
    tools: [button('Bind', () => askToBind(ctx, name, type, refresh), 'primary')],
  });
  async function refresh() {
    const x = await api.get(at(ctx.vhost, 'exchanges', name), {}, { signal: ctx.signal });
    type = x.type;
    fill(head, factsOf(ctx, x));
    fill(flags, exchangeFlags(x));
    fill(lost, lostKeys(ctx, name, x.unroutable_keys ?? []));
    await list.refresh();
  }
  await refresh();
  ctx.every(REFRESH_MS, refresh);
  ctx.keys({ b: ['bind', () => askToBind(ctx, name, type, refresh)],
    r: ['test a route from here', () => ctx.go(ctx.href(['route'], { exchange: name }))] });
  return h('div', {},
    h('div', { class: 'view-head' }, h('h1', {}, `Exchange ${name}`), flags, h('div', { class: 'tools' },
      h('a', { class: 'button', href: ctx.href(['route'], { exchange: name }) }, 'Test a route'),
      button('Delete', () => askToDelete(ctx, name), 'danger'))),
    section('Exchange', null, head, lost),
    section('Who gets what', null, picture, h('p', { class: 'legend-row' }, h('span', {}, 'A box leads to its page.'),
      h('span', {}, 'A dashed line: what no binding takes goes there.'))),
    section('Bindings', null, list.node));
}

export const exchangeView = { path: 'exchanges/:name', title: ({ name }) => `Exchange ${name}`, render };
