// Bindings as a picture of who gets what.
import { graph } from './graph.js';
import { count } from './format.js';

// The texts of all bindings between two things; the rest is counted.
const TEXTS = 4;

export function destinationKind(binding) {
  return binding.to === 'exchange' ? 'exchange' : binding.to;
}

function idOf(kind, name) {
  return `${kind}:${name}`;
}

export function patternText(binding) {
  const options = Object.entries(binding.options ?? {}).map(([name, value]) => `${name}=${value}`);
  const pattern = binding.pattern === '' || binding.pattern === '-' ? '' : binding.pattern;
  return [pattern, ...options].filter(Boolean).join(' ') || '(all)';
}

function joinTexts(bindings) {
  const texts = bindings.slice(0, TEXTS).map(patternText);
  if (bindings.length > TEXTS) texts.push(`+ ${bindings.length - TEXTS} more`);
  return texts;
}

// Where a box leads.
export function hrefOf(ctx, kind, name) {
  const views = { exchange: 'exchanges', queue: 'queues', topic: 'topics' };
  return ctx.href([views[kind], name]);
}

// `bindings` of exchanges, with the exchanges that are known (for their types and alternates). `here`: the exchange
// that the picture is about. `more`: { [exchange]: how many of its bindings are left out }.
export function bindingPicture(ctx, { bindings, exchanges = [], here, more = {}, label }) {
  const known = new Map(exchanges.map((exchange) => [exchange.name, exchange]));
  const nodes = new Map();
  const add = (kind, name) => {
    const id = idOf(kind, name);
    if (nodes.has(id)) return id;
    const exchange = kind === 'exchange' ? known.get(name) : undefined;
    const lines = exchange ? [exchange.type] : [];
    if (exchange?.unusable) lines.push('cannot be used');
    nodes.set(id, { id, kind, title: name, lines, href: hrefOf(ctx, kind, name),
      tone: kind === 'exchange' && name === here ? 'here' : exchange?.unusable ? 'bad' : '' });
    return id;
  };
  if (here !== undefined) add('exchange', here);
  const pairs = new Map();
  for (const binding of bindings) {
    const from = add('exchange', binding.exchange);
    const to = add(destinationKind(binding), binding.destination);
    const key = JSON.stringify([from, to]);
    if (!pairs.has(key)) pairs.set(key, { from, to, bindings: [] });
    pairs.get(key).bindings.push(binding);
  }
  const edges = [...pairs.values()].map(({ from, to, bindings: list }) => ({ from, to, texts: joinTexts(list),
    title: list.slice(0, 50).map(patternText).join('\n') }));
  for (const exchange of exchanges) {
    const alternate = exchange.options?.alternate;
    if (!alternate || !nodes.has(idOf('exchange', exchange.name))) continue;
    edges.push({ from: idOf('exchange', exchange.name), to: add('exchange', alternate), texts: ['otherwise'],
      tone: 'dashed' });
  }
  for (const [name, n] of Object.entries(more)) {
    if (n <= 0) continue;
    nodes.set(`more:${name}`, { id: `more:${name}`, kind: 'more', title: `${count(n, 'binding')} more`, lines: [],
      href: name === here ? undefined : hrefOf(ctx, 'exchange', name), tone: 'dim' });
    edges.push({ from: idOf('exchange', name), to: `more:${name}`, texts: [], tone: 'dashed' });
  }
  return graph({ label, nodes: [...nodes.values()], edges });
}
