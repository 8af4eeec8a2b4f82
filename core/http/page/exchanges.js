// The exchanges of a vhost, and who gets what of them.
import { h, fill, section, button } from './dom.js';
import { api, at } from './api.js';
import { number } from './format.js';
import { table } from './table.js';
import { ask } from './dialog.js';
import { tell } from './toast.js';
import { bindingPicture } from './picture.js';
import { exchangeView, exchangeFlags, parseOptions } from './exchange.js';

const REFRESH_MS = 3000;
const PICTURE_BINDINGS = 120; // more are a heap that nobody reads
const TYPES = ['direct', 'fanout', 'topic', 'headers'];

async function listTypes() {
  try {
    const rules = await api.get('/api/rules');
    return rules.scripts.filter((script) => script.kind === 'routing').map((script) => [script.name,
      script.doc ? `${script.name}: ${script.doc}` : script.name]);
  } catch {
    return TYPES.map((type) => [type, type]); // who may not see the rules may declare all the same
  }
}

async function declare(ctx) {
  const types = await listTypes();
  const done = await ask({
    title: 'Declare an exchange', verb: 'Declare',
    specs: [{ name: 'name', label: 'Name', required: true },
      { name: 'type', label: 'Type', type: 'select', options: types, value: 'topic' },
      { name: 'alternate', label: 'Alternate', help: 'an exchange that takes what leads nowhere here' },
      { name: 'durable', label: 'durable: it survives a restart', type: 'checkbox', value: true },
      { name: 'autoDelete', label: 'auto-delete: it goes with its last binding', type: 'checkbox' },
      { name: 'internal', label: 'internal: clients cannot publish to it', type: 'checkbox' },
      { name: 'more', label: 'Options of the type', type: 'textarea', rows: 2, placeholder: 'name=value' }],
    submit: async (form) => {
      const options = parseOptions(form.more);
      if (!form.durable) options.durable = '0';
      if (form.autoDelete) options['auto-delete'] = '1';
      if (form.internal) options.internal = '1';
      if (form.alternate) options.alternate = form.alternate;
      await api.put(at(ctx.vhost, 'exchanges', form.name), { type: form.type, options });
      return form.name;
    },
  });
  if (!done) return;
  tell(`Exchange ${done} is declared.`);
  ctx.go(ctx.href(['exchanges', done]));
}

function showPicture(ctx, place, bindings, exchanges) {
  if (bindings.total === 0) {
    fill(place, h('p', { class: 'empty' }, 'Nothing is bound yet.'));
  } else if (bindings.total > PICTURE_BINDINGS) {
    fill(place, h('p', { class: 'empty' }, `${number(bindings.total)} bindings are too many for one picture. Search `,
      'for a part of a name, or choose an exchange: its page shows what leads there and what it leads to.'));
  } else {
    fill(place, bindingPicture(ctx, { bindings: bindings.items, exchanges: exchanges.items,
      label: 'exchanges, and the queues and topics that get messages from them' }));
  }
}

async function render(ctx) {
  const picture = h('div', { 'data-part': 'picture' });
  let shown = '';
  const drawPicture = async () => {
    const match = ctx.query.match ?? '';
    const [bindings, exchanges] = await Promise.all([
      api.get(at(ctx.vhost, 'bindings'), { match, max: PICTURE_BINDINGS }, { signal: ctx.signal }),
      api.get(at(ctx.vhost, 'exchanges'), { max: 1000 }, { signal: ctx.signal })]);
    const now = JSON.stringify([bindings, exchanges.items.map((x) => [x.name, x.type, x.options, x.unusable])]);
    if (now === shown) return; // a picture that somebody looks at is not drawn anew for nothing
    shown = now;
    showPicture(ctx, picture, bindings, exchanges);
  };
  const list = table(ctx, {
    name: 'exchanges', sort: 'name', search: 'part of a name',
    empty: 'There is the default exchange alone: it gives a message to the queue that its key names.',
    columns: [
      { key: 'name', text: 'Name', sort: true, cell: (x) => x.name },
      { key: 'type', text: 'Type', cell: (x) => x.type },
      { key: 'bindings', text: 'Bindings', sort: true, numeric: true, cell: (x) => number(x.bindings) },
      { key: 'published', text: 'Published', sort: true, numeric: true, cell: (x) => number(x.published) },
      { key: 'unroutable', text: 'Unroutable', sort: true, numeric: true, cell: (x) => number(x.unroutable) },
      { key: 'alternate', text: 'Alternate', cell: (x) => x.options?.alternate ?? '' },
      { key: 'flags', text: '', cell: (x) => h('span', {}, exchangeFlags(x)) },
    ],
    id: (x) => x.name,
    href: (x) => ctx.href(['exchanges', x.name]),
    load: async (page) => {
      const [answer] = await Promise.all([api.get(at(ctx.vhost, 'exchanges'), page, { signal: ctx.signal }),
        drawPicture()]);
      return answer;
    },
    tools: [button('Declare', () => declare(ctx), 'primary')],
  });
  await list.refresh();
  ctx.every(REFRESH_MS, list.refresh);
  ctx.keys({ n: ['declare an exchange', () => declare(ctx)] });
  return h('div', {},
    h('div', { class: 'view-head' }, h('h1', {}, 'Exchanges'), h('div', { class: 'tools' },
      h('a', { class: 'button', href: ctx.href(['route']) }, 'Test a route'))),
    section('List', null, list.node),
    section('Who gets what', null, picture));
}

export const exchangeViews = [
  { path: 'exchanges', title: 'Exchanges', nav: { text: 'Exchanges', key: 'e' }, render },
  exchangeView,
];
