// One topic in detail: its partitions, and the groups that read it.
import { h, fill, update, section, button } from './dom.js';
import { api, at } from './api.js';
import { ask, confirm } from './dialog.js';
import { plainTable } from './table.js';
import { tiles } from './tiles.js';
import { trend } from './trend.js';
import { messagesPart } from './messages.js';
import { publishForm } from './publish.js';
import { showOptions, givenOptions } from './options.js';
import { bindingsTo } from './bindings_to.js';
import { consumersTable, queueBadges, loadWithOptions } from './queue.js';
import { counted } from './queue_forms.js';
import { number, short, rate, duration, bytes, time, count } from './format.js';
import { past, pastOf } from './past.js';
import { tell, tellError, attempt } from './toast.js';

const FIGURES = [['messages', 'Messages'], ['bytes', 'Size'], ['partitions', 'Partitions'], ['in', 'In'], ['out', 'Out'],
  ['groups', 'Groups'], ['readers', 'Readers'], ['consumers', 'Consumers']];

const PARTITION_COLUMNS = [{ text: 'Partition' }, { text: 'First offset', numeric: true },
  { text: 'Next offset', numeric: true }, { text: 'Messages', numeric: true }, { text: 'Size', numeric: true },
  { text: 'Last append', class: 'time' }, { text: 'Held back', numeric: true }, { text: 'By group' }];

const GROUP_COLUMNS = [{ text: 'Group' }, { text: 'Members', numeric: true }, { text: 'Lag', numeric: true },
  { text: 'Oldest', numeric: true }, { text: 'Given up', numeric: true }, { text: 'Lag of partitions', class: 'wide' },
  { text: '' }];

function partitionsTable(list) {
  return plainTable('partitions', PARTITION_COLUMNS,
    (list ?? []).map((p) => [p.partition, number(p.start), number(p.end), number(p.end - p.start), bytes(p.bytes),
      time(p.last), p.held_back ? number(p.held_back) : '', p.held_by ?? '']));
}

// The partitions that a group has not read to their end, and whose they are.
function lagsList(ctx, partitions) {
  return h('ul', { class: 'lags' }, partitions.filter((p) => p.lag > 0 || p.stopped).map((p) => h('li', {},
    h('span', { class: 'dim' }, `partition ${p.partition}: `), number(p.lag), p.stopped ? ' stopped' : '',
    p.sid !== undefined && [' ', h('a', { href: ctx.href(['connections', String(p.connection)]) }, p.sid)])));
}

function fullestPartition(list) {
  return (list ?? []).reduce((fullest, p) => (p.end - p.start > fullest.end - fullest.start ? p : fullest),
    { partition: 0, start: 0, end: 0 }).partition;
}

function seekForm(ctx, topic, group) {
  return ask({
    title: `Seek ${group}`, verb: 'Seek',
    text: 'The group goes on there. What its members hold is no longer theirs.',
    specs: [
      { name: 'to', label: 'Position', required: true, placeholder: 'first, last, an offset, or 1h ago as 1h' },
      { name: 'partition', label: 'Partition', type: 'number', min: 0, placeholder: 'all' },
    ],
    submit: async ({ to, partition }) => {
      await api.post(at(ctx.vhost, 'topics', topic, 'groups', group, 'seek'),
        { to, ...(partition === undefined ? {} : { partition }) });
      tell(`Group ${group} goes on at ${to}.`);
    },
  });
}

function pauseGroup(ctx, topic, group) {
  return ask({
    title: `Pause ${group}`, verb: 'Pause', text: 'The group gets nothing. What its members hold stays theirs.',
    specs: [{ name: 'for', label: 'For', placeholder: 'until it is resumed', help: 'like 30s, 5m, 2h' }],
    submit: (values) => api.post(at(ctx.vhost, 'topics', topic, 'groups', group, 'pause'), givenOptions(values)),
  });
}

function resumeGroup(ctx, topic, group) {
  return attempt(() => api.post(at(ctx.vhost, 'topics', topic, 'groups', group, 'resume')), 'Resumed.');
}

