// EXPLAIN step by step, in words.
import { h, facts } from './dom.js';
import { count, number, duration, time, destinations } from './format.js';
import { plainTable } from './table.js';
import { placeLink, linkPlaces } from './source.js';
import { hrefOf, patternText } from './picture.js';

function us(n) {
  return `${n} µs`;
}

function change(c) {
  const name = c.field === 'header' ? `header ${c.name}` : c.field;
  if (c.from_bytes !== undefined) {
    return h('li', {}, `${name}: ${number(c.from_bytes)} → ${number(c.to_bytes)} bytes`);
  }
  return h('li', {}, `${name}: `, c.from === null || c.from === undefined ? null : h('del', {}, c.from), ' ',
    c.to === null || c.to === undefined ? h('span', { class: 'dim' }, 'removed') : h('ins', {}, c.to));
}

function message(asked) {
  const { body } = asked;
  return h('li', {}, h('h3', {}, 'The message'), facts([
    ['exchange', asked.exchange], ['key', body.key || '(empty)'], ['priority', body.priority],
    ['delay', body.delay], ['time to live', body.ttl], ['publish id', body.id],
    ['headers', Object.entries(body.headers).map(([name, value]) => `${name}: ${value}`).join(', ')],
    ['payload', body.payload === undefined ? null : count(new TextEncoder().encode(body.payload).length, 'byte')],
  ]));
}

function filterStep(ctx, f) {
  return h('li', { class: f.rejected === undefined ? null : 'bad' },
    h('h3', {}, 'Filter ', placeLink(ctx, { file: f.script, line: f.line, lines: f.lines })),
    h('p', { class: 'dim' }, `matches exchange ${f.match_exchange}, key ${f.match_key} · ${us(f.us)}`),
    f.rejected === undefined ? null : h('p', { class: 'bad' }, `rejected: ${f.rejected}`),
    f.changes.length ? h('ul', { class: 'changes' }, f.changes.map(change))
      : h('p', { class: 'dim' }, f.rejected === undefined ? 'lets it pass unchanged' : null),
    f.copies ? h('p', {}, f.copies === 1 ? 'makes one copy' : `makes ${f.copies} copies`) : null);
}

function patternRow(ctx, p) {
  const kind = p.queue === undefined ? 'exchange' : 'queue';
  return [patternText(p), [h('a', { href: hrefOf(ctx, kind, p[kind]) }, p[kind]), kind === 'exchange' ? ' (an exchange)' : '']];
}

function exchangeStep(ctx, x) {
  return h('li', { class: x.matched === 0 ? 'warn' : null },
    h('h3', {}, 'Exchange ', h('a', { href: hrefOf(ctx, 'exchange', x.exchange) }, x.exchange)),
    h('p', { class: 'dim' }, `${x.type}, by `, placeLink(ctx, { file: x.script, line: x.line, lines: x.lines }),
      x.alternate_of ? `, as the alternate of ${x.alternate_of}` : ''),
    h('p', {}, x.matched === 0 ? `No binding matches, of ${number(x.bindings)}.`
      : `Bindings that match: ${number(x.matched)} of ${number(x.bindings)}`),
    x.patterns.length ? plainTable('patterns', [{ text: 'Pattern', class: 'mono' }, { text: 'Leads to' }],
      x.patterns.map((p) => patternRow(ctx, p))) : null,
    x.matched > x.patterns.length
      ? h('p', { class: 'dim' }, `… and ${number(x.matched - x.patterns.length)} more`) : null);
}

function script(ctx, file, line) {
  return file ? placeLink(ctx, { file, line }) : null;
}

function remembered(is) {
  return is ? h('span', { class: 'badge', title: 'no script was asked' }, 'remembered') : null;
}

