// The generations of the rules: who made them, what became of them, the difference between any two, and the way back.
import { h, fill, section, button } from './dom.js';
import { api } from './api.js';
import { time, count } from './format.js';
import { table, pageOf } from './table.js';
import { confirm } from './dialog.js';
import { tell } from './toast.js';
import { rulesTabs } from './rules_tabs.js';
import { linkPlaces, loadFiles } from './source.js';
import { diffFiles, diffTable } from './diff.js';

const REFRESH_MS = 5000;

function changesText(entry) {
  return ['added', 'changed', 'removed'].map((kind) => {
    const n = entry[`${kind}_count`] ?? entry[kind]?.length ?? 0;
    return n ? `${n} ${kind}` : '';
  }).filter(Boolean).join(', ');
}

function changesTitle(entry) {
  return ['added', 'changed', 'removed']
    .flatMap((kind) => (entry[kind] ?? []).map((file) => `${kind}: ${file}`)).join('\n');
}

function rollBack(hash, entry, refresh) {
  return confirm({
    title: 'Roll back?', verb: 'Roll back',
    text: `The rules ${hash} of ${time(entry.loaded_ms)} decide from now on. The rules directory is not written: ` +
      'the next change in it supersedes the rollback.',
    submit: async () => {
      await api.post('/api/rules/rollback', { hash });
      tell(`The rules ${hash} are active.`);
      await refresh();
    },
  });
}

// The hash of what was active before an accepted entry of the log.
function before(log, entry) {
  return log.find((other) => other.number < entry.number && other.result === 'accepted' &&
    other.hash !== entry.hash)?.hash;
}

function diffLink(ctx, from, to, text) {
  return h('a', { href: ctx.href(['rules', 'diff'], { from, to }) }, text);
}

class Generations {
  constructor(ctx) {
    this.ctx = ctx;
    this.chosen = [ctx.query.a, ctx.query.b].filter(Boolean);
    this.compare = button('Compare', () => ctx.go(ctx.href(['rules', 'diff'],
      { from: this.chosen[0], to: this.chosen[1] })), '', { disabled: true });
    this.list = table(ctx, {
      name: 'generations', search: 'hash, author, origin', sort: 'number', order: 'desc',
      empty: 'Nothing was loaded yet.',
      columns: this.columns(), id: (entry) => entry.number,
      load: (page) => this.load(page), tools: [this.compare],
    });
    this.refresh = this.list.refresh;
  }

  columns() {
    const { ctx } = this;
    return [
      { key: 'number', text: '#', sort: true, cell: (entry) => this.check(entry) },
      { key: 'loaded_ms', text: 'Time', sort: true, class: 'unbroken', cell: (entry) => time(entry.loaded_ms) },
      { key: 'by', text: 'By', cell: (entry) => entry.by ?? '' },
      { key: 'origin', text: 'From', class: 'unbroken', cell: (entry) => entry.origin },
      { key: 'result', text: 'Result', cell: (entry) => (entry.result === 'accepted'
        ? h('span', { class: 'badge good' }, entry.hash === this.active ? 'active' : 'accepted')
        : h('span', { class: 'badge bad' }, 'refused')) },
      { key: 'hash', text: 'Rules', class: 'unbroken', cell: (entry) => (entry.hash ? h('a', { class: 'place',
        href: ctx.href(['rules', 'source'], { hash: entry.hash }) }, entry.hash) : '') },
      { key: 'changes', text: 'Files', cell: (entry) => (entry.error ? h('span', { class: 'bad' },
        linkPlaces(ctx, entry.error)) : h('span', { title: changesTitle(entry) }, changesText(entry))) },
      { key: 'actions', text: '', cell: (entry) => this.actions(entry) },
    ];
  }

  check(entry) {
    if (!entry.hash) return h('span', {}, entry.number);
    const id = `generation-${entry.number}`;
    return h('span', {}, h('input', { type: 'checkbox', id, checked: this.chosen.includes(entry.hash),
      onchange: (event) => this.choose(entry.hash, event.target.checked) }), ' ',
    h('label', { for: id }, entry.number));
  }

