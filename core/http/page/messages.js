// The part of a view that looks into a queue or a topic, without taking anything out.
import { h, fill, section, button } from './dom.js';
import { buildCell, buildHead, hideEmptyColumns } from './table.js';
import { api, at } from './api.js';
import { confirm, ask } from './dialog.js';
import { messageView, preview } from './message.js';
import { time, bytes, number } from './format.js';
import { tell, tellError } from './toast.js';

const PAGE = 20;
const STATES = ['ready', 'unacked', 'delayed', 'buried'];

function isDead(message) {
  return message.headers?.['x-death-reason'] !== undefined;
}

function deathColumn(text, header, format = (value) => value) {
  return { text, cell: ({ headers }) => (headers?.[header] === undefined ? '' : format(headers[header], headers)) };
}

function deathPlace(queue, headers) {
  const sent = [headers['x-death-exchange'], headers['x-death-key']].filter((one) => one !== undefined).join(' / ');
  return h('span', { class: 'titled' }, queue, h('small', {}, sent));
}

// Of a dead letter, facts of its death stand in place of what its last publish was.
const COLUMNS = [
  { text: 'Key', class: 'name', cell: (m) => (isDead(m) ? '' : m.key) },
  { text: 'Published', class: 'time', cell: (m) => (isDead(m) ? '' : time(m.ts)) },
  { ...deathColumn('Reason', 'x-death-reason'), class: 'unbroken' },
  { ...deathColumn('Because', 'x-death-reason-text'), class: 'name' },
  { ...deathColumn('Died in', 'x-death-queue', deathPlace), class: 'name' },
  { ...deathColumn('Died', 'x-death-time', (ms) => time(Number(ms))), class: 'time' },
  { ...deathColumn('Attempts', 'x-death-attempts', (n) => number(Number(n))), numeric: true },
  { text: 'Size', numeric: true, cell: (m) => bytes(m.size) },
  { text: 'Deliveries', numeric: true, cell: (m) => (isDead(m) ? m.deliveries || '' : number(m.deliveries)) },
  { text: 'Payload', class: 'mono wide', cell: (m) => preview(m) },
];

// Of a queue's figures: the state that most of its messages are in.
export function fullestState(queue) {
  return STATES.reduce((fullest, one) => ((queue[one] ?? 0) > (queue[fullest] ?? 0) ? one : fullest));
}

function queueTools(ctx, name, message, changed) {
  const path = at(ctx.vhost, 'queues', name, 'messages', message.id);
  return [
    message.state !== 'unacked' && button('Reschedule', async () => {
      const done = await ask({
        title: 'Reschedule', verb: 'Reschedule', text: `Message ${message.id}`,
        specs: [{ name: 'delay', label: 'Ready in', value: '0', required: true, help: '0 is now; else like 30s, 5m, 2h' }],
        submit: ({ delay }) => api.post(`${path}/reschedule`, { delay }),
      });
      if (done) changed();
    }, 'small'),
    button('Remove', async () => {
      const done = await confirm({
        title: 'Remove the message?', verb: 'Remove', text: `Message ${message.id} is lost then, also for who holds it.`,
        submit: () => api.delete(path),
      });
      if (done) {
        tell('Removed.');
        changed();
      }
    }, 'small danger'),
  ];
}