function queueRow(ctx, q) {
  const isTopic = q.partition !== undefined;
  return [
    [h('a', { href: hrefOf(ctx, isTopic ? 'topic' : 'queue', q.queue) }, q.queue),
      q.durable ? null : h('span', { class: 'badge' }, 'in memory')],
    q.exchange ? `${q.exchange}: ${q.binding || '(all)'}` : 'its name',
    [isTopic ? `partition ${q.partition} ` : `${q.shard} `, script(ctx, q.sharding, q.sharding_line), ' ',
      remembered(q.shard_cached ?? q.partition_cached)],
    isTopic ? '–' : [`${q.rank} `, script(ctx, q.priority, q.priority_line), ' ',
      remembered(q.rank_cached), q.unranked ? h('span', { class: 'badge bad' }, 'the script failed') : null],
    [isTopic ? 'appended' : q.state, q.dedupe ? ` · id ${q.dedupe}` : '',
      q.refused ? h('span', { class: 'bad' }, ` refused: ${q.refused}`) : null],
    script(ctx, q.retry)];
}

function queueStep(ctx, o) {
  if (o.queues.length === 0) {
    return h('li', { class: 'warn' }, h('h3', {}, 'No queue'),
      h('p', {}, 'No queue takes it. A publish with `must` is refused.'));
  }
  const columns = [{ text: 'Name' }, { text: 'By', class: 'mono' },
    ...['Shard', 'Rank', 'State', 'After a failure'].map((text) => ({ text }))];
  return h('li', {}, h('h3', {}, `To ${destinations(o.queues)}`),
    plainTable('explained queues', columns, o.queues.slice(0, 200).map((q) => queueRow(ctx, q))));
}

// The message as the filters left it.
function outcome(o) {
  return h('li', {}, h('h3', {}, 'After the filters'), facts([
    ['exchange', o.exchange], ['key', o.key || '(empty)'], ['priority', number(o.priority)],
    ['delay', o.delay === undefined ? null : duration(o.delay)], ['due', o.due && time(o.due)],
    ['time to live', o.ttl === undefined ? null : duration(o.ttl)],
    ['user', o.user],
    ['headers', Object.entries(o.headers ?? {}).map(([name, value]) => `${name}: ${value}`).join(', ')],
  ]));
}

function route(ctx, o) {
  return [(o.exchanges ?? []).map((x) => exchangeStep(ctx, x)), queueStep(ctx, o)];
}

function copySteps(ctx, d, n) {
  const copy = (d.copies ?? []).find((one) => one.copy === n);
  return [h('h3', {}, `Copy ${n}`, copy ? [', made by ', placeLink(ctx, { file: copy.by })] : ''),
    h('ol', { class: 'steps' }, copy ? outcome(copy) : null,
      d.filters.filter((f) => f.copy === n).map((f) => filterStep(ctx, f)), copy ? route(ctx, copy) : null)];
}

function costs(d) {
  return d.scripts.length === 0 ? null : h('p', { class: 'dim' }, 'Scripts: ', d.scripts.map((one) =>
    `${one.script} ${one.calls === 1 ? 'once' : `${one.calls} times`}, ${us(one.us)}`).join(' · '));
}

// `asked`: { exchange, body } as it was sent; `d`: the document of EXPLAIN.
export function explainSteps(ctx, asked, d) {
  const own = d.filters.filter((f) => f.copy === undefined);
  const copies = new Set([...(d.copies ?? []).map((one) => one.copy), ...d.filters.map((f) => f.copy).filter(Boolean)]);
  const isRouted = d.rejected === undefined && d.type !== undefined;
  const failure = d.error ?? d.denied;
  return [
    h('ol', { class: 'steps' }, message(asked), own.map((f) => filterStep(ctx, f)),
      own.some((f) => f.changes.length) && isRouted ? outcome(d) : null, isRouted ? route(ctx, d) : null,
      failure ? h('li', { class: 'bad' }, h('h3', {}, d.error ? 'Failure' : 'Denied'),
        h('p', {}, linkPlaces(ctx, failure))) : null),
    d.unread ? h('p', { class: 'warn' }, `The payload was not read whole: ${d.unread}.`) : null,
    (d.unranked ?? []).map((one) => h('p', { class: 'warn' }, `Queue ${one.queue} has no rank for it: `,
      linkPlaces(ctx, one.error))),
    [...copies].map((n) => copySteps(ctx, d, n)), costs(d)];
}
