// The route tester: what a publish would do, and which line of which script decides it. Nothing is published.
import { h, fill, section, button } from './dom.js';
import { api, at } from './api.js';
import { fields, confirm } from './dialog.js';
import { queuesAndTopics } from './format.js';
import { tell } from './toast.js';
import { explainPicture, verdict, decisionNote } from './explain.js';
import { explainSteps } from './explain_steps.js';

const TYPING_MS = 300;
const URL_PAYLOAD = 2000; // a longer one is not in the address
const INPUTS = ['exchange', 'key', 'headers', 'priority', 'delay', 'ttl', 'id', 'payload'];

// Lines `name: value` or `name=value`.
export function parseHeaders(text) {
  const headers = {};
  for (const line of text.split('\n').filter((one) => one.trim())) {
    const [, name, value] = line.match(/^\s*([^:=\s]+)\s*[:=]\s?(.*)$/) ?? [];
    if (name === undefined) throw new Error(`'${line}' is no header: write name: value`);
    headers[name] = value;
  }
  return headers;
}

// The address of a test, from a publish with headers as an object.
export function testHref(ctx, { exchange, key, headers = {}, priority, payload, vhost }) {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join('\n');
  return ctx.href(['route'], { exchange: exchange || '-', key, priority: priority || '', payload, headers: lines,
    ...(vhost ? { vhost } : {}) });
}

function makeForm(query) {
  return fields([
    { name: 'exchange', label: 'Exchange', value: query.exchange ?? '', placeholder: '- is the default exchange' },
    { name: 'key', label: 'Routing key', value: query.key ?? '' },
    { name: 'headers', label: 'Headers', type: 'textarea', rows: 3, value: query.headers ?? '',
      placeholder: 'name: value' },
    { name: 'payload', label: 'Payload', type: 'textarea', rows: 3, value: query.payload ?? '' },
    { name: 'priority', label: 'Priority', type: 'number', min: 0, max: 255, value: query.priority ?? '' },
    { name: 'delay', label: 'Delay', value: query.delay ?? '', placeholder: '30s' },
    { name: 'ttl', label: 'Time to live', value: query.ttl ?? '', placeholder: '1h' },
    { name: 'id', label: 'Publish id', value: query.id ?? '' },
  ]);
}

// The body of a publish, of what was typed.
function bodyOf(values) {
  const body = { key: values.key, headers: parseHeaders(values.headers) };
  for (const name of ['priority', 'delay', 'ttl', 'id', 'payload']) {
    if (values[name] !== undefined && values[name] !== '') body[name] = values[name];
  }
  return body;
}

class Tester {
  constructor(ctx) {
    this.ctx = ctx;
    this.form = makeForm(ctx.query);
    this.result = h('div', { 'data-part': 'result', 'aria-live': 'polite' });
    this.serial = 0;
    this.asked = null;
    this.document = null;
    this.publishButton = button('Publish it for real', () => this.publish(), 'danger', { disabled: true });
    const exchange = this.form.input('exchange');
    this.names = h('datalist', { id: 'route-exchanges' });
    exchange.setAttribute('list', 'route-exchanges');
    let timer = 0;
    this.node = h('form', { class: 'route-form', oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.run(), TYPING_MS);
    }, onsubmit: (event) => {
      event.preventDefault();
      clearTimeout(timer);
      this.run();
    } }, this.form.node, this.names, h('div', { class: 'dialog-buttons' }, this.publishButton,
      h('button', { class: 'button primary', type: 'submit' }, 'Test')));
    ctx.onLeave(() => clearTimeout(timer));
  }

  async loadNames() {
    try {
      const page = await api.get(at(this.ctx.vhost, 'exchanges'), { max: 500, sort: 'name' },
        { signal: this.ctx.signal });
      fill(this.names, ['-', ...page.items.map((x) => x.name)].map((name) => h('option', { value: name })));
    } catch {
      // The names are a help alone.
    }
  }

  // What was typed becomes the address, so that it can be sent to others.
  keep(values) {
    const query = Object.fromEntries(INPUTS.map((name) => [name, values[name] ?? '']));
    if (query.payload.length > URL_PAYLOAD) query.payload = '';
    this.ctx.setQuery(query);
  }

  async run() {
    const serial = ++this.serial;
    const values = this.form.values();
    this.keep(values);
    const exchange = values.exchange || '-';
    try {
      const body = bodyOf(values);
      const d = await api.post(at(this.ctx.vhost, 'exchanges', exchange, 'explain'), body, { signal: this.ctx.signal });
      if (serial !== this.serial) return;
      this.asked = { exchange, body };
      this.show(d);
    } catch (error) {
      if (serial !== this.serial || error.name === 'AbortError') return;
      this.publishButton.disabled = true;
      fill(this.result, h('p', { class: 'verdict bad', role: 'alert' }, error.message));
    }
  }

  show(d) {
    const { tone, text } = verdict(d);
    this.document = d;
    this.publishButton.disabled = false;
    fill(this.result,
      h('p', { class: `verdict ${tone}` }, text, h('small', {}, decisionNote(d))),
      section('The way of the message', null,
        explainPicture(this.ctx, { exchange: this.asked.exchange, key: this.asked.body.key }, d)),
      section('Step by step', null, explainSteps(this.ctx, this.asked, d)));
  }

  async publish() {
    const { exchange, body } = this.asked;
    await confirm({
      title: 'Publish it for real?', verb: 'Publish',
      text: `${verdict(this.document).text}. Consumers get it like any other message.`,
      submit: async () => {
        const done = await api.post(at(this.ctx.vhost, 'exchanges', exchange, 'publish'), body);
        const to = done.queues === undefined ? '' : ` to ${queuesAndTopics(done.queues)}`;
        tell(`Published${to}${done.id ? `, as ${done.id}` : ''}.`);
      },
    });
    await this.run();
  }
}

async function render(ctx) {
  const tester = new Tester(ctx);
  ctx.keys({ '/': ['the exchange', () => tester.form.input('exchange').focus()],
    p: ['publish it for real', () => !tester.publishButton.disabled && tester.publish()] });
  tester.loadNames();
  if (ctx.query.exchange) tester.run();
  else fill(tester.result, h('p', { class: 'empty' }, 'Type an exchange and a key.'));
  return h('div', {},
    h('div', { class: 'view-head' }, h('h1', {}, 'Route tester'), h('span', { class: 'dim' },
      'A dry run by the code that publishes. Nothing is stored or counted. The address of this page has the inputs.')),
    section('Message', null, tester.node), tester.result);
}

export const testerViews = [{ path: 'route', title: 'Route tester', nav: { text: 'Route tester', key: 'r' }, render }];
