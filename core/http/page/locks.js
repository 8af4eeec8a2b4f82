// The list of locks.
import { h } from './dom.js';
import { api, at } from './api.js';
import { table } from './table.js';
import { number, duration, ago } from './format.js';

const holder = (ctx, one) => (one.connection === undefined
  ? `nobody; it lapses in ${duration(Math.max(0, one.lapses - Date.now()))}`
  : h('a', { href: ctx.href(['connections', String(one.connection)]) }, `connection ${one.connection}, channel ${one.channel}`));

export const lockViews = [{
  path: 'locks',
  title: 'Locks',
  nav: { text: 'Locks', key: 'k' },
  async render(ctx) {
    const list = table(ctx, {
      name: 'locks', sort: 'name', id: (l) => l.name, empty: 'Nobody holds a lock in this vhost.',
      columns: [
        { key: 'name', text: 'Name', sort: true, cell: (l) => l.name },
        { key: 'holder', text: 'Held by', cell: (l) => (l.shared
          ? [`shared by ${number(l.shared)}`, l.holders.map((one) => h('div', {}, holder(ctx, one)))]
          : holder(ctx, l)) },
        { key: 'token', text: 'Token', numeric: true, cell: (l) => l.token ?? '' },
        { key: 'ttl', text: 'TTL', numeric: true, cell: (l) => (l.shared ? '' : duration(l.ttl_ms)) },
        { key: 'since', text: 'Held since', sort: true, numeric: true, cell: (l) => ago(l.since) },
        { key: 'waiting', text: 'Waiting', sort: true, numeric: true, cell: (l) => number(l.waiting) },
      ],
      load: (state) => api.get(at(ctx.vhost, 'locks'), state, { signal: ctx.signal }),
    });
    await list.refresh();
    ctx.every(2000, list.refresh);
    return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Locks')), list.node);
  },
}];
