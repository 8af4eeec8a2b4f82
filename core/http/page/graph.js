// A picture of what leads where, as SVG: boxes in columns from left to right, joined by curves with texts.
//
//   graph({
//     label: 'who gets what',                        for screen readers
//     nodes: [{ id: 'x:orders', kind: 'exchange', title: 'orders', lines: ['topic'], href: '#/…', tone: '' }, …],
//     edges: [{ from: 'x:orders', to: 'q:eu', texts: ['orders.eu.#'], tone: 'dim', title: 'options' }, …],
//   }) -> node
//
// Kinds give the colour: message, filter, exchange, queue, topic, more. Tones: here, good, bad, dim. Queues and topics
// stand in the last column. Edges may form circles.
import { h, s } from './dom.js';

const CHAR = 7; // px that a character takes, about
const LINE = 17;
const PORT = 17; // between the ends of edges at a box
const MARGIN = 12;
const ROW_GAP = 14;
const TITLE_MAX = 30;
const TEXT_MAX = 34;
const SWEEPS = 4;
const SHRINK = 0.7;

export function cut(text, max) {
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}

function isLast(node) {
  return node.kind === 'queue' || node.kind === 'topic';
}

// The longest way from where edges begin; an edge back to what is on the way does not count.
function findColumns(nodes, out) {
  const column = new Map();
  const onWay = new Set();
  const walk = (id, depth) => {
    if (onWay.has(id) || (column.get(id) ?? -1) >= depth) return;
    column.set(id, depth);
    onWay.add(id);
    for (const edge of out.get(id) ?? []) walk(edge.to, depth + 1);
    onWay.delete(id);
  };
  const reached = new Set([...out.values()].flat().map((edge) => edge.to));
  for (const node of nodes) if (!reached.has(node.id)) walk(node.id, 0);
  // Of a circle that nothing leads into, the first is the beginning.
  for (const node of nodes) if (!column.has(node.id)) walk(node.id, 0);
  const last = Math.max(0, ...nodes.map((node) => column.get(node.id)));
  for (const node of nodes) if (isLast(node) && last > 0) column.set(node.id, last);
  return column;
}

// An edge that passes over columns goes by a way point in each of them, which keeps it from running behind boxes.
// Gives the links from column to column, and the way points.
function split(edges, column) {
  const links = [];
  const points = [];
  edges.forEach((edge, number) => {
    let from = edge.from;
    for (let at = column.get(edge.from) + 1; at < column.get(edge.to); at++) {
      const point = { id: `way:${number}:${at}`, kind: 'way', title: '', lines: [] };
      column.set(point.id, at);
      points.push(point);
      links.push({ edge, from, to: point.id, texts: [] });
      from = point.id;
    }
    links.push({ edge, from, to: edge.to, texts: edge.texts });
  });
  return { links, points };
}

function groupBy(list, key) {
  const groups = new Map();
  for (const item of list) {
    if (!groups.has(item[key])) groups.set(item[key], []);
    groups.get(item[key]).push(item);
  }
  return groups;
}

// Boxes stand near what they are joined with, so that few edges cross.
function order(columns, edges) {
  const place = new Map();
  const number = () => columns.forEach((column) => column.forEach((box, i) => place.set(box.id, i)));
  const mean = (box, end, other) => {
    const ends = edges.filter((edge) => edge[end] === box.id && edge[other] !== box.id);
    return ends.length ? ends.reduce((sum, edge) => sum + place.get(edge[other]), 0) / ends.length : place.get(box.id);
  };
  number();
  if (edges.length > 400) return; // it is a heap anyhow
  for (let i = 0; i < SWEEPS; i++) {
    for (const column of columns) {
      const [end, other] = i % 2 === 0 ? ['to', 'from'] : ['from', 'to'];
      const means = new Map(column.map((box) => [box, mean(box, end, other)]));
      column.sort((a, b) => means.get(a) - means.get(b));
      number();
    }
  }
}

function measure(node, incoming, outgoing) {
  if (node.kind === 'way') return { ...node, incoming, outgoing, width: 0, height: 2 };
  const lines = node.lines ?? [];
  const texts = [cut(node.title, TITLE_MAX), ...lines.map((line) => cut(line, TEXT_MAX))];
  const rows = incoming.reduce((sum, edge) => sum + Math.max(1, edge.texts.length), 0);
  return { ...node, lines, incoming, outgoing,
    width: Math.max(84, ...texts.map((text, i) => text.length * (i ? CHAR - 0.7 : CHAR + 0.6))) + 26,
    height: Math.max(12 + LINE * (1 + lines.length), rows * PORT + 8) };
}

