// Connections: the list, and one in detail.
import { h, section, button, facts, update } from './dom.js';
import { api, at, ApiError } from './api.js';
import { confirm } from './dialog.js';
import { table, pageOf } from './table.js';
import { number, bytes } from './format.js';
import { tell } from './toast.js';

function closeConnection(ctx, connection) {
  return confirm({
    title: 'Close the connection?', verb: 'Close it',
    text: `${connection.name || connection.peer}: the messages that it holds return to their queues.`,
    submit: async () => {
      await api.delete(`/api/connections/${connection.connection}`);
      tell(`Connection ${connection.connection} is closed.`);
    },
  });
}

const columns = [
  { key: 'connection', text: 'Number', sort: true, cell: (c) => c.connection },
  { key: 'name', text: 'Name', sort: true, cell: (c) => c.name ?? '' },
  { key: 'user', text: 'User', sort: true, cell: (c) => c.user ?? '' },
  { key: 'vhost', text: 'Vhost', cell: (c) => c.vhost ?? '' },
  { key: 'protocol', text: 'Protocol', cell: (c) => c.protocol },
  { key: 'peer', text: 'Peer', class: 'unbroken', cell: (c) => c.peer },
  { key: 'tls', text: 'TLS', cell: (c) => c.tls ?? '' },
  { key: 'channels', text: 'Channels', sort: true, numeric: true, cell: (c) => number(c.channels) },
  { key: 'pending', text: 'Pending', sort: true, numeric: true, cell: (c) => number(c.pending) },
  { key: 'bytes_in', text: 'In', sort: true, numeric: true, cell: (c) => bytes(c.bytes_in) },
  { key: 'bytes_out', text: 'Out', sort: true, numeric: true, cell: (c) => bytes(c.bytes_out) },
  { key: 'output', text: 'Waits', sort: true, numeric: true, cell: (c) => bytes(c.output) },
  { key: 'held', text: 'State', cell: (c) => (c.held_back ? h('span', { class: 'badge warn' }, 'held back') : '') },
];

const listView = {
  path: 'connections',
  title: 'Connections',
  nav: { text: 'Connections', key: 'c' },
  async render(ctx) {
    const list = table(ctx, {
      name: 'connections', columns, sort: 'connection', search: 'name, user or peer', id: (c) => c.connection,
      href: (c) => ctx.href(['connections', String(c.connection)]), empty: 'Nobody is connected.',
      load: (state) => api.get('/api/connections', state, { signal: ctx.signal }),
    });
    await list.refresh();
    ctx.every(2000, list.refresh);
    return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Connections')), list.node);
  },
};

// Numbers are in the order of connecting, so the newest are asked first.
async function findConnection(ctx, id) {
  const max = 1000;
  for (let offset = 0; ; offset += max) {
    const { total, items } = await api.get('/api/connections', { sort: 'connection', order: 'desc', max, offset },
      { signal: ctx.signal });
    const found = items.find((c) => c.connection === id);
    if (found) return found;
    if (offset + max >= total) throw new ApiError('not-found', `there is no connection ${id} any more`, 404);
  }
}

function limitFacts(title, limits) {
  return limits && [h('h3', {}, title), facts(Object.entries(limits).map(([key, value]) => [key, String(value)]))];
}

function details(c) {
  return h('div', {}, facts([
    ['name', c.name], ['user', c.user], ['vhost', c.vhost], ['protocol', c.protocol], ['peer', c.peer],
    ['TLS', c.tls && `${c.tls}, ${c.cipher}`], ['certificate', c.certificate],
    ['channels', number(c.channels)], ['requests not answered', number(c.pending)],
    ['received', bytes(c.bytes_in)], ['sent', bytes(c.bytes_out)], ['waits to be sent', bytes(c.output)],
    ['read from', c.held_back ? 'no: it is held back' : 'yes'],
  ]), limitFacts('Limits of the user', c.user_limits), limitFacts('Limits of the address', c.address_limits));
}

function consumersOf(ctx, connection) {
  return table(ctx, {
    name: 'consumers', prefix: 'c-', search: null, sort: 'queue', empty: `It consumes nothing in the vhost ${connection.vhost}.`,
    id: (c) => `${c.channel}/${c.sid}/${c.queue}`,
    columns: [
      { key: 'queue', text: 'From', cell: (c) => c.queue },
      { key: 'sid', text: 'Subscription', cell: (c) => (c.kind === 'get' ? 'a waiting GET' : c.sid) },
      { key: 'channel', text: 'Channel', numeric: true, cell: (c) => c.channel },
      { key: 'prefetch', text: 'Prefetch', numeric: true, cell: (c) => c.prefetch },
      { key: 'unacked', text: 'Holds', numeric: true, cell: (c) => number(c.unacked) },
      { key: 'delivered', text: 'Delivered', numeric: true, cell: (c) => number(c.delivered) },
    ],
    load: async (state) => {
      const answer = await api.get(at(connection.vhost, 'consumers'), { max: 10000 }, { signal: ctx.signal });
      return pageOf(answer.items.filter((c) => c.connection === connection.connection), state, (c) => c.sid);
    },
  });
}

const detailView = {
  path: 'connections/:number',
  title: ({ number: id }) => `Connection ${id}`,
  async render(ctx) {
    const id = Number(ctx.params.number);
    const connection = await findConnection(ctx, id);
    const box = h('div', {}, details(connection));
    const consumers = consumersOf(ctx, connection);
    const close = async () => {
      if (await closeConnection(ctx, connection)) ctx.go(ctx.href(['connections']));
    };
    consumers.refresh();
    ctx.keys({ x: ['close it', close] });
    ctx.every(5000, async () => {
      update(box, details(await findConnection(ctx, id)));
      await consumers.refresh();
    });
    return h('div', {},
      h('div', { class: 'view-head' }, h('h1', {}, `Connection ${id}`), connection.name && h('span', { class: 'dim' }, connection.name),
        h('div', { class: 'tools' }, button('Close', close, 'danger'))),
      section('Connection', null, box), section('Consumers', null, consumers.node));
  },
};

export const connectionViews = [listView, detailView];
