// Sources of scripts, with line numbers: as a view, in a dialog, and as links to a file and line.
import { h, fill, section, facts } from './dom.js';
import { api } from './api.js';
import { show } from './dialog.js';
import { tellError } from './toast.js';
import { rulesTabs } from './rules_tabs.js';

const generations = new Map(); // hash -> promise of { hash, files, shipped }; they never change
const KEPT = 12;

// The files of a generation; without a hash of the active one.
export async function loadFiles(hash, options) {
  const wanted = hash || (await api.get('/api/rules', {}, options)).hash;
  if (!generations.has(wanted)) {
    const answer = api.get(`/api/rules/generations/${encodeURIComponent(wanted)}`)
      .then(({ files, shipped }) => ({ hash: wanted, files, shipped }));
    generations.set(wanted, answer);
    answer.catch(() => generations.delete(wanted));
    if (generations.size > KEPT) generations.delete(generations.keys().next().value);
  }
  return generations.get(wanted);
}

// "6-7,9-9" <-> [[6, 7], [9, 9]]
function parseRuns(text) {
  return (text ?? '').split(',').map((run) => run.split('-').map(Number)).filter((run) => run[0] > 0);
}

// The address of a place in a file; undefined for those who may not see sources.
export function sourceHref(ctx, { file, line, lines, hash, wrong }) {
  return ctx.can('admin') ? ctx.href(['rules', 'source'], { file, line, hash, wrong: wrong ? 1 : '',
    lines: (lines ?? []).map((run) => run.join('-')).join(',') }) : undefined;
}

// A file as a table of lines. `lines`: those that ran; `line`: the one that decided, or with `wrong`, that failed.
export function sourceTable(text, { line, lines = [], wrong = false } = {}) {
  const all = text.replace(/\n$/, '').split('\n');
  const ran = (n) => lines.some(([first, last]) => n >= first && n <= (last ?? first));
  const rows = all.map((code, i) => {
    const n = i + 1;
    const kind = n === line ? (wrong ? 'wrong' : 'decided') : ran(n) ? 'ran' : null;
    return h('tr', { class: kind, 'data-line': n }, h('td', { class: 'line-number' }, n), h('td', {}, code));
  });
  const node = h('div', { class: 'source', tabindex: 0, role: 'region', 'aria-label': 'source' },
    h('table', {}, h('tbody', {}, rows)));
  // Once it is on the page.
  if (line && rows[line - 1]) {
    requestAnimationFrame(() => {
      node.scrollTop = rows[line - 1].offsetTop - node.clientHeight / 3;
    });
  }
  return node;
}

function legend(place) {
  return place.lines?.length
    ? h('p', { class: 'legend-row' }, 'Marked: the lines that ran, and the last of them, which decided.') : null;
}

async function openSource(ctx, place) {
  try {
    const { files, shipped } = await loadFiles(place.hash);
    const text = files[place.file] ?? shipped[place.file];
    show(place.line ? `${place.file}, line ${place.line}` : place.file,
      text === undefined ? h('p', {}, 'This file is not in the generation.') : sourceTable(text, place), legend(place),
      h('p', {}, h('a', { href: sourceHref(ctx, place), onclick: (event) =>
        event.target.closest('dialog').close() }, 'Open as a page')));
  } catch (error) {
    tellError(error);
  }
}

// A file and line: a link that opens the source, for those who may see it. place: { file, line, lines, hash, wrong }.
export function placeLink(ctx, place) {
  const text = place.line ? `${place.file}:${place.line}` : place.file;
  if (!ctx.can('admin')) return h('span', { class: 'place' }, text);
  return h('a', { class: 'place', href: sourceHref(ctx, place), onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openSource(ctx, place);
  } }, text);
}

// A text with links wherever it names a script, as `filter/10-x.lua:3`.
export function linkPlaces(ctx, text, hash) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(/\b([\w.-]+(?:\/[\w.-]+)*\.lua)(?::(\d+))?/g)) {
    parts.push(text.slice(at, found.index), placeLink(ctx, { file: found[1], line: Number(found[2]) || undefined, hash,
      wrong: true }));
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== '');
}

async function render(ctx) {
  const { hash, line, lines, wrong } = ctx.query;
  const active = (await api.get('/api/rules', {}, { signal: ctx.signal })).hash;
  const generation = await loadFiles(hash || active);
  const names = [...Object.keys(generation.files).sort(), ...Object.keys(generation.shipped).sort()];
  const file = ctx.query.file ?? names[0];
  const text = generation.files[file] ?? generation.shipped[file];
  const place = h('div', {});
  fill(place, text === undefined ? h('p', { class: 'empty' }, `There is no file ${file} in this generation.`)
    : sourceTable(text, { line: Number(line) || undefined, lines: parseRuns(lines), wrong: Boolean(wrong) }));
  return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, file)), rulesTabs(ctx, 'source'),
    section('Source', null, facts([['generation', generation.hash],
      ['active', generation.hash === active ? 'yes' : 'no']]), place,
      lines ? legend({ lines: [lines] }) : null),
    section('Files', null, h('ul', { class: 'files' }, names.map((name) => h('li', {},
      h('a', { class: 'place', href: sourceHref(ctx, { file: name, hash }),
        'aria-current': name === file ? 'page' : null }, name))))));
}

export const sourceView = { path: 'rules/source', title: 'Source', render };