// Give each box its place, and say how large the picture is.
function place(nodes, edges) {
  const column = findColumns(nodes, groupBy(edges, 'from'));
  const { links, points } = split(edges, column);
  const into = groupBy(links, 'to');
  const out = groupBy(links, 'from');
  const boxes = [...nodes, ...points].map((node) => measure(node, into.get(node.id) ?? [], out.get(node.id) ?? []));
  const columns = [];
  for (const box of boxes) (columns[column.get(box.id)] ??= []).push(box);
  const used = columns.filter(Boolean);
  order(used, links);
  let x = MARGIN;
  let height = 0;
  for (const list of used) {
    const texts = list.flatMap((box) => box.incoming.flatMap((edge) => edge.texts));
    if (list !== used[0]) x += 56 + Math.max(0, ...texts.map((text) => cut(text, TEXT_MAX).length)) * (CHAR - 0.7);
    list.total = list.reduce((sum, box) => sum + box.height + ROW_GAP, -ROW_GAP);
    height = Math.max(height, list.total);
    list.x = x;
    list.width = Math.max(...list.map((box) => box.width));
    x += list.width;
  }
  for (const list of used) {
    let y = MARGIN + (height - list.total) / 2;
    for (const box of list) {
      Object.assign(box, { x: list.x, y, width: list.width });
      y += box.height + ROW_GAP;
    }
  }
  return { links, boxes: new Map(boxes.map((box) => [box.id, box])), width: x + MARGIN, height: height + 2 * MARGIN };
}

// The ends of links at a box, from the top down as their other ends lie.
function findPorts(boxes) {
  const ports = new Map();
  for (const box of boxes.values()) {
    const middle = (id) => boxes.get(id).y + boxes.get(id).height / 2;
    box.incoming.sort((a, b) => middle(a.from) - middle(b.from));
    box.outgoing.sort((a, b) => middle(a.to) - middle(b.to));
    const rows = box.incoming.map((edge) => Math.max(1, edge.texts.length));
    let y = box.y + (box.height - rows.reduce((sum, n) => sum + n, 0) * PORT) / 2;
    box.incoming.forEach((link, i) => {
      y += rows[i] * PORT;
      ports.set(link, { to: box.kind === 'way' ? box.y : y - 3 });
    });
  }
  for (const box of boxes.values()) {
    const step = Math.min(PORT, (box.height - 8) / Math.max(1, box.outgoing.length));
    box.outgoing.forEach((link, i) => {
      ports.get(link).from = box.y + box.height / 2 + (i - (box.outgoing.length - 1) / 2) * step;
    });
  }
  return ports;
}

function linkPath(link, boxes, port) {
  const from = boxes.get(link.from);
  const [x1, x2] = [from.x + from.width, boxes.get(link.to).x];
  const bend = x2 > x1 ? Math.max(24, (x2 - x1) / 2) : 60;
  return `L${x1} ${port.from}C${x1 + bend} ${port.from} ${x2 - bend} ${port.to} ${x2} ${port.to}`;
}

function drawEdge(edge, links, boxes, ports) {
  const [from, to] = [boxes.get(edge.from), boxes.get(edge.to)];
  const [x, y] = [to.x, ports.get(links[links.length - 1]).to];
  const path = links.map((link) => linkPath(link, boxes, ports.get(link))).join('').replace('L', 'M');
  const texts = edge.texts.map((text, i) => s('text', { class: 'edge-text', x: x - 10,
    y: y - 4 - (edge.texts.length - 1 - i) * PORT, 'text-anchor': 'end' }, cut(text, TEXT_MAX)));
  return s('g', { class: `edge ${edge.tone ?? ''}`, 'data-from': edge.from, 'data-to': edge.to },
    s('title', {}, edge.title ?? `${from.title} → ${to.title}: ${edge.texts.join(', ')}`),
    s('path', { d: path }), s('path', { class: 'tip', d: `M${x} ${y}l-7 -3.5v7z` }), texts);
}

function drawBox(box) {
  const parts = [
    s('title', {}, [box.title, ...box.lines].join('\n')),
    s('rect', { x: box.x, y: box.y, width: box.width, height: box.height, rx: 6 }),
    s('path', { class: 'stripe', d: `M${box.x + 3} ${box.y + 6}v${box.height - 12}` }),
    s('text', { class: 'box-title', x: box.x + 13, y: box.y + 19 }, cut(box.title, TITLE_MAX)),
    box.lines.map((line, i) => s('text', { class: 'box-line', x: box.x + 13, y: box.y + 19 + LINE * (i + 1) },
      cut(line, TEXT_MAX))),
  ];
  const attributes = { class: `box ${box.kind} ${box.tone ?? ''}`, 'data-id': box.id };
  return box.href ? s('a', { ...attributes, href: box.href, 'aria-label': `${box.kind} ${box.title}` }, parts)
    : s('g', attributes, parts);
}

export function graph({ label, nodes, edges }) {
  const known = new Set(nodes.map((node) => node.id));
  const good = edges.filter((edge) => known.has(edge.from) && known.has(edge.to));
  const { links, boxes, width, height } = place(nodes, good);
  const ports = findPorts(boxes);
  const linksOf = groupBy(links, 'edge');
  const svg = s('svg', { class: 'graph', viewBox: `0 0 ${width} ${height}`, role: 'group',
    'aria-label': label },
  good.map((edge) => drawEdge(edge, linksOf.get(edge), boxes, ports)),
  [...boxes.values()].filter((box) => box.kind !== 'way').map(drawBox));
  // It shrinks to fit, as long as it can be read; then it is scrolled.
  svg.style.maxWidth = `${width}px`;
  svg.style.minWidth = `${Math.round(width * SHRINK)}px`;
  return h('div', { class: 'graph-box', tabindex: 0, role: 'region', 'aria-label': label }, svg);
}