  actions(entry) {
    if (!entry.hash) return '';
    const from = before(this.log, entry);
    return h('span', { class: 'tools' }, from ? diffLink(this.ctx, from, entry.hash, 'what changed') : null,
      entry.hash === this.active ? null
        : button('Roll back', () => rollBack(entry.hash, entry, this.refresh), 'small'));
  }

  choose(hash, isChosen) {
    this.chosen = this.chosen.filter((other) => other !== hash);
    if (isChosen) this.chosen = [...this.chosen, hash].slice(-2);
    this.ctx.setQuery({ a: this.chosen[0], b: this.chosen[1] });
    this.refresh();
  }

  async load(page) {
    const [log, status] = await Promise.all([api.get('/api/rules/log', {}, { signal: this.ctx.signal }),
      api.get('/api/rules', {}, { signal: this.ctx.signal })]);
    this.log = log.items ?? log;
    this.active = status.hash;
    this.compare.disabled = this.chosen.length !== 2;
    // The older one is what it is compared with.
    const age = (hash) => this.log.findIndex((entry) => entry.hash === hash);
    this.chosen.sort((a, b) => age(b) - age(a));
    return pageOf(this.log, page, (entry) => `${entry.number} ${entry.hash ?? ''} ${entry.by ?? ''} ${entry.origin}`);
  }
}

async function render(ctx) {
  const generations = new Generations(ctx);
  await generations.refresh();
  ctx.every(REFRESH_MS, generations.refresh);
  return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Generations of the rules')),
    rulesTabs(ctx, 'generations'), section('Attempts to load rules', null, h('p', { class: 'dim' },
      'Choose two to compare them. The files of the last ten generations are kept.'), generations.list.node));
}

function fileList(ctx, files, chosen, choose) {
  return h('ul', { class: 'files' }, files.map((one) => h('li', {}, h('a', { class: 'place',
    href: ctx.href(['rules', 'diff'], { ...ctx.query, file: one.file }),
    'aria-current': one.file === chosen ? 'page' : null,
    onclick: (event) => {
      event.preventDefault();
      choose(one.file);
    } }, one.file), ' ', h('span', { class: one.kind === 'added' ? 'good' : one.kind === 'removed' ? 'bad' : 'dim' },
    one.kind), h('small', {}, ` +${one.added} −${one.removed}`))));
}

async function renderDiff(ctx) {
  const { from, to } = ctx.query;
  const [a, b, status] = await Promise.all([loadFiles(from), loadFiles(to), api.get('/api/rules')]);
  const name = ({ hash }) => `${hash}${hash === status.hash ? ' (active)' : ''}`;
  const files = diffFiles(a.files, b.files);
  const place = h('div', {});
  const list = h('div', {});
  const modes = { unified: 'One column', sides: 'Side by side' };
  const showFile = (file, mode) => {
    ctx.setQuery({ file, mode });
    fill(list, fileList(ctx, files, file, (other) => showFile(other, ctx.query.mode)));
    fill(place, file === undefined ? h('p', { class: 'empty' }, 'Both have the same files.') : section(file,
      Object.entries(modes).map(([name, text]) => button(text, () => showFile(file, name), 'small',
        { 'aria-pressed': String(name === mode) })),
      diffTable(a.files[file], b.files[file], mode)));
  };
  showFile(ctx.query.file ?? files[0]?.file, ctx.query.mode ?? 'unified');
  return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Difference of rules'), h('span', { class: 'place' },
    `${name(a)} → ${name(b)}`)), rulesTabs(ctx, 'generations'),
  section(files.length === 1 ? 'One file differs' : `${count(files.length, 'file')} differ`, null, list), place);
}

export const generationViews = [
  { path: 'rules/generations', title: 'Generations', render },
  { path: 'rules/diff', title: 'Difference of rules', render: renderDiff },
];
