// The bindings that lead to one queue, topic or exchange.
import { h } from './dom.js';
import { api, at } from './api.js';
import { table, pageOf } from './table.js';

export function bindingsTo(ctx, to, name) {
  const list = table(ctx, {
    name: 'bindings', prefix: 'b-', search: null, sort: 'exchange',
    empty: 'No binding leads here; the default exchange always does.',
    id: (b) => `${b.exchange} ${b.pattern} ${JSON.stringify(b.options)}`,
    columns: [
      { key: 'exchange', text: 'Exchange',
        cell: (b) => h('a', { href: ctx.href(['exchanges', b.exchange]) }, b.exchange) },
      { key: 'pattern', text: 'Pattern', cell: (b) => b.pattern },
      { key: 'options', text: 'Options',
        cell: (b) => Object.entries(b.options ?? {}).map(([k, v]) => `${k}=${v}`).join(' ') },
    ],
    load: async (state) => {
      const answer = await api.get(at(ctx.vhost, 'bindings'), { destination: name, to }, { signal: ctx.signal });
      return pageOf(answer.items, state, (b) => b.exchange);
    },
  });
  list.refresh();
  return list.node;
}
