// One queue in detail.
import { h, fill, update, section, button, facts } from './dom.js';
import { api, at } from './api.js';
import { table, pageOf, plainTable } from './table.js';
import { tiles } from './tiles.js';
import { trend } from './trend.js';
import { messagesPart, fullestState } from './messages.js';
import { holderText, leaseText } from './message.js';
import { publishForm } from './publish.js';
import { showOptions } from './options.js';
import { bindingsTo } from './bindings_to.js';
import { number, short, rate, duration } from './format.js';
import { pastOf } from './past.js';
import { attempt, tellError } from './toast.js';
import { purgeQueue, deleteQueue, redriveQueue, moveMessages, kickQueue, pauseQueue, resumeQueue } from './queue_forms.js';

const FIGURES = [['ready', 'Ready'], ['unacked', 'Unacked'], ['delayed', 'Delayed'], ['buried', 'Buried'],
  ['in', 'In'], ['out', 'Out'], ['oldest', 'Oldest ready'], ['consumers', 'Consumers']];

const TOTALS = [['published', 'published'], ['duplicates', 'duplicates'], ['delivered', 'delivered'],
  ['redelivered', 'redelivered'], ['acked', 'acked'], ['nacked', 'nacked'], ['timed_out', 'timed out'],
  ['expired', 'expired'], ['dead_lettered', 'dead-lettered'], ['refused', 'refused'], ['overflowed', 'overflowed'],
  ['removed', 'removed'], ['paced', 'paced'], ['in_memory', 'in memory'], ['dedupe_ids', 'remembered ids'],
  ['waiting_bytes', 'waiting bytes'], ['mixed_shards', 'mixed shards']];

// Badges for what is not as usual.
export function queueBadges(queue) {
  const list = [];
  if (queue.unusable) list.push(h('span', { class: 'badge bad', title: queue.unusable }, 'unusable'));
  if (queue.paused && queue.paused !== 'no') list.push(h('span', { class: 'badge warn' }, `paused ${queue.paused}`));
  if (queue.durable === false) list.push(h('span', { class: 'badge' }, 'in memory'));
  return list;
}

// STATS has the figures, the list the options.
export async function loadWithOptions(ctx, kind, name) {
  const stats = await api.get(at(ctx.vhost, kind, name), {}, { signal: ctx.signal });
  if (stats.options) return stats;
  const list = await api.get(at(ctx.vhost, kind), { match: name, max: 1000 }, { signal: ctx.signal });
  return { ...list.items.find((one) => one.name === name), ...stats };
}

function leases(ctx, list) {
  if (!list?.length) return h('p', { class: 'dim' }, 'Nobody holds a message, or only for a moment.');
  return plainTable('leases', [{ text: 'Message', class: 'mono' }, { text: 'Held by' }, { text: 'Tag', numeric: true },
    { text: 'Lease ends in', numeric: true }], list.map(({ id, holder }) => [id,
    h('a', { href: ctx.href(['connections', String(holder.connection)]) }, holderText(holder)), holder.tag,
    leaseText(holder)]));
}

function shards(list) {
  if (!list || list.length < 2) return h('span', {});
  const keys = ['shard', 'ready', 'delayed', 'unacked', 'buried'];
  return plainTable('shards', ['Shard', 'Ready', 'Delayed', 'Unacked', 'Buried'].map((text) => ({ text, numeric: true })),
    list.map((one) => keys.map((key) => number(one[key]))));
}

// How long the oldest message of each priority has waited.
function priorities(list) {
  if (!list || list.length < 2) return h('span', {});
  return plainTable('priorities', ['Priority', 'Oldest ready'].map((text) => ({ text, numeric: true })),
    list.map((one) => [number(one.priority), duration(one.oldest_ready_ms)]));
}

// The consumers of a queue or a topic.
export function consumersTable(ctx, name) {
  return table(ctx, {
    name: 'consumers', prefix: 'c-', search: null, sort: 'connection', id: (c) => `${c.connection}/${c.channel}/${c.sid}/${c.kind}`,
    empty: 'Nobody consumes from here.',
    columns: [
      { key: 'name', text: 'Consumer',
        cell: (c) => h('a', { href: ctx.href(['connections', String(c.connection)]) }, c.name || `connection ${c.connection}`) },
      { key: 'user', text: 'User', cell: (c) => c.user },
      { key: 'peer', text: 'Address', class: 'unbroken', cell: (c) => c.peer },
      { key: 'channel', text: 'Channel', numeric: true, cell: (c) => c.channel || '' },
      { key: 'sid', text: 'Subscription', cell: (c) => (c.kind === 'get' ? 'a waiting GET' : c.sid) },
      { key: 'group', text: 'Group', cell: (c) => c.group ?? '' },
      { key: 'partitions', text: 'Partitions', cell: (c) => c.partitions ?? '' },
      { key: 'lag', text: 'Lag', numeric: true, cell: (c) => (c.lag === undefined ? '' : number(c.lag)) },
      { key: 'priority', text: 'Priority', numeric: true, cell: (c) => c.priority || '' },
      { key: 'prefetch', text: 'Prefetch', numeric: true, cell: (c) => c.prefetch },
      { key: 'unacked', text: 'Holds', numeric: true, cell: (c) => number(c.unacked) },
      { key: 'delivered', text: 'Delivered', numeric: true, cell: (c) => number(c.delivered) },
      { key: 'active', text: 'State', cell: (c) => (c.active === false ? 'waits for its turn' : c.active ? 'active' : '') },
    ],
    load: async (state) => {
      const answer = await api.get(at(ctx.vhost, 'consumers'), { queue: name }, { signal: ctx.signal });
      return pageOf(answer.items, state, (c) => c.sid);
    },
  });
}

