// The broker at a glance: what is wrong, what waits, figures that move, the last hour as charts.
import { h, fill, update, section, facts, button } from './dom.js';
import { api, at, follow } from './api.js';
import { confirm } from './dialog.js';
import { chart } from './chart.js';
import { tiles } from './tiles.js';
import { table, plainTable } from './table.js';
import { lookAtHealth, setNamedHealth } from './health.js';
import { number, short, rate, bytes, duration, span, share, time } from './format.js';
import { tell, tellError } from './toast.js';

const HOUR = 3600e3;

const FIGURES = [['published', 'Published'], ['delivered', 'Delivered'], ['acked', 'Acked'], ['ready', 'Ready'],
  ['unacked', 'Unacked'], ['delayed', 'Delayed'], ['buried', 'Buried'], ['oldest', 'Oldest ready'],
  ['connections', 'Connections'], ['memory', 'In memory'], ['store', 'Store round trip'], ['loop', 'Loop busy']];

const CHARTS = [
  { name: 'Messages a second', format: rate, columns: [['published', 1], ['delivered', 2], ['acked', 3]] },
  { name: 'Backlog', format: short, columns: [['ready', 1], ['unacked', 2], ['delayed', 4], ['buried', 5]] },
  { name: 'Oldest ready message', format: duration, axis: span, scale: 'time', min: 1000, columns: [['oldest_ready_ms', 2, 'age']] },
  { name: 'Store round trip', format: duration, min: 0.1, columns: [['store_ms', 1, 'mean']] },
  { name: 'Event loop', format: share, min: 0.01, columns: [['loop_busy', 3, 'busy']] },
  { name: 'Memory', format: bytes, min: 1024, scale: 'binary',
    columns: [['memory_bytes', 1, 'messages'], ['unstored_bytes', 5, 'not durable yet']] },
];

function showSample(figures, sample) {
  figures.show({
    published: rate(sample.published), delivered: rate(sample.delivered), acked: rate(sample.acked),
    ready: number(sample.ready), unacked: number(sample.unacked), delayed: number(sample.delayed),
    buried: number(sample.buried), oldest: duration(sample.oldest_ready_ms), connections: number(sample.connections),
    memory: bytes(sample.memory_bytes), store: duration(sample.store_ms), loop: share(sample.loop_busy),
  }, {
    buried: sample.buried > 0 ? 'warn' : '',
    loop: sample.loop_busy > 0.8 ? 'bad' : sample.loop_busy > 0.5 ? 'warn' : '',
  });
}

// The samples of the last hour, and the newest one, which changes until the next takes its place.
class Hour {
  constructor(history) {
    this.everyMs = history.every_ms ?? 5000;
    this.samples = (history.rows ?? []).map((row) => Object.fromEntries(history.columns.map((name, i) => [name, row[i]])));
    this.charts = CHARTS.map(({ columns, ...spec }) => chart({
      ...spec, series: columns.map(([column, color, label]) => ({ name: label ?? column, color })),
    }));
    this.lastKept = this.samples.length ? this.samples[this.samples.length - 1].t : 0;
    this.show();
  }

  add(sample) {
    const last = this.samples[this.samples.length - 1];
    if (last && last.t > this.lastKept) this.samples.pop();
    this.samples.push(sample);
    if (sample.t - this.lastKept >= this.everyMs) this.lastKept = sample.t;
    while (this.samples[0].t < sample.t - HOUR) this.samples.shift();
    this.show();
  }

  show() {
    const times = this.samples.map((sample) => sample.t);
    CHARTS.forEach(({ columns }, i) => {
      this.charts[i].show(times, columns.map(([column]) => this.samples.map((sample) => sample[column])));
    });
  }
}

function mean(steps, digits = 1) {
  const sum = steps?.sum_us ?? steps?.sum;
  return steps?.count ? (sum / steps.count).toFixed(digits) : undefined;
}

function brokerFacts(stats) {
  return facts([
    ['version', stats.version], ['node', String(stats.node)], ['up for', duration(stats.uptime_ms)],
    ['vhosts', number(stats.vhosts)], ['exchanges', number(stats.exchanges)], ['queues', number(stats.queues)],
    ['topics', number(stats.topics)], ['connections', number(stats.connections)],
    ['published', number(stats.published)], ['delivered', number(stats.delivered)], ['acked', number(stats.acked)],
    ['unroutable', number(stats.unroutable)], ['failed', number(stats.failed)],
    ['dead-lettered', number(stats.dead_lettered)], ['duplicates', number(stats.duplicates)],
    ['longest loop turn', stats.loop && duration(stats.loop.max_us / 1000)],
    ['resident memory', stats.process && bytes(stats.process.resident_bytes)],
    ['processor time', stats.process && duration(stats.process.cpu_ms)],
    ['open descriptors', stats.process && `${number(stats.process.fds)} of ${number(stats.process.fds_max)}`],
  ]);
}

