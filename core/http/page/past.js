// The last hour of a queue, a topic or a group, as the broker keeps it for what is at work: charts of its samples.
import { h, fill } from './dom.js';
import { api, at } from './api.js';
import { chart } from './chart.js';

const EVERY_MS = 10000;
const LINES = 6; // colours of the style sheet

// The samples of all histories in one time: { times, lines }, a line per history and column. A sample that is not there
// is a gap.
function join(histories, columns) {
  const slots = [...new Set(histories.flatMap(({ rows }) => rows.map((row) => Math.round(row[0] / EVERY_MS))))].sort((a, b) => a - b);
  const lines = histories.flatMap((history) => {
    const bySlot = new Map(history.rows.map((row) => [Math.round(row[0] / EVERY_MS), row]));
    return columns.map((name) => slots.map((slot) => bySlot.get(slot)?.[history.columns.indexOf(name)] ?? null));
  });
  return { times: slots.map((slot) => slot * EVERY_MS), lines };
}

// { node, refresh() }: charts of `load()`, a list of { name, history }. A chart is { name, format, columns: [[column,
// text], …] }; of several histories it has one column, and a line for each.
export function past(ctx, charts, load) {
  const node = h('div', {});
  let shown = '';
  let pictures = [];
  const build = (names) => charts.map(({ columns, ...spec }) => chart({ ...spec,
    series: names.flatMap((name) => columns.map(([, text]) => text ?? name)).map((name, i) => ({ name, color: i + 1 })) }));
  return {
    node,
    async refresh() {
      const list = (await load()).filter(({ history }) => history.rows.length > 0).slice(0, LINES);
      if (ctx.signal.aborted) return;
      const names = list.map(({ name }) => name);
      if (names.join(' ') !== shown || !node.firstChild) {
        shown = names.join(' ');
        pictures = list.length > 0 ? build(names) : [];
        fill(node, list.length > 0 ? h('div', { class: 'charts' }, pictures.map((one) => one.node))
          : h('p', { class: 'dim' }, 'Nothing has come or gone in the last hour.'));
      }
      pictures.forEach((picture, i) => {
        const { times, lines } = join(list.map(({ history }) => history), charts[i].columns.map(([column]) => column));
        picture.show(times, lines);
      });
    },
  };
}

// Of one thing: `kind` is 'queues' or 'topics'.
export function pastOf(ctx, kind, name, charts) {
  return past(ctx, charts, async () => [{ name,
    history: await api.get(at(ctx.vhost, kind, name, 'history'), {}, { signal: ctx.signal }) }]);
}
