// EXPLAIN as a picture: from the message by filters and exchanges to the queues, each with the script and line that
// decided.
import { graph } from './graph.js';
import { count, number, destinations } from './format.js';
import { hrefOf, patternText } from './picture.js';
import { sourceHref } from './source.js';

const QUEUES = 60; // in a picture
const TEXTS = 4;

function base(file) {
  return file.replace(/^.*\//, '').replace(/\.lua$/, '');
}

function placeText(file, line) {
  return line ? `${file}:${line}` : file;
}

export function changeText(change) {
  const name = change.name ?? change.field;
  if (change.from_bytes !== undefined) return `${name}: ${change.from_bytes} → ${change.to_bytes} bytes`;
  return `${name}: ${change.from ?? '(none)'} → ${change.to ?? '(none)'}`;
}

class Picture {
  constructor(ctx, asked, d) {
    this.ctx = ctx;
    this.d = d;
    this.nodes = new Map();
    this.edges = [];
    this.add({ id: 'message', kind: 'message', title: 'the message', lines: [`to ${asked.exchange || '-'}`,
      `key ${asked.key || '(empty)'}`] });
  }

  add(node) {
    if (!this.nodes.has(node.id)) this.nodes.set(node.id, node);
    return node.id;
  }

  join(from, to, texts = [], tone = '') {
    const known = this.edges.find((edge) => edge.from === from && edge.to === to);
    if (!known) this.edges.push({ from, to, texts, tone });
    else if (known.texts.length < TEXTS) known.texts.push(...texts);
  }

  // The filters that a message, or its n-th copy, passes. Gives where it comes out; null: nowhere.
  addFilters(from, copy) {
    let at = from;
    this.d.filters.forEach((filter, i) => {
      if (filter.copy !== copy || at === null) return;
      const lines = [placeText(filter.script, filter.line), ...filter.changes.slice(0, 4).map(changeText)];
      if (filter.changes.length > 4) lines.push(`+ ${count(filter.changes.length - 4, 'change')}`);
      if (filter.copies) lines.push(filter.copies === 1 ? 'makes one copy' : `makes ${filter.copies} copies`);
      if (filter.rejected !== undefined) lines.push(`rejected: ${filter.rejected}`);
      const id = this.add({ id: `filter:${i}`, kind: 'filter', title: base(filter.script), lines,
        tone: filter.rejected === undefined ? '' : 'bad',
        href: sourceHref(this.ctx, { file: filter.script, line: filter.line, lines: filter.lines }) });
      this.join(at, id);
      at = filter.rejected === undefined ? id : null;
    });
    return at;
  }

  addExchange(x, n, from) {
    const id = `x:${n}:${x.exchange}`;
    const isAlternate = x.alternate_of !== undefined;
    this.add({ id, kind: 'exchange', title: x.exchange, tone: x.matched === 0 ? 'warn' : '',
      lines: [placeText(x.script, x.line),
        `${number(x.matched)} of ${number(x.bindings)} binding${x.bindings === 1 ? '' : 's'}`],
      href: hrefOf(this.ctx, 'exchange', x.exchange) });
    if (isAlternate) this.join(`x:${n}:${x.alternate_of}`, id, ['otherwise'], 'dashed');
    else if (from) this.join(from, id);
    return id;
  }

  addQueue(q, n) {
    const isTopic = q.partition !== undefined;
    const where = isTopic ? `partition ${q.partition}` : `shard ${q.shard}`;
    const lines = [`${where} · ${placeText(q.sharding, q.sharding_line)}`];
    if (!isTopic) lines.push(`rank ${q.rank} · ${placeText(q.priority, q.priority_line)}`);
    if (q.state === 'delayed') lines.push('delayed');
    if (q.dedupe === 'duplicate') lines.push('a duplicate: not stored again');
    if (q.refused) lines.push(`refused: ${q.refused}`);
    return this.add({ id: `q:${n}:${q.queue}`, kind: isTopic ? 'topic' : 'queue', title: q.queue, lines,
      tone: q.refused ? 'bad' : '', href: hrefOf(this.ctx, isTopic ? 'topic' : 'queue', q.queue) });
  }

  // Exchanges and queues of the message (n = 0), or of a copy.
  addRoute(o, n, from) {
    const exchanges = o.exchanges ?? [];
    const shown = o.queues.slice(0, QUEUES);
    exchanges.forEach((x, i) => this.addExchange(x, n, i === 0 ? from : null));
    shown.forEach((q) => this.addQueue(q, n));
    for (const x of exchanges) {
      const id = `x:${n}:${x.exchange}`;
      for (const p of x.patterns) {
        const to = p.queue !== undefined ? `q:${n}:${p.queue}` : `x:${n}:${p.exchange}`;
        if (this.nodes.has(to)) this.join(id, to, [patternText(p)]);
      }
    }
    // Patterns are told for the first bindings; the others are known by their queues.
    for (const q of shown) {
      const to = `q:${n}:${q.queue}`;
      if (this.edges.some((edge) => edge.to === to)) continue;
      this.join(q.exchange ? `x:${n}:${q.exchange}` : from, to, q.binding ? [q.binding] : ['by its name']);
    }
    const last = exchanges.length ? `x:${n}:${exchanges[exchanges.length - 1].exchange}` : from;
    if (o.queues.length > QUEUES) {
      this.join(last, this.add({ id: `more:${n}`, kind: 'more', lines: [], tone: 'dim',
        title: `${destinations(o.queues.slice(QUEUES))} more` }));
    }
    if (o.queues.length === 0 && !this.d.error && !this.d.denied) {
      this.join(last, this.add({ id: `nowhere:${n}`, kind: 'more', lines: [], tone: 'warn',
        title: 'no queue takes it' }));
    }
  }

  addCopy(n) {
    const copy = (this.d.copies ?? []).find((one) => one.copy === n);
    const id = this.add({ id: `copy:${n}`, kind: 'copy', title: `copy ${n}`,
      lines: copy ? [`to ${copy.exchange}`, `key ${copy.key}`] : [] });
    const maker = this.d.filters.findIndex((filter) => filter.copies > 0 && (!copy || filter.script === copy.by));
    this.join(maker < 0 ? 'message' : `filter:${maker}`, id, [], 'dashed');
    const at = this.addFilters(id, n);
    if (copy && at !== null) this.addRoute(copy, n, at);
  }

  draw() {
    const at = this.addFilters('message', undefined);
    if (at !== null) this.addRoute(this.d, 0, at);
    const numbers = [...(this.d.copies ?? []).map((one) => one.copy), ...this.d.filters.map((filter) => filter.copy)];
    for (const n of new Set(numbers.filter(Boolean))) this.addCopy(n);
    return graph({ label: 'the way of the message', nodes: [...this.nodes.values()], edges: this.edges });
  }
}

// `asked`: { exchange, key } as they were typed; `d`: the document of EXPLAIN.
export function explainPicture(ctx, asked, d) {
  return new Picture(ctx, asked, d).draw();
}

// What comes of it, in a sentence: { tone, text, note }.
export function verdict(d) {
  if (d.denied) return { tone: 'bad', text: `Denied: ${d.denied}` };
  if (d.rejected) return { tone: 'bad', text: `Rejected: ${d.rejected}` };
  if (d.error) return { tone: 'bad', text: `It fails: ${d.error}` };
  const refused = d.queues.find((q) => q.refused);
  if (refused) {
    return { tone: 'bad', text: `${refused.partition === undefined ? 'Queue' : 'Topic'} ${refused.queue} refuses it, so no queue gets it: ${refused.refused}` };
  }
  const made = d.copies?.length ?? 0;
  const copies = made === 0 ? '' : made === 1 ? ', and one copy' : `, and ${made} copies`;
  if (d.queues.length === 0) {
    return { tone: 'warn', text: `Unroutable: no queue takes it${made ? `; copies of filters: ${made}` : ''}` };
  }
  const names = [...new Set(d.queues.map((q) => q.queue))];
  const rest = names.length > 5 ? ', …' : '';
  return { tone: 'good', text: `Goes to ${destinations(d.queues)}: ${names.slice(0, 5).join(', ')}${rest}${copies}` };
}

export function decisionNote(d) {
  const parts = [`generation ${d.generation} of the rules`];
  if (d.cached) parts.push('remembered: the route was not decided anew');
  else if (d.pure) parts.push('decided now; it depends on the key alone, so a publish of this key is remembered');
  else if (d.pure === false) parts.push('decided for each message');
  return parts.join(' · ');
}
