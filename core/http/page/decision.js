// Two decisions about the same message, side by side, with what differs marked.
import { h } from './dom.js';
import { count, number, time, queuesAndTopics } from './format.js';
import { placeLink, linkPlaces } from './source.js';
import { testHref } from './tester.js';

function queueText(q) {
  return q.partition === undefined ? `${q.queue}, shard ${q.shard}, rank ${q.rank}`
    : `${q.queue}, partition ${q.partition}`;
}

function mark(differs, text) {
  return differs ? h('span', { class: 'differs' }, text) : text;
}

// Of a message that failed: what the retry script does with it.
function retryText(d) {
  return d.delay_ms === undefined ? d.action : `${d.action} after ${number(d.delay_ms)} ms`;
}

// Of a hook: what it answered, a line for each fact.
function answerLines(d) {
  return Object.entries(d).flatMap(([name, v]) => (v !== null && typeof v === 'object'
    ? Object.entries(v).map(([inner, text]) => `${inner}: ${text}`) : [`${name}: ${v}`]));
}

function side(ctx, title, d, other) {
  if (d.action) {
    const isOther = retryText(d) !== (other.action && retryText(other));
    return h('div', {}, h('h4', {}, title), mark(isOther, retryText(d)));
  }
  if (d.error || d.code) {
    const text = `${d.code ?? 'error'}: ${d.error ?? ''}`;
    return h('div', {}, h('h4', {}, title), h('p', { class: 'bad' }, mark(d.error !== other.error, h('span', {},
      linkPlaces(ctx, text)))));
  }
  if (!d.queues) {
    const theirs = answerLines(other);
    return h('div', {}, h('h4', {}, title), h('ul', {},
      answerLines(d).map((text) => h('li', {}, mark(!theirs.includes(text), linkPlaces(ctx, text))))));
  }
  // Copies may bring a queue the same message twice: each of the others stands for one.
  const theirs = (other.queues ?? []).map(queueText);
  const isTheirs = (text) => {
    const at = theirs.indexOf(text);
    if (at >= 0) theirs.splice(at, 1);
    return at >= 0;
  };
  return h('div', {}, h('h4', {}, title),
    d.count === 0 ? h('p', { class: 'warn' }, mark(other.count !== 0, 'no queue')) : null,
    h('ul', {}, (d.queues ?? []).map(queueText).map((text) => h('li', {}, mark(!isTheirs(text), text)))),
    d.count > (d.queues ?? []).length ? h('p', { class: 'dim' }, `${queuesAndTopics(d.count)} in all`) : null);
}

function value(v, size) {
  if (size !== undefined) return count(size, 'byte');
  return v === null || v === undefined ? '(none)' : String(v);
}

function messageSide(title, changes, name) {
  return h('div', {}, h('h4', {}, `${title}: what scripts wrote`), h('ul', {}, changes.map((c) => h('li', {},
    `${c.copy ? `copy ${c.copy}, ` : ''}${c.name ?? c.field}: `, mark(true, value(c[name], c[`${name}_bytes`]))))));
}

function headersText(publish) {
  return Object.entries(publish.headers ?? {}).map(([name, text]) => `${name}: ${text}`).join(', ');
}

// In which queue the message is, and what happened there.
function whereText({ queue, reason, attempts, event, consumer }) {
  if (reason) return `failed in queue ${queue}: ${reason}, attempt ${attempts}`;
  if (event) return `settled in queue ${queue}: ${event}`;
  return consumer ? `from queue ${queue} for ${consumer}` : `from queue ${queue}`;
}

// What a hook was asked about, where that is no message.
function subjectHead(one) {
  const { kind, name, vhost, user, address, protocol } = one;
  return h('div', { class: 'difference-head' }, h('b', {}, kind ? `${kind} ${name}` : `user ${user || '(none)'}`),
    vhost === '/' ? null : h('span', { class: 'dim' }, `vhost ${vhost}`),
    address && h('span', { class: 'dim' }, `${address}${protocol ? ` by ${protocol}` : ''}`));
}

// Which publish it is, with a link to the route tester.
export function publishHead(ctx, publish) {
  if (publish.published_ms === undefined) return subjectHead(publish);
  const isShown = publish.key !== undefined; // what is another vhost's is not
  return h('div', { class: 'difference-head' },
    h('b', {}, `${publish.exchange || '-'} / ${isShown ? publish.key : '…'}`),
    h('span', { class: 'dim' }, time(publish.published_ms), publish.vhost === '/' ? null : `, vhost ${publish.vhost}`),
    publish.headers && h('span', { class: 'dim' }, headersText(publish)),
    publish.queue && h('span', {}, whereText(publish)),
    (publish.differs ?? []).map((what) => h('span', { class: 'badge warn' }, what)),
    isShown && h('a', { href: testHref(ctx, publish) }, 'Test it'));
}

// `names`: the members of both decisions, and their titles: [['live', 'Active rules'], ['shadow', 'Candidate rules']].
export function differenceOf(ctx, publish, names) {
  const [[left, leftTitle], [right, rightTitle]] = names;
  return h('div', { class: 'difference' }, publishHead(ctx, publish),
    h('div', { class: 'sides' }, side(ctx, leftTitle, publish[left], publish[right]),
      side(ctx, rightTitle, publish[right], publish[left])),
    publish.changes?.length ? h('div', { class: 'sides' }, messageSide(leftTitle, publish.changes, left),
      messageSide(rightTitle, publish.changes, right)) : null);
}

// What `tidemq check` has found, each with a link to its place in the files of `hash`.
export function findingsList(ctx, findings, openPlace) {
  return h('ul', { 'data-part': 'findings' }, findings.map((f) => h('li', { class: f.note ? 'dim' : 'bad' },
    f.file ? [openPlace ? h('a', { class: 'place', href: '#', onclick: (event) => {
      event.preventDefault();
      openPlace(f);
    } }, f.line ? `${f.file}:${f.line}` : f.file)
      : placeLink(ctx, { file: f.file, line: f.line, wrong: true }), ' '] : null,
    f.note ? 'note: ' : '', f.text)));
}