function deleteGroup(ctx, topic, group) {
  return confirm({
    title: 'Delete the group?', verb: 'Delete', typed: group,
    text: `${group} forgets what it has read of ${topic}.`,
    submit: async () => {
      await api.delete(at(ctx.vhost, 'topics', topic, 'groups', group));
      tell(`Group ${group} is deleted.`);
    },
  });
}

function purgeTopic(ctx, name) {
  return confirm({
    title: 'Purge the topic?', verb: 'Purge', typed: name,
    text: `All messages of ${name} are dropped, read or not.`,
    submit: async () => tell(`${count(counted(await api.post(at(ctx.vhost, 'topics', name, 'purge'))), 'message')} dropped.`),
  });
}

function trimTopic(ctx, name) {
  return ask({
    title: 'Trim', verb: 'Trim', danger: true, text: `Drops the messages of ${name} that lie before a position.`,
    specs: [
      { name: 'before', label: 'Before', required: true, placeholder: 'an offset, or 1h for what is older' },
      { name: 'partition', label: 'Partition', type: 'number', min: 0, placeholder: 'all' },
    ],
    submit: async (values) => tell(`${count(counted(await api.post(at(ctx.vhost, 'topics', name, 'purge'),
      givenOptions(values))), 'message')} dropped.`),
  });
}

function widenTopic(ctx, name) {
  return ask({
    title: 'More partitions', verb: 'Make', text: 'A key may go on in another partition, and has its order from then on. '
      + 'There cannot be fewer again.',
    specs: [{ name: 'partitions', label: 'Partitions', type: 'number', min: 2, max: 64, required: true }],
    submit: async ({ partitions }) => {
      await api.put(at(ctx.vhost, 'topics', name), { options: { partitions }, update: true });
      tell(`Topic ${name} has ${partitions} partitions.`);
    },
  });
}

function deleteTopic(ctx, name) {
  return confirm({
    title: 'Delete the topic?', verb: 'Delete', typed: name, text: `${name} goes with all its messages, groups and bindings.`,
    submit: async () => {
      await api.delete(at(ctx.vhost, 'topics', name));
      tell(`Topic ${name} is deleted.`);
      ctx.go(ctx.href(['topics']));
    },
  });
}

const LAG_LINES = 6; // in the chart of groups
const CHARTS = [{ name: 'Messages a second', format: rate, columns: [['in_10s', 'in'], ['out_10s', 'out']] }];
const LAG_CHARTS = [{ name: 'Lag of groups', format: short, columns: [['lag']] }];

class TopicPage {
  constructor(ctx, topic) {
    this.ctx = ctx;
    this.name = ctx.params.name;
    this.refresh = this.refresh.bind(this);
    this.figures = tiles(FIGURES);
    this.trend = trend('Rates while this page is open', [{ name: 'in', color: 1 }, { name: 'out', color: 2 }], rate);
    this.badges = h('span', { class: 'tools' }, queueBadges(topic));
    this.partitions = h('div', {});
    this.groups = h('div', {});
    this.past = pastOf(ctx, 'topics', this.name, CHARTS);
    this.lags = past(ctx, LAG_CHARTS, () => this.loadLags());
    this.consumers = consumersTable(ctx, this.name);
    this.messages = messagesPart(ctx, { name: this.name, kind: 'topic', partitions: topic.partitions,
      first: fullestPartition(topic.per_partition) });
    this.node = this.build(topic);
    ctx.keys({
      p: ['publish a message', () => this.run(() => this.publish())],
      r: ['look at the messages again', () => this.messages.look()],
      '/': ['search messages', () => this.messages.match.focus()],
    });
  }

  // The last hour of the groups that are the furthest behind.
  loadLags() {
    const furthest = [...this.shownTopic.groups].sort((a, b) => b.lag - a.lag).slice(0, LAG_LINES).map((g) => g.group).sort();
    return Promise.all(furthest.map(async (group) => ({ name: group, history: await api.get(
      at(this.ctx.vhost, 'topics', this.name, 'history'), { group }, { signal: this.ctx.signal }) })));
  }