const stateBadge = (state) => h('span', { class: `badge ${state === 'up' ? 'good' : 'bad'}` }, state);

// Of a Redis Cluster: what each master has and owes.
function masters(list) {
  return plainTable('masters', [{ text: 'Master' }, { text: 'State' }, { text: 'Slots', numeric: true },
    { text: 'Waiting', numeric: true }, { text: 'Replicas', numeric: true }, { text: 'They lack', numeric: true },
    { text: 'Round trip', numeric: true }, { text: 'Memory', numeric: true }],
  list.map((one) => [one.address, stateBadge(one.state), number(one.slots), number(one.pending_requests),
    number(one.replicas), bytes(one.lag_bytes), duration(one.round_trip_us && one.round_trip_us / 1000), bytes(one.memory_bytes)]));
}

function storeFacts(store) {
  if (!store) return h('p', { class: 'dim' }, 'There is no store.');
  const trip = mean(store.round_trip);
  const list = facts([
    ['state', stateBadge(store.state)],
    ['kind', store.kind], ['Redis', store.version], ['address', store.address],
    ['round trip, mean', trip && duration(trip / 1000)],
    ['round trip, longest', store.round_trip?.count ? duration(store.round_trip.max_us / 1000) : null],
    ['messages in a batch, mean', mean(store.changes)],
    ['flushes', number(store.flushes)], ['written', number(store.inserted)], ['elided', number(store.elided)],
    ['refused', number(store.refused)], ['not durable yet', bytes(store.unstored_bytes)],
    ['reconnects', number(store.reconnects)], ['memory of Redis', store.memory_bytes && bytes(store.memory_bytes)],
    ['slots that wait', store.slots_held > 0 && number(store.slots_held)],
    ['slots without a master', store.slots_without_master > 0 && number(store.slots_without_master)],
    ['last error', store.last_error],
  ]);
  return store.masters?.length > 1 ? h('div', {}, list, masters(store.masters)) : list;
}

// Errors of scripts show code, which the notices of the health keep back.
function ruleProblems(rules) {
  const open = (rules.scripts ?? []).filter((script) => script.circuit !== 'closed');
  return h('div', {},
    rules.refusal && h('p', { class: 'notice bad' }, `Rules refused ${time(rules.refusal.ms)}: ${rules.refusal.error}`),
    open.map((script) => h('p', { class: 'notice warn' }, `The circuit of ${script.file} is ${script.circuit}.`)));
}

function rulesFacts(ctx, rules) {
  const scripts = rules.scripts ?? [];
  const sum = (key) => scripts.reduce((all, script) => all + (script.this_generation?.[key] ?? 0), 0);
  return facts([
    ['generation', h('a', { href: ctx.href(['rules']) }, String(rules.generation))], ['loaded', time(rules.loaded_ms)],
    ['origin', rules.origin], ['hash', h('code', {}, String(rules.hash).slice(0, 12))],
    ['scripts', number(scripts.length)], ['calls', number(sum('calls'))], ['errors', number(sum('errors'))],
    ['memory', bytes(rules.memory_bytes)],
  ]);
}

async function toggleDrain(isDraining) {
  if (isDraining) {
    await api.delete('/api/drain');
    tell('The broker takes publishes again.');
    return true;
  }
  return confirm({
    title: 'Drain the broker?', verb: 'Drain', text: 'It refuses every publish from now on. Consumers are served.',
    submit: () => api.post('/api/drain'),
  });
}

