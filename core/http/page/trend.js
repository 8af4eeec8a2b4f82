// A chart of what has been seen since a view was opened, at most the last ten minutes.
import { chart } from './chart.js';

const MOST = 300;

// { node, add(values) }, one value per series.
export function trend(name, series, format) {
  const picture = chart({ name, series, format });
  const times = [];
  const data = series.map(() => []);
  return {
    node: picture.node,
    add(values) {
      times.push(Date.now());
      values.forEach((value, i) => data[i].push(value));
      if (times.length > MOST) {
        times.shift();
        for (const list of data) list.shift();
      }
      picture.show(times, data);
    },
  };
}
