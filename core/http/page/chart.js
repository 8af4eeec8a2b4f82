// Lines over time, as SVG, with axes, and the values under the pointer.
//
//   const c = chart({ name: 'Rates', format: rate, series: [{ name: 'published', color: 1 }, …] });
//   c.show(times, [[…], […]]);      milliseconds since 1970; a list of values per series; null is a gap
//
// `axis` formats the values at the axis, if not as `format` does; `min` is the least that the axis reaches;
// `scale` 'binary': its steps are powers of two, for bytes; 'time': round seconds, minutes or hours.
//
// Colours 1 to 6 are those of the style sheet (--line-1 …).
import { h, s, fill, setText } from './dom.js';
import { clock, time } from './format.js';

const WIDTH = 600;
const HEIGHT = 180;
const LEFT = 58;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400]
  .map((seconds) => seconds * 1000);

// The smallest of 1, 2, 5, 10, 20, … that so many steps of it reach the value.
function niceStep(max, steps, scale) {
  const raw = max / steps * 0.999;
  if (scale === 'binary') return 2 ** Math.ceil(Math.log2(raw));
  if (scale === 'time' && raw > 500 && raw <= 86400e3) return TIMES.find((step) => step >= raw);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= raw);
}

class Chart {
  constructor({ name, series, format, axis = format, min = 1, scale = '' }) {
    this.name = name;
    this.series = series;
    this.format = format;
    this.axis = axis;
    this.scale = scale;
    this.min = min;
    this.times = [];
    this.grid = s('g', { class: 'grid' });
    this.lines = series.map((one) => s('path', { class: `line line-${one.color}` }));
    this.cross = s('line', { class: 'cross', y1: TOP, y2: HEIGHT - BOTTOM, visibility: 'hidden' });
    this.svg = s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': name, class: 'chart',
      onpointermove: (event) => this.point(event), onpointerleave: () => this.unpoint() },
    this.grid, this.lines, this.cross);
    this.values = series.map(() => h('b', {}));
    this.when = h('span', { class: 'when' });
    this.node = h('figure', { class: 'chart-box' },
      h('figcaption', {}, h('span', { class: 'chart-name' }, name), series.map((one, i) =>
        h('span', { class: 'legend' }, h('i', { class: `swatch line-${one.color}` }), `${one.name} `, this.values[i])),
      this.when), this.svg);
  }

  x(t) {
    const [first, last] = [this.times[0], this.times[this.times.length - 1]];
    return LEFT + (last > first ? (t - first) / (last - first) : 1) * (WIDTH - LEFT - RIGHT);
  }

  y(v) {
    return HEIGHT - BOTTOM - v / this.max * (HEIGHT - TOP - BOTTOM);
  }

  show(times, data) {
    this.times = times;
    this.data = data;
    const largest = data.flat().reduce((most, v) => Math.max(most, v ?? 0), this.min);
    const step = niceStep(largest, 4, this.scale);
    this.max = step * Math.ceil(largest / step - 1e-9);
    this.showGrid(step);
    this.lines.forEach((path, i) => path.setAttribute('d', this.path(data[i])));
    this.showValues(times.length - 1);
    const newest = this.series.map((one, i) => `${one.name} ${this.format(data[i][times.length - 1])}`).join(', ');
    this.svg.setAttribute('aria-label', `${this.name}: ${newest}`);
  }

  path(values) {
    let d = '';
    let isGap = true;
    values.forEach((v, i) => {
      if (v === null || v === undefined) {
        isGap = true;
        return;
      }
      d += `${isGap ? 'M' : 'L'}${this.x(this.times[i]).toFixed(1)} ${this.y(v).toFixed(1)}`;
      isGap = false;
    });
    return d;
  }

  showGrid(step) {
    const parts = [];
    for (let v = 0; v <= this.max + step / 2; v += step) {
      const y = this.y(v).toFixed(1);
      parts.push(s('line', { x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }),
        s('text', { x: LEFT - 6, y: Number(y) + 4, 'text-anchor': 'end' }, this.axis(v)));
    }
    const [first, last] = [this.times[0], this.times[this.times.length - 1]];
    for (let i = 0; i <= 4 && last > first; i++) {
      const t = first + (last - first) * i / 4;
      const anchor = i === 0 ? 'start' : i === 4 ? 'end' : 'middle';
      const text = last - first < 240e3 ? time(t).slice(11) : clock(t);
      parts.push(s('text', { x: this.x(t), y: HEIGHT - 6, 'text-anchor': anchor }, text));
    }
    fill(this.grid, parts);
  }

  showValues(i) {
    this.values.forEach((b, k) => setText(b, this.data[k].length ? this.format(this.data[k][i]) : '–'));
  }

  point(event) {
    if (this.times.length === 0) return;
    const box = this.svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * WIDTH;
    let nearest = 0;
    this.times.forEach((t, i) => {
      if (Math.abs(this.x(t) - x) < Math.abs(this.x(this.times[nearest]) - x)) nearest = i;
    });
    const at = this.x(this.times[nearest]);
    this.cross.setAttribute('x1', at);
    this.cross.setAttribute('x2', at);
    this.cross.setAttribute('visibility', 'visible');
    this.showValues(nearest);
    setText(this.when, time(this.times[nearest]).slice(11));
  }

  unpoint() {
    this.cross.setAttribute('visibility', 'hidden');
    setText(this.when, '');
    if (this.times.length > 0) this.showValues(this.times.length - 1);
  }
}

export function chart(spec) {
  return new Chart(spec);
}