class Overview {
  constructor(ctx, stats, history) {
    this.ctx = ctx;
    this.figures = tiles(FIGURES);
    this.hour = new Hour(history);
    this.problems = h('div', {});
    this.broker = h('div', {});
    this.store = h('div', {});
    this.rules = h('p', { class: 'dim' }, 'Loading…');
    this.drain = button('Drain', async () => {
      try {
        if (await toggleDrain(this.isDraining)) await Promise.all([this.look(), lookAtHealth()]);
      } catch (error) {
        tellError(error);
      }
    });
    this.backlog = this.makeBacklog();
    this.lags = this.makeLags();
    this.groups = section('Groups with the largest lag', h('a', { href: ctx.href(['topics'], { sort: 'lag', order: 'desc' }) },
      'All topics'), this.lags.node);
    this.showStats(stats);
    this.node = h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Overview')), this.problems,
      section('Queues with the largest backlog', h('a', { href: ctx.href(['queues'], { sort: 'ready', order: 'desc' }) }, 'All queues'),
        this.backlog.node),
      this.groups, this.figures.node,
      section('The last hour', null, h('div', { class: 'charts' }, this.hour.charts.map((one) => one.node))),
      h('div', { class: 'columns' }, section('Broker', ctx.can('admin') && this.drain, this.broker),
        section('Store', null, this.store)),
      section('Rules', null, this.rules));
  }

  makeBacklog() {
    return table(this.ctx, {
      name: 'backlog', prefix: 'q-', search: null, sort: 'ready', order: 'desc', max: 5, id: (q) => q.name,
      href: (q) => this.ctx.href(['queues', q.name]), empty: 'This vhost has no queue yet.',
      columns: [
        { key: 'name', text: 'Name', cell: (q) => q.name },
        { key: 'ready', text: 'Ready', numeric: true, cell: (q) => number(q.ready) },
        { key: 'unacked', text: 'Unacked', numeric: true, cell: (q) => number(q.unacked) },
        { key: 'buried', text: 'Buried', numeric: true, cell: (q) => (q.buried > 0 ? number(q.buried) : '') },
        { key: 'in', text: 'In', numeric: true, cell: (q) => rate(q.in_10s) },
        { key: 'out', text: 'Out', numeric: true, cell: (q) => rate(q.out_10s) },
        { key: 'oldest', text: 'Oldest', numeric: true, cell: (q) => duration(q.oldest_ready_ms) },
        { key: 'consumers', text: 'Consumers', numeric: true, cell: (q) => number(q.consumers) },
      ],
      load: (state) => api.get(at(this.ctx.vhost, 'queues'), state, { signal: this.ctx.signal }),
    });
  }

  makeLags() {
    return table(this.ctx, {
      name: 'lags', prefix: 'g-', search: null, sort: 'lag', order: 'desc', max: 5, id: (g) => `${g.topic} ${g.group}`,
      href: (g) => this.ctx.href(['topics', g.topic]), empty: 'No group reads a topic of this vhost.',
      columns: [
        { key: 'group', text: 'Group', cell: (g) => g.group },
        { key: 'topic', text: 'Topic', cell: (g) => g.topic },
        { key: 'lag', text: 'Lag', numeric: true, cell: (g) => number(g.lag) },
        { key: 'oldest', text: 'Oldest', numeric: true, cell: (g) => duration(g.lag_ms) },
        { key: 'given_up', text: 'Given up', numeric: true, cell: (g) => (g.given_up > 0 ? number(g.given_up) : '') },
        { key: 'members', text: 'Members', numeric: true, cell: (g) => number(g.members + (g.gets ?? 0)) },
      ],
      load: (state) => api.get(at(this.ctx.vhost, 'groups'), state, { signal: this.ctx.signal }),
    });
  }

  showStats(stats) {
    this.isDraining = stats.draining;
    fill(this.drain, stats.draining ? 'End the drain' : 'Drain');
    update(this.broker, brokerFacts(stats));
    update(this.store, storeFacts(stats.store));
  }

  showSample(sample) {
    showSample(this.figures, sample);
    this.hour.add(sample);
  }

  // What does not move every second.
  async look() {
    const { signal } = this.ctx;
    const [stats, rules, groups] = await Promise.all([api.get('/api/stats', {}, { signal }),
      api.get('/api/rules', {}, { signal }), this.lags.refresh(), this.backlog.refresh()]);
    if (signal.aborted) return;
    this.showStats(stats);
    setNamedHealth(stats.health);
    this.groups.hidden = groups?.total === 0;
    update(this.problems, ruleProblems(rules));
    update(this.rules, rulesFacts(this.ctx, rules));
  }
}

export const overviewViews = [{
  path: 'overview',
  title: 'Overview',
  nav: { text: 'Overview', key: 'o' },
  async render(ctx) {
    const { signal } = ctx;
    const [stats, history] = await Promise.all([api.get('/api/stats', {}, { signal }), api.get('/api/history', {}, { signal })]);
    const page = new Overview(ctx, stats, history);
    page.look().catch(tellError);
    follow('/api/events?every=2s', signal, (name, sample) => {
      if (name === 'stats') page.showSample(sample);
    }).catch(tellError);
    ctx.every(10000, () => page.look());
    return page.node;
  },
}];
