// A table whose rows the server sorts, searches and pages. The address keeps what was chosen, so that links and
// the back button lead to the same rows.
//
//   const t = table(ctx, {
//     name: 'queues',
//     columns: [{ key: 'name', text: 'Name', sort: true, cell: (row) => row.name }, { …, numeric: true }],
//     load: ({ sort, order, max, offset, match }) => api.get(path, …),    -> { total, items }
//     id: (row) => row.name,                 what makes a row the same one after a refresh
//     href: (row) => ctx.href([...]),        where Enter and the first cell lead; may be left out
//     sort: 'name', order: 'asc',            at first
//     search: 'part of a name',              the placeholder; null: no search
//     empty: 'No queue yet.',
//     tools: [button(...)],
//   });
//   await t.refresh();  …  ctx.every(2000, t.refresh);
//
// Two tables in a view need another `prefix` each, for their part of the address. A column that has nothing in any row
// is hidden. On a narrow screen a row is a card, in which each cell has the text of its column beside it.
import { h, fill, setText, button } from './dom.js';
import { number } from './format.js';

const PAGE = 50;
const SEARCH_MS = 250;

function setCell(td, content) {
  if (content instanceof Node) {
    // A control somebody is about to use stays.
    if (td.firstChild && content.isEqualNode(td.firstChild)) return;
    td.replaceChildren(content);
  } else {
    setText(td, content ?? '–');
  }
}

// A cell of a column, which has { text, numeric, class }.
export function buildCell(column, content) {
  return h('td', { class: column.numeric ? 'numeric' : column.class, 'data-label': column.text || null }, content);
}

export function buildHead(column, content = column.text) {
  return h('th', { scope: 'col', class: column.numeric ? 'numeric' : null }, content);
}

// Hide the columns that have nothing in any of these rows, but never that of the order.
export function hideEmptyColumns(heads, rows) {
  heads.forEach((head, i) => {
    const isEmpty = rows.every((tr) => ['', '–'].includes(tr.children[i].textContent));
    head.hidden = isEmpty && !head.hasAttribute('aria-sort');
    for (const tr of rows) tr.children[i].hidden = head.hidden;
  });
}

// A table of rows that are there: lists of contents, one for each of the columns.
export function plainTable(name, columns, rows) {
  const heads = columns.map((column) => buildHead(column));
  const list = rows.map((row) => h('tr', {}, row.map((content, i) => buildCell(columns[i], content))));
  hideEmptyColumns(heads, list);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name },
    h('table', { 'data-table': name }, h('thead', {}, h('tr', {}, heads)), h('tbody', {}, list)));
}

class Table {
  constructor(ctx, spec) {
    this.ctx = ctx;
    this.spec = { sort: '', order: 'asc', search: 'part of a name', empty: 'Nothing here.', prefix: '', ...spec };
    this.rows = new Map();
    this.total = 0;
    this.serial = 0;
    this.build();
    this.refresh = this.refresh.bind(this);
    ctx.keys({
      ...(this.spec.search && !this.spec.prefix ? { '/': ['search', () => this.search.focus()] } : {}),
      ...(this.spec.prefix ? {} : { ArrowDown: ['next row', () => this.move(1)],
        ArrowUp: ['row before', () => this.move(-1)],
        ArrowRight: ['next page', () => this.turn(1)], ArrowLeft: ['page before', () => this.turn(-1)] }),
    });
  }

  get(name) {
    return this.ctx.query[this.spec.prefix + name];
  }

  set(changes) {
    this.ctx.setQuery(Object.fromEntries(Object.entries(changes).map(([k, v]) => [this.spec.prefix + k, v])));
    return this.refresh();
  }

  get state() {
    const offset = Number(this.get('offset') ?? 0);
    return { sort: this.get('sort') ?? this.spec.sort, order: this.get('order') ?? this.spec.order,
      max: this.spec.max ?? PAGE, offset: Number.isSafeInteger(offset) && offset > 0 ? offset : 0,
      match: this.get('match') ?? '' };
  }

