// The recent publishes, and the same decided again under candidate rules.
import { h, fill, facts, section, button } from './dom.js';
import { api } from './api.js';
import { number, bytes, time } from './format.js';
import { table, pageOf } from './table.js';
import { fields } from './dialog.js';
import { tellError } from './toast.js';
import { rulesTabs } from './rules_tabs.js';
import { linkPlaces } from './source.js';
import { differenceOf } from './decision.js';
import { testHref } from './tester.js';

const SIDES = [['before', 'Active rules'], ['after', 'Candidate rules']];

function result(ctx, d) {
  const notes = [
    d.stopped && 'It took too long and was given up: the candidate rules are slow.',
    d.needs_payload > 0 && `Of ${number(d.needs_payload)} a script wants the payload, which the broker no longer has ` +
      '(serve --replay-payloads keeps it).',
    d.not_called > 0 && `${number(d.not_called)} were refused by an open circuit, and are not compared.`,
    d.in_force && 'These are the active rules themselves.',
  ].filter(Boolean);
  return [
    h('p', { class: `verdict ${d.changed ? 'warn' : 'good'}` }, d.changed
      ? `${number(d.changed)} of ${number(d.publishes)} publishes are decided differently.`
      : `All ${number(d.publishes)} publishes are decided alike.`, notes.map((note) => h('small', {}, note))),
    section('Rules', null, facts([['directory', d.directory], ['hash', d.hash]])),
    d.changes.length > 0 && section('What differs', null, d.changes.map((one) => differenceOf(ctx, one, SIDES))),
  ];
}

async function renderReplay(ctx) {
  const place = h('div', { 'data-part': 'replay', 'aria-live': 'polite' });
  const shadow = await api.get('/api/rules/shadow', {}, { signal: ctx.signal }).catch(() => ({}));
  const form = fields([{ name: 'dir', label: 'Directory of the candidate rules', required: true,
    value: ctx.query.dir ?? shadow.directory ?? '',
    help: 'on the broker’s machine; one that was uploaded has its name here' }]);
  const go = h('button', { class: 'button primary', type: 'submit' }, 'Replay');
  const run = async () => {
    const { dir } = form.values();
    ctx.setQuery({ dir });
    go.disabled = true;
    fill(place, h('p', { class: 'empty' }, 'Deciding the recent publishes again …'));
    try {
      fill(place, result(ctx, await api.post('/api/rules/replay', { dir }, { signal: ctx.signal })));
    } catch (error) {
      if (error.name === 'AbortError') return;
      tellError(error);
      fill(place, h('p', { class: 'verdict bad' }, linkPlaces(ctx, error.message)));
    }
    go.disabled = false;
  };
  if (ctx.query.dir) run();
  return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Replay')), rulesTabs(ctx, 'replay'),
    section('Decide the recent publishes again', null, h('p', { class: 'dim' },
      'Nothing is applied. Each is decided at the time and with the random numbers that it had.'),
    h('form', { onsubmit: (event) => {
      event.preventDefault();
      run();
    } }, form.node, h('div', { class: 'dialog-buttons' },
      h('a', { class: 'button', href: ctx.href(['rules', 'candidate']) }, 'Upload rules'), go))), place);
}

function decisionText(d) {
  if (d.code) return `${d.code}: ${d.error}`;
  const names = d.queues.slice(0, 3).map((q) => q.queue).join(', ');
  return d.count === 0 ? 'no queue' : `${names}${d.count > 3 ? `, … (${number(d.count)})` : ''}`;
}

async function renderRecent(ctx) {
  const list = table(ctx, {
    name: 'recent publishes', search: 'exchange, key, header', sort: 'number', order: 'desc',
    empty: 'Nothing was published yet.',
    columns: [
      { key: 'number', text: '#', sort: true, cell: (p) => h('span', {}, p.number) },
      { key: 'published_ms', text: 'Time', class: 'unbroken', cell: (p) => time(p.published_ms) },
      { key: 'exchange', text: 'Exchange', sort: true, cell: (p) => p.exchange || '-' },
      { key: 'key', text: 'Key', sort: true, cell: (p) => p.key },
      { key: 'headers', text: 'Headers',
        cell: (p) => Object.entries(p.headers).map(([k, v]) => `${k}: ${v}`).join(', ') },
      { key: 'size', text: 'Size', sort: true, numeric: true, cell: (p) => bytes(p.size) },
      { key: 'user', text: 'User', cell: (p) => p.user ?? '' },
      { key: 'decision', text: 'Went to', cell: (p) => h('span', { class: p.decision.code ? 'bad'
        : p.decision.count === 0 ? 'warn' : null }, decisionText(p.decision)) },
      { key: 'test', text: '', class: 'unbroken', cell: (p) => h('a', { href: testHref(ctx, p) }, 'Test it') },
    ],
    id: (p) => p.number,
    load: async (page) => {
      const vhost = ctx.vhost === '/' ? '' : ctx.vhost;
      const recent = await api.get('/api/rules/recent', { max: 1024, vhost }, { signal: ctx.signal });
      return pageOf(recent.items ?? recent, page, (p) => `${p.exchange} ${p.key} ${JSON.stringify(p.headers)}`);
    },
    tools: [button('Refresh', () => list.refresh().catch(tellError))],
  });
  await list.refresh();
  return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Recent publishes')), rulesTabs(ctx, 'recent'),
    section('As they were published, before any filter', null, list.node));
}

export const replayViews = [
  { path: 'rules/replay', title: 'Replay', render: renderReplay },
  { path: 'rules/recent', title: 'Recent publishes', render: renderRecent },
];