  async look() {
    await Promise.all([this.past.refresh(), this.lags.refresh()]);
  }

  publish() {
    return publishForm(this.ctx, 'topic', this.name);
  }

  build(topic) {
    const { ctx, name } = this;
    const act = (text, action, kind) => button(text, () => this.run(() => action(ctx, name)), kind);
    return h('div', {},
      h('div', { class: 'view-head' }, h('h1', {}, name), this.badges, h('div', { class: 'tools' },
        button('Publish', () => this.run(() => this.publish()), 'primary'), act('More partitions', widenTopic), act('Trim', trimTopic),
        act('Purge', purgeTopic, 'danger'), act('Delete', deleteTopic, 'danger'))),
      topic.unusable && h('p', { class: 'notice bad' }, topic.unusable),
      this.figures.node,
      section('Groups', null, this.groups),
      section('Partitions', null, this.partitions),
      section('The last hour', null, h('div', { class: 'columns' }, this.past.node, this.lags.node)),
      this.messages.node,
      section('Consumers', null, this.consumers.node),
      section('Options', null, showOptions(topic.options)),
      h('div', { class: 'columns' },
        section('Rates', null, this.trend.node),
        section('Bindings that lead here', null, bindingsTo(ctx, 'topic', name))));
  }

  // Groups have buttons, which must stay while somebody is about to use them: only a change makes new ones.
  showGroups(groups) {
    const shown = JSON.stringify(groups);
    if (shown === this.shownGroups) return;
    this.shownGroups = shown;
    const { ctx, name } = this;
    fill(this.groups, groups.length === 0 ? h('p', { class: 'dim' }, 'No group reads this topic.')
      : plainTable('groups', GROUP_COLUMNS,
        groups.map((g) => [h('span', {}, g.group, g.paused && [' ', h('span', { class: 'badge warn' }, 'paused')]), number(g.members + (g.gets ?? 0)), number(g.lag), duration(g.lag_ms),
          number(g.given_up), lagsList(ctx, g.partitions), h('span', { class: 'tools' },
            button('Seek', () => this.run(() => seekForm(ctx, name, g.group)), 'small'),
            button(g.paused ? 'Resume' : 'Pause',
              () => this.run(() => (g.paused ? resumeGroup : pauseGroup)(ctx, name, g.group)), 'small'),
            button('Delete', () => this.run(() => deleteGroup(ctx, name, g.group)), 'small danger'))])));
  }

  async run(action) {
    const done = await action();
    if (!done || this.ctx.signal.aborted) return;
    await this.refresh().catch(() => {});
    await this.messages.look();
  }

  show(topic) {
    this.shownTopic = topic;
    this.figures.show({
      messages: number(topic.messages), bytes: bytes(topic.bytes), partitions: number(topic.partitions),
      in: rate(topic.rates?.in_10s), out: rate(topic.rates?.out_10s), groups: number(topic.groups?.length),
      readers: number(topic.readers), consumers: number(topic.consumers),
    });
    this.trend.add([topic.rates?.in_1s ?? 0, topic.rates?.out_1s ?? 0]);
    update(this.partitions, partitionsTable(topic.per_partition));
    this.showGroups(topic.groups ?? []);
  }

  async refresh() {
    const [topic] = await Promise.all([
      api.get(at(this.ctx.vhost, 'topics', this.name), {}, { signal: this.ctx.signal }), this.consumers.refresh()]);
    this.show(topic);
  }
}

export const topicView = {
  path: 'topics/:name',
  title: ({ name }) => name,
  async render(ctx) {
    const topic = await loadWithOptions(ctx, 'topics', ctx.params.name);
    const page = new TopicPage(ctx, topic);
    page.show(topic);
    page.consumers.refresh();
    page.messages.look();
    page.look().catch(tellError);
    ctx.every(2000, page.refresh);
    ctx.every(10000, () => page.look());
    return page.node;
  },
};