  build() {
    const { name, search, tools, columns } = this.spec;
    let timer = 0;
    this.search = search && h('input', { type: 'search', class: 'search', placeholder: search, spellcheck: 'false',
      'aria-label': `search ${name}`, value: this.get('match') ?? '', oninput: () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.set({ match: this.search.value, offset: '' }), SEARCH_MS);
      } });
    this.ctx.onLeave(() => clearTimeout(timer));
    this.heads = columns.map((column) => this.buildSortableHead(column));
    this.body = h('tbody', {});
    this.table = h('table', { hidden: true }, h('thead', {}, h('tr', {}, this.heads)), this.body);
    this.note = h('p', { class: 'empty' }, 'Loading…');
    this.range = h('span', { class: 'range', role: 'status' });
    this.back = button('‹', () => this.turn(-1), 'quiet', { 'aria-label': 'page before', hidden: true });
    this.on = button('›', () => this.turn(1), 'quiet', { 'aria-label': 'next page', hidden: true });
    this.tools = h('div', { class: 'table-tools', hidden: !search && !tools }, this.search, h('div', { class: 'tools' }, tools),
      h('div', { class: 'pager' }, this.range, this.back, this.on));
    this.node = h('div', { class: 'table-box', 'data-table': name },
      this.tools,
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name },
        this.table, this.note));
  }

  buildSortableHead(column) {
    if (!column.sort) return buildHead(column);
    const key = column.sort === true ? column.key : column.sort;
    const head = buildHead(column, button(column.text, () => this.sortBy(key, column), 'sort'));
    head.dataset.sort = key;
    return head;
  }

  sortBy(key, column) {
    const { sort, order } = this.state;
    // Figures are looked at from the largest down.
    const first = column.numeric ? 'desc' : 'asc';
    const other = { asc: 'desc', desc: 'asc' };
    this.set({ sort: key, order: sort === key ? other[order] : first, offset: '' });
  }

  turn(pages) {
    const { offset, max } = this.state;
    const to = Math.max(0, offset + pages * max);
    if (to === offset || (pages > 0 && to >= this.total)) return;
    this.set({ offset: to || '' });
  }

  // Move the focus to the row below or above.
  move(step) {
    const list = [...this.body.children];
    if (list.length === 0) return;
    const at = list.indexOf(document.activeElement?.closest('tr'));
    const to = at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.min(list.length - 1, Math.max(0, at + step));
    list[to].focus();
  }

  // Ask for the rows, and show them. Gives the answer, or undefined when there is none: it was refused, which the
  // table says in place of the rows, or a later question has overtaken this one.
  async refresh() {
    const serial = ++this.serial;
    const state = this.state;
    let answer;
    try {
      answer = await this.spec.load(state);
    } catch (error) {
      if (serial === this.serial && !this.ctx.signal.aborted) this.showError(error);
      return undefined;
    }
    if (serial !== this.serial || this.ctx.signal.aborted) return undefined;
    const items = Array.isArray(answer) ? answer : answer.items;
    this.total = Array.isArray(answer) ? answer.length : answer.total;
    if (items.length === 0 && state.offset > 0 && this.total > 0) {
      return this.set({ offset: Math.floor((this.total - 1) / state.max) * state.max || '' });
    }
    this.show(items, state);
    return answer;
  }

  showError(error) {
    if (!error.code) throw error;
    // The rows of before are better than none while the broker is away.
    if (this.body.children.length > 0 && (error.code === 'away' || error.status === 401)) return;
    this.show([], this.state);
    setText(this.range, '');
    fill(this.note, error.message);
  }

  show(items, state) {
    for (const head of this.heads) {
      const isSorted = head.dataset.sort && head.dataset.sort === state.sort;
      if (isSorted) head.setAttribute('aria-sort', state.order === 'asc' ? 'ascending' : 'descending');
      else head.removeAttribute('aria-sort');
    }
    const kept = new Map();
    items.forEach((item, i) => {
      const id = String(this.spec.id(item));
      const tr = this.rows.get(id) ?? this.buildRow();
      kept.set(id, tr);
      this.showRow(tr, item);
      if (this.body.children[i] !== tr) this.body.insertBefore(tr, this.body.children[i] ?? null);
    });
    for (const [id, tr] of this.rows) {
      if (!kept.has(id)) tr.remove();
    }
    this.rows = kept;
    const last = state.offset + items.length;
    setText(this.range, this.total > items.length ? `${number(state.offset + 1)}–${number(last)} of ${number(this.total)}`
      : `${number(this.total)}`);
    this.back.disabled = state.offset === 0;
    this.on.disabled = last >= this.total;
    this.back.hidden = this.on.hidden = this.total <= state.max;
    this.tools.hidden = this.back.hidden && !this.spec.search && !this.spec.tools;
    this.table.hidden = items.length === 0;
    this.note.hidden = items.length > 0;
    hideEmptyColumns(this.heads, [...this.body.children]);
    if (items.length === 0) fill(this.note, state.match ? `Nothing matches “${state.match}”.` : this.spec.empty);
  }

  buildRow() {
    const { columns, href } = this.spec;
    const tr = h('tr', { tabindex: -1, onkeydown: (event) => {
      if (event.key === 'Enter' && event.target === tr && href) this.ctx.go(href(tr.item));
    } });
    tr.append(...columns.map((column) => buildCell(column)));
    return tr;
  }

  showRow(tr, item) {
    tr.item = item;
    this.spec.columns.forEach((column, i) => {
      const content = column.cell(item);
      const isLink = i === 0 && this.spec.href && !(content instanceof Node);
      setCell(tr.children[i], isLink ? h('a', { href: this.spec.href(item) }, content) : content);
    });
  }
}

export function table(ctx, spec) {
  return new Table(ctx, spec);
}

// Search, sort and page a list that came whole: what `load` gives for the tables that the server does not page.
export function pageOf(items, { sort, order, max, offset, match }, text = (row) => row.name ?? '') {
  const wanted = match.toLowerCase();
  const found = items.filter((row) => String(text(row)).toLowerCase().includes(wanted));
  const sign = order === 'desc' ? -1 : 1;
  const rank = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b
    : String(a ?? '').localeCompare(String(b ?? '')));
  if (sort) found.sort((a, b) => sign * rank(a[sort], b[sort]));
  return { total: found.length, items: found.slice(offset, offset + max) };
}
