// The active rules: what each script does, what it costs, what went wrong.
import { h, fill, facts, section, button } from './dom.js';
import { api } from './api.js';
import { number, bytes, duration, share, time, ago } from './format.js';
import { table, pageOf, plainTable } from './table.js';
import { confirm } from './dialog.js';
import { attempt } from './toast.js';
import { rulesTabs } from './rules_tabs.js';
import { placeLink, linkPlaces, sourceView } from './source.js';
import { generationViews } from './rules_generations.js';
import { candidateView } from './rules_candidate.js';
import { replayViews } from './rules_replay.js';

const REFRESH_MS = 2000;

function ns(n) {
  return n ? duration(n / 1e6) : '–';
}

function circuit(script) {
  if (!script.circuit || script.circuit === 'closed') return '';
  const title = (script.circuits ?? []).map((one) => `${one.user}: ${one.circuit}, ${one.last_error ?? ''}`).join('\n');
  return h('span', { class: 'badge bad', title }, script.circuit);
}

function usesText(script) {
  if (script.active === undefined && script.kind !== 'schedule') return number(script.uses);
  return script.active ? 'active' : 'not active';
}

// What is 0 for every script has no column.
function scriptColumns(ctx, total) {
  return [
    { key: 'file', text: 'Script', sort: true, cell: (x) => h('span', { class: 'titled' },
      placeLink(ctx, { file: x.file }), h('small', {}, x.doc ?? '')) },
    { key: 'uses', text: 'Uses', sort: true, numeric: true, cell: usesText },
    { key: 'calls', text: 'Calls', sort: true, numeric: true, cell: (x) => number(x.calls) },
    { key: 'last_minute', text: 'Last minute', numeric: true, cell: (x) => h('span',
      { title: `p99 ${ns(x.last_minute.p99_ns)}, ${number(x.last_minute.errors)} failed` }, number(x.last_minute.calls)) },
    { key: 'cache_hits', text: 'Remembered', sort: true, numeric: true, cell: (x) => (x.cache_hits ? number(x.cache_hits) : '') },
    { key: 'time_us', text: 'Time', sort: true, numeric: true,
      cell: (x) => (total.us ? share(x.time_us / total.us) : '–') },
    { key: 'p50_ns', text: 'p50', sort: true, numeric: true, cell: (x) => ns(x.p50_ns) },
    { key: 'p99_ns', text: 'p99', sort: true, numeric: true, cell: (x) => ns(x.p99_ns) },
    { key: 'max_ns', text: 'Longest', sort: true, numeric: true, cell: (x) => ns(x.max_ns) },
    { key: 'errors', text: 'Errors', sort: true, numeric: true, cell: (x) => (x.errors
      ? h('span', { class: 'bad' }, number(x.errors)) : '') },
    { key: 'rejected', text: 'Rejected', sort: true, numeric: true, cell: (x) => (x.rejected
      ? number(x.rejected) : '') },
    { key: 'memory_bytes', text: 'Memory', sort: true, numeric: true, cell: (x) => bytes(x.memory_bytes) },
    { key: 'circuit', text: 'Circuit', cell: circuit },
  ];
}

function factsOf(ctx, d) {
  return facts([
    ['generation', d.generation], ['hash', ctx.can('admin') ? h('a', { class: 'place',
      href: ctx.href(['rules', 'source'], { hash: d.hash }) }, d.hash) : d.hash],
    ['from', d.origin], ['since', `${time(d.loaded_ms)}, ${ago(d.loaded_ms)}`],
    ['scripts', number(d.scripts.length)], ['memory', `${bytes(d.memory_bytes)} of ${bytes(d.memory_max_bytes)}`],
    ['the last load took', duration(d.build.took_us / 1000)],
    ['its longest step', duration(d.build.longest_turn_us / 1000)],
    ['tide.shared', `${number(d.shared.entries)} of ${number(d.shared.entries_max)} entries`],
    ['attempts that were refused', number(d.refused)],
  ]);
}

