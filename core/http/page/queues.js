// The list of queues.
import { h, button } from './dom.js';
import { api, at } from './api.js';
import { table } from './table.js';
import { number, rate, duration } from './format.js';
import { declareQueue } from './queue_forms.js';
import { queueView, queueBadges } from './queue.js';

function stateCell(queue) {
  const badges = queueBadges(queue);
  return badges.length ? h('span', {}, badges) : '';
}

const columns = [
  { key: 'name', text: 'Name', sort: true, cell: (q) => q.name },
  { key: 'state', text: 'State', cell: stateCell },
  { key: 'ready', text: 'Ready', sort: true, numeric: true, cell: (q) => number(q.ready) },
  { key: 'unacked', text: 'Unacked', sort: true, numeric: true, cell: (q) => number(q.unacked) },
  { key: 'delayed', text: 'Delayed', sort: true, numeric: true, cell: (q) => number(q.delayed) },
  { key: 'buried', text: 'Buried', sort: true, numeric: true, cell: (q) => number(q.buried) },
  { key: 'in', text: 'In', sort: true, numeric: true, cell: (q) => rate(q.in_10s) },
  { key: 'out', text: 'Out', sort: true, numeric: true, cell: (q) => rate(q.out_10s) },
  { key: 'age', text: 'Oldest', sort: true, numeric: true, cell: (q) => duration(q.oldest_ready_ms) },
  { key: 'consumers', text: 'Consumers', sort: true, numeric: true, cell: (q) => number(q.consumers) },
];

const listView = {
  path: 'queues',
  title: 'Queues',
  nav: { text: 'Queues', key: 'q' },
  async render(ctx) {
    const list = table(ctx, {
      name: 'queues', columns, sort: 'name', id: (q) => q.name, href: (q) => ctx.href(['queues', q.name]),
      empty: 'This vhost has no queue yet.',
      load: (state) => api.get(at(ctx.vhost, 'queues'), state, { signal: ctx.signal }),
      tools: [button('New queue', () => declareQueue(ctx), 'primary')],
    });
    ctx.keys({ n: ['new queue', () => declareQueue(ctx)] });
    await list.refresh();
    ctx.every(2000, list.refresh);
    return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Queues')), list.node);
  },
};

export const queueViews = [listView, queueView];
