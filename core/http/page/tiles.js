// Large figures in a row, changed in place.
//
//   const t = tiles([['ready', 'Ready'], …]);
//   t.show({ ready: number(7), … }, { ready: 'warn' });
import { h, setText } from './dom.js';

export function tiles(list) {
  const made = new Map(list.map(([key, label]) => {
    const value = h('dd', { 'data-figure': key }, '–');
    return [key, { value, node: h('div', { class: 'tile' }, h('dt', {}, label), value) }];
  }));
  return {
    node: h('dl', { class: 'tiles' }, [...made.values()].map((tile) => tile.node)),
    show(values, moods = {}) {
      for (const [key, tile] of made) {
        const value = values[key];
        if (value instanceof Node) tile.value.replaceChildren(value);
        else setText(tile.value, value ?? '–');
        tile.node.className = `tile ${moods[key] ?? ''}`;
      }
    },
  };
}