function problems(ctx, d) {
  const failing = d.scripts.filter((script) => script.last_error);
  return [
    d.refusal && h('p', { class: 'notice bad', role: 'alert' }, `Refused at ${time(d.refusal.ms)}: `,
      linkPlaces(ctx, d.refusal.error), ' The rules below stay active.'),
    d.origin === 'last good' && h('p', { class: 'notice warn' }, 'The rules directory was broken at the start. ',
      'These are the last good rules.'),
    d.unusable.length > 0 && section('Cannot be used', null, h('ul', {}, d.unusable.map((one) => h('li', {},
      `${one.kind} ${one.name} (vhost ${one.vhost}): `, linkPlaces(ctx, one.reason))))),
    failing.length > 0 && section('Errors', null, h('ul', { 'data-part': 'errors' }, failing.map((script) => h('li', {},
      linkPlaces(ctx, script.last_error), h('span', { class: 'dim' }, ` ${ago(script.last_error_ms)}, one of `,
        number(script.errors)))))),
  ];
}

function schedulesTable(ctx, schedules) {
  return plainTable('schedules', [{ text: 'Schedule' }, { text: 'When' }, { text: 'Vhost' },
    { text: 'Next', class: 'time' }, { text: 'Last', class: 'time' }, { text: 'Result' },
    ...['Runs', 'Failures', 'Messages'].map((text) => ({ text, numeric: true }))],
  schedules.map((s) => [placeLink(ctx, { file: s.file }), s.when, s.vhost, s.active ? time(s.next_ms) : 'not active',
    s.active ? time(s.last_ms) : '', s.result ?? '', ...[s.runs, s.failures, s.messages].map((n) => n && number(n))]));
}

function countersOf(d) {
  const entries = Object.entries(d.counters);
  return entries.length > 0 && section('Counters', null, facts(entries.map(([name, n]) => [name, number(n)])));
}

async function render(ctx) {
  const parts = { head: h('div', {}), problems: h('div', {}), counters: h('div', {}), schedules: h('div', {}) };
  const shown = {};
  const total = { us: 0 };
  // What has not changed stays as it is: somebody may be reading it.
  const show = (name, data, make) => {
    const now = JSON.stringify(data);
    if (shown[name] !== now) fill(parts[name], make());
    shown[name] = now;
  };
  const list = table(ctx, {
    name: 'scripts', sort: 'time_us', order: 'desc', search: 'part of a file', empty: 'There are no scripts.',
    columns: scriptColumns(ctx, total), id: (x) => x.file,
    load: async (page) => {
      const d = await api.get('/api/rules', {}, { signal: ctx.signal });
      total.us = d.scripts.reduce((sum, script) => sum + script.time_us, 0);
      fill(parts.head, factsOf(ctx, d));
      show('problems', [d.refusal, d.origin, d.unusable, d.scripts.map((x) => [x.last_error, x.errors])],
        () => problems(ctx, d));
      show('counters', d.counters, () => countersOf(d));
      show('schedules', d.schedules, () => (d.schedules.length
        ? section('Schedules', null, schedulesTable(ctx, d.schedules)) : null));
      return pageOf(d.scripts, page, (script) => `${script.file} ${script.doc ?? ''}`);
    },
  });
  const reload = () => confirm({
    title: 'Load the rules directory now?', verb: 'Load', danger: false,
    text: 'If the scripts load, they decide from then on. If not, the active rules stay.',
    submit: () => api.post('/api/rules/reload'),
  }).then((done) => done && attempt(list.refresh, 'The rules are loaded.'));
  await list.refresh();
  ctx.every(REFRESH_MS, list.refresh);
  return h('div', {},
    h('div', { class: 'view-head' }, h('h1', {}, 'Rules'), h('div', { class: 'tools' },
      ctx.can('admin') ? button('Load now', reload) : null)),
    rulesTabs(ctx, ''), parts.problems, section('Active rules', null, parts.head), section('Scripts', null, list.node),
    parts.schedules, parts.counters);
}

export const rulesViews = [
  { path: 'rules', title: 'Rules', nav: { text: 'Rules', key: 'l' }, render },
  ...generationViews, candidateView, ...replayViews, sourceView,
];
