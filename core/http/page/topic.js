// One topic in detail: its partitions, and the groups that read it.
import { h, fill, update, section, button } from './dom.js';
import { api, at } from './api.js';
import { ask, confirm } from './dialog.js';
import { tiles } from './tiles.js';
import { trend } from './trend.js';
import { messagesPart } from './messages.js';
import { publishForm } from './publish.js';
import { showOptions, givenOptions } from './options.js';
import { bindingsTo } from './bindings_to.js';
import { consumersTable, queueBadges, loadWithOptions } from './queue.js';
import { counted } from './queue_forms.js';
import { number, rate, duration, bytes, time, count } from './format.js';
import { tell } from './toast.js';

const FIGURES = [['messages', 'Messages'], ['bytes', 'Size'], ['partitions', 'Partitions'], ['in', 'In'], ['out', 'Out'],
  ['groups', 'Groups'], ['readers', 'Readers'], ['consumers', 'Consumers']];

function plainTable(name, heads, rows) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name }, h('table', { 'data-table': name },
    h('thead', {}, h('tr', {}, heads.map(([text, numeric]) => h('th', { scope: 'col', class: numeric ? 'numeric' : null }, text)))),
    h('tbody', {}, rows.map((row) => h('tr', {}, row.map((cell, i) =>
      h('td', { class: heads[i][1] ? 'numeric' : null }, cell ?? '–')))))));
}

function partitionsTable(list) {
  return plainTable('partitions',
    [['Partition', true], ['First offset', true], ['Next offset', true], ['Messages', true], ['Size', true],
      ['Last append', true], ['Held back', true], ['By group']],
    (list ?? []).map((p) => [p.partition, number(p.start), number(p.end), number(p.end - p.start), bytes(p.bytes),
      time(p.last), p.held_back ? number(p.held_back) : '', p.held_by ?? '']));
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
    this.consumers = consumersTable(ctx, this.name);
    this.messages = messagesPart(ctx, { name: this.name, kind: 'topic', partitions: topic.partitions });
    this.node = this.build(topic);
    ctx.keys({
      p: ['publish a message', () => this.run(() => this.publish())],
      r: ['look at the messages again', () => this.messages.look()],
      '/': ['search messages', () => this.messages.match.focus()],
    });
  }

  publish() {
    return publishForm(this.ctx, { key: this.name, fixed: true });
  }

  build(topic) {
    const { ctx, name } = this;
    const act = (text, action, kind) => button(text, () => this.run(() => action(ctx, name)), kind);
    return h('div', {},
      h('div', { class: 'view-head' }, h('h1', {}, name), this.badges, h('div', { class: 'tools' },
        button('Publish', () => this.run(() => this.publish()), 'primary'), act('Trim', trimTopic),
        act('Purge', purgeTopic, 'danger'), act('Delete', deleteTopic, 'danger'))),
      topic.unusable && h('p', { class: 'notice bad' }, topic.unusable),
      this.figures.node,
      section('Groups', null, this.groups),
      section('Partitions', null, this.partitions),
      this.messages.node,
      section('Rates', null, this.trend.node),
      section('Consumers', null, this.consumers.node),
      h('div', { class: 'columns' },
        section('Options', null, showOptions(topic.options)),
        section('Bindings that lead here', null, bindingsTo(ctx, 'topic', name))));
  }

  // Groups have buttons, which must stay while somebody is about to use them: only a change makes new ones.
  showGroups(groups) {
    const shown = JSON.stringify(groups);
    if (shown === this.shownGroups) return;
    this.shownGroups = shown;
    const { ctx, name } = this;
    fill(this.groups, groups.length === 0 ? h('p', { class: 'dim' }, 'No group reads this topic.')
      : plainTable('groups',
        [['Group'], ['Members', true], ['Lag', true], ['Oldest', true], ['Given up', true], ['Lag per partition'], ['']],
        groups.map((g) => [g.group, number(g.members + (g.gets ?? 0)), number(g.lag), duration(g.lag_ms), number(g.given_up),
          g.partitions.map((p) => `${p.partition}: ${number(p.lag)}${p.stopped ? ' stopped' : ''}`).join(', '),
          h('span', { class: 'tools' },
            button('Seek', () => this.run(() => seekForm(ctx, name, g.group)), 'small'),
            button('Delete', () => this.run(() => deleteGroup(ctx, name, g.group)), 'small danger'))])));
  }

  async run(action) {
    const done = await action();
    if (!done || this.ctx.signal.aborted) return;
    await this.refresh().catch(() => {});
    await this.messages.look();
  }

  show(topic) {
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
    ctx.every(2000, page.refresh);
    return page.node;
  },
};