class Messages {
  constructor(ctx, { name, kind, first, partitions = 1 }) {
    this.ctx = ctx;
    this.name = name;
    this.isTopic = kind === 'topic';
    this.serial = 0;
    this.rows = h('tbody', {});
    this.note = h('p', { class: 'empty', role: 'status' }, 'Loading…');
    this.columns = [{ text: this.isTopic ? 'Offset' : 'Id', class: 'message-id' },
      ...(this.isTopic ? [{ text: 'Partition', numeric: true, cell: (m) => (partitions > 1 ? m.partition : '') }] : []),
      ...COLUMNS];
    this.heads = this.columns.map((column) => buildHead(column));
    this.table = h('table', { 'data-table': 'messages', hidden: true }, h('thead', {}, h('tr', {}, this.heads)), this.rows);
    this.more = button('More', () => this.load(true), '', { hidden: true });
    this.look = this.look.bind(this);
    const onchange = this.look;
    this.state = h('select', { 'aria-label': 'state', onchange }, STATES.map((one) =>
      h('option', { selected: one === first }, one)));
    this.partition = h('select', { 'aria-label': 'partition', onchange }, h('option', { value: '' }, 'newest of all'),
      Array.from({ length: partitions }, (_, i) => h('option', { value: i }, `partition ${i}`)));
    // An offset is one of a partition.
    this.offset = h('input', { 'aria-label': 'from offset', placeholder: 'first, an offset, or 1h', size: 16, oninput: () => {
      if (this.partition.value === '') this.partition.value = first;
    } });
    this.match = h('input', { type: 'search', 'aria-label': 'search messages',
      placeholder: 'text, key:pattern, h:name=value', size: 28 });
    const form = h('form', { class: 'tools', onsubmit: (event) => {
      event.preventDefault();
      this.look();
    } }, this.isTopic ? [this.partition, this.offset] : this.state, this.match,
    h('button', { class: 'button', type: 'submit' }, 'Look'));
    this.node = section('Messages', form,
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'messages' }, this.table, this.note),
      h('div', { class: 'tools' }, this.more));
  }

  async look() {
    this.next = undefined;
    await this.load(false);
  }

  // A later question overtakes this one: then its answer is not shown.
  async load(isMore) {
    const serial = ++this.serial;
    const place = this.isTopic
      ? this.partition.value === '' ? { newest: true, after: isMore ? this.next : '' }
        : { partition: this.partition.value, offset: isMore ? this.next : this.offset.value.trim() }
      : { state: this.state.value, after: isMore ? this.next : '' };
    try {
      const answer = await api.get(at(this.ctx.vhost, this.isTopic ? 'topics' : 'queues', this.name, 'messages'),
        { max: PAGE, match: this.match.value, ...place }, { signal: this.ctx.signal });
      if (serial !== this.serial) return;
      this.next = answer.next;
      const rows = answer.messages.flatMap((message) => this.row(message));
      if (isMore) this.rows.append(...rows);
      else fill(this.rows, rows);
      hideEmptyColumns(this.heads, [...this.rows.children].filter((tr) => tr.className !== 'detail'));
      this.table.hidden = this.rows.children.length === 0;
      this.more.hidden = answer.next === undefined;
      const looked = `${number(answer.searched)} looked at`;
      fill(this.note, this.rows.children.length === 0
        ? `No message${this.match.value ? ' matches' : ''}${this.isTopic ? '' : ` is ${this.state.value}`}; ${looked}.`
        : answer.next === undefined ? 'These are all.' : `There may be more; ${looked}.`);
    } catch (error) {
      if (this.table.hidden && error.code) fill(this.note, error.message);
      tellError(error);
    }
  }

  row(message) {
    const body = h('tr', { class: 'detail', hidden: true });
    const toggle = button('▸', () => {
      if (body.hidden && body.children.length === 0) {
        const tools = this.isTopic ? null : queueTools(this.ctx, this.name, message, this.look);
        body.append(h('td', { colspan: this.columns.length }, messageView(this.ctx, message, tools)));
      }
      body.hidden = !body.hidden;
      toggle.textContent = body.hidden ? '▸' : '▾';
      toggle.setAttribute('aria-expanded', !body.hidden);
    }, 'quiet small', { 'aria-expanded': 'false', 'aria-label': `message ${message.id}` });
    const name = [toggle, this.isTopic ? number(message.offset) : h('code', {}, message.id)];
    return [h('tr', {}, this.columns.map((column) => buildCell(column, column.cell ? column.cell(message) : name))), body];
  }
}

// { node, look() }; `kind` is 'queue' or 'topic'.
export function messagesPart(ctx, spec) {
  return new Messages(ctx, spec);
}