const CHARTS = [
  { name: 'Messages a second', format: rate, columns: [['in_10s', 'in'], ['out_10s', 'out']] },
  { name: 'Backlog', format: short, columns: [['ready', 'ready'], ['unacked', 'unacked']] },
];

class QueuePage {
  constructor(ctx, queue) {
    this.ctx = ctx;
    this.name = ctx.params.name;
    this.refresh = this.refresh.bind(this);
    this.figures = tiles(FIGURES);
    this.trend = trend('Rates while this page is open', [{ name: 'in', color: 1 }, { name: 'out', color: 2 }], rate);
    this.badges = h('span', { class: 'tools' });
    this.totals = h('div', {});
    this.leases = h('div', {});
    this.shards = h('div', {});
    this.past = pastOf(ctx, 'queues', this.name, CHARTS);
    this.priorities = h('div', {});
    this.consumers = consumersTable(ctx, this.name);
    this.messages = messagesPart(ctx, { name: this.name, kind: 'queue', first: fullestState(queue) });
    this.pause = button('Pause', () => this.togglePause());
    this.node = this.build(queue);
    ctx.keys({
      p: ['publish a message', () => this.run(() => publishForm(ctx, 'queue', this.name))],
      r: ['look at the messages again', () => this.messages.look()],
      '/': ['search messages', () => this.messages.match.focus()],
    });
  }

  build(queue) {
    const { ctx, name } = this;
    const act = (text, action, kind) => button(text, () => this.run(() => action(ctx, name)), kind);
    return h('div', {},
      h('div', { class: 'view-head' }, h('h1', {}, name), this.badges, h('div', { class: 'tools' },
        button('Publish', () => this.run(() => publishForm(ctx, 'queue', name)), 'primary'),
        act('Redrive', redriveQueue), act('Move', moveMessages), act('Kick', kickQueue), this.pause,
        act('Purge', purgeQueue, 'danger'), act('Delete', deleteQueue, 'danger'))),
      queue.unusable && h('p', { class: 'notice bad' }, queue.unusable),
      this.figures.node,
      this.messages.node,
      h('div', { class: 'columns' },
        section('Rates', null, this.trend.node),
        section('Since the start of the broker', null, this.totals)),
      section('The last hour', null, this.past.node),
      section('Consumers', null, this.consumers.node),
      section('Leases that end first', null, this.leases),
      h('div', { class: 'columns' },
        section('Options', null, showOptions(queue.options), this.shards, this.priorities),
        section('Bindings that lead here', null, bindingsTo(ctx, 'queue', name))));
  }

  async togglePause() {
    if (this.queue.paused === 'no') await pauseQueue(this.ctx, this.name);
    else await attempt(() => resumeQueue(this.ctx, this.name), 'Resumed.');
    await this.refresh();
  }

  async run(action) {
    const done = await action();
    if (!done || this.ctx.signal.aborted) return;
    // What was deleted has no figures any more.
    await this.refresh().catch(() => {});
    await this.messages.look();
  }

  show(queue) {
    this.queue = queue;
    this.figures.show({
      ready: number(queue.ready), unacked: number(queue.unacked), delayed: number(queue.delayed),
      buried: number(queue.buried), in: rate(queue.rates?.in_10s), out: rate(queue.rates?.out_10s),
      oldest: duration(queue.oldest_ready_ms), consumers: number(queue.consumers),
    }, { buried: queue.buried > 0 ? 'warn' : '' });
    this.trend.add([queue.rates?.in_1s ?? 0, queue.rates?.out_1s ?? 0]);
    fill(this.badges, queueBadges(queue));
    fill(this.pause, queue.paused === 'no' ? 'Pause' : 'Resume');
    update(this.totals, facts(TOTALS.filter(([key]) => queue[key]).map(([key, text]) => [text, number(queue[key])])));
    update(this.leases, leases(this.ctx, queue.leases));
    update(this.shards, shards(queue.per_shard));
    update(this.priorities, priorities(queue.per_priority));
  }

  async refresh() {
    const [queue] = await Promise.all([
      api.get(at(this.ctx.vhost, 'queues', this.name), {}, { signal: this.ctx.signal }), this.consumers.refresh()]);
    this.show(queue);
  }
}

export const queueView = {
  path: 'queues/:name',
  title: ({ name }) => name,
  async render(ctx) {
    const queue = await loadWithOptions(ctx, 'queues', ctx.params.name);
    const page = new QueuePage(ctx, queue);
    page.show(queue);
    page.consumers.refresh();
    page.messages.look();
    page.past.refresh().catch(tellError);
    ctx.every(2000, page.refresh);
    ctx.every(10000, page.past.refresh);
    return page.node;
  },
};
