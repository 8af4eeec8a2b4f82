// The list of topics.
import { h, button } from './dom.js';
import { api, at } from './api.js';
import { ask } from './dialog.js';
import { table } from './table.js';
import { parseOptions, givenOptions } from './options.js';
import { number, rate, bytes } from './format.js';
import { queueBadges } from './queue.js';
import { topicView } from './topic.js';

function declareTopic(ctx) {
  return ask({
    title: 'New topic', verb: 'Declare',
    specs: [
      { name: 'name', label: 'Name', required: true },
      { name: 'partitions', label: 'Partitions', type: 'number', min: 1, max: 64, placeholder: '8',
        help: 'it cannot be changed' },
      { name: 'retention', label: 'Retention', placeholder: '1d', help: '0 is for ever' },
      { name: 'retention-bytes', label: 'Bytes in a partition', type: 'number', min: 0, placeholder: 'no limit' },
      { name: 'retention-count', label: 'Messages in a partition', type: 'number', min: 0, placeholder: 'no limit' },
      { name: 'keep-unread', label: 'Keep what these groups have not read', placeholder: 'group,group' },
      { name: 'durable', label: 'Durable: it survives a restart', type: 'checkbox', value: true },
      { name: 'compact', label: 'Compact: of each key the last message is kept', type: 'checkbox' },
      { name: 'more', label: 'More options', type: 'textarea', rows: 2, placeholder: 'name=value, one a line' },
    ],
    submit: async ({ name, more, durable, compact, ...values }) => {
      const options = { ...givenOptions(values), ...parseOptions(more) };
      if (!durable) options.durable = '0';
      if (compact) options.compact = 'key';
      await api.put(at(ctx.vhost, 'topics', name), { options });
      ctx.go(ctx.href(['topics', name]));
    },
  });
}

const columns = [
  { key: 'name', text: 'Name', sort: true, cell: (t) => t.name },
  { key: 'state', text: 'State', cell: (t) => (queueBadges(t).length ? h('span', {}, queueBadges(t)) : '') },
  { key: 'partitions', text: 'Partitions', sort: true, numeric: true, cell: (t) => number(t.partitions) },
  { key: 'messages', text: 'Messages', sort: true, numeric: true, cell: (t) => number(t.messages) },
  { key: 'bytes', text: 'Size', sort: true, numeric: true, cell: (t) => bytes(t.bytes) },
  { key: 'in', text: 'In', sort: true, numeric: true, cell: (t) => rate(t.in_10s) },
  { key: 'out', text: 'Out', sort: true, numeric: true, cell: (t) => rate(t.out_10s) },
  { key: 'groups', text: 'Groups', numeric: true, cell: (t) => number(t.groups) },
  { key: 'lag', text: 'Lag', sort: true, numeric: true, cell: (t) => number(t.lag) },
  { key: 'consumers', text: 'Consumers', sort: true, numeric: true, cell: (t) => number(t.consumers) },
];

const listView = {
  path: 'topics',
  title: 'Topics',
  nav: { text: 'Topics', key: 't' },
  async render(ctx) {
    const list = table(ctx, {
      name: 'topics', columns, sort: 'name', id: (t) => t.name, href: (t) => ctx.href(['topics', t.name]),
      empty: 'This vhost has no topic yet.',
      load: (state) => api.get(at(ctx.vhost, 'topics'), state, { signal: ctx.signal }),
      tools: [button('New topic', () => declareTopic(ctx), 'primary')],
    });
    ctx.keys({ n: ['new topic', () => declareTopic(ctx)] });
    await list.refresh();
    ctx.every(2000, list.refresh);
    return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Topics')), list.node);
  },
};

export const topicViews = [listView, topicView];
