// Figures as people read them.

const whole = new Intl.NumberFormat('en');

// 1234567 -> "1,234,567"; null -> "–".
export function number(n) {
  return n === null || n === undefined ? '–' : whole.format(n);
}

function scaled(n, base, units) {
  let i = 0;
  let value = n;
  while (Math.abs(value) >= base && i < units.length - 1) {
    value /= base;
    i++;
  }
  const digits = i === 0 ? (Number.isInteger(value) ? 0 : 1) : Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0;
  return `${value.toFixed(digits)}${units[i]}`;
}

// 1234567 -> "1.23M", for places without much room.
export function short(n) {
  return n === null || n === undefined ? '–' : scaled(n, 1000, ['', 'k', 'M', 'G', 'T']);
}

// 1234.5 -> "1.23k/s".
export function rate(n) {
  return n === null || n === undefined ? '–' : `${scaled(Math.round(n * 10) / 10, 1000, ['', 'k', 'M', 'G'])}/s`;
}

// 1536 -> "1.50 KiB".
export function bytes(n) {
  return n === null || n === undefined ? '–' : scaled(n, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB']);
}

// Milliseconds -> "12 ms", "3.4 s", "5 min", "2 h 10 min", "3 d 4 h".
export function duration(ms) {
  if (ms === null || ms === undefined) return '–';
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1) return ms === 0 ? '0 ms' : `${Math.round(ms * 1000)} µs`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60e3) return `${(ms / 1000).toFixed(ms < 10e3 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60e3);
  if (minutes < 60) return minutes < 10 ? `${minutes} min ${Math.floor(ms % 60e3 / 1000)} s` : `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Milliseconds -> "1.3 min", for axes.
export function span(ms) {
  if (ms < 60e3) return duration(ms);
  if (ms < 3600e3) return `${Number((ms / 60e3).toFixed(1))} min`;
  return `${Number((ms / 3600e3).toFixed(1))} h`;
}

// 0.1234 -> "12.3 %".
export function share(x) {
  return x === null || x === undefined ? '–' : `${(x * 100).toFixed(1)} %`;
}

// Milliseconds since 1970 -> "2026-01-31 12:34:56", local time.
export function time(unixMs) {
  if (!unixMs) return '–';
  const d = new Date(unixMs);
  const two = (n) => String(n).padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ` +
    `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// Milliseconds since 1970 -> "12:34".
export function clock(unixMs) {
  return time(unixMs).slice(11, 16);
}

// Milliseconds since 1970 -> "3.4 s ago".
export function ago(unixMs) {
  return unixMs ? `${duration(Math.max(0, Date.now() - unixMs))} ago` : '–';
}

// "one message", "5 messages".
export function count(n, noun) {
  return n === 1 ? `one ${noun}` : `${number(n)} ${noun}s`;
}

// What gets a message: "3 queues and one topic". `list`: `queues` of EXPLAIN; each name counts once.
export function destinations(list) {
  const topics = new Set(list.filter((q) => q.partition !== undefined).map((q) => q.queue));
  const queues = new Set(list.map((q) => q.queue)).size - topics.size;
  return [queues && count(queues, 'queue'), topics.size && count(topics.size, 'topic')].filter(Boolean).join(' and ');
}

// The number that a publish is answered with counts both.
export function queuesAndTopics(n) {
  return n === 1 ? 'one queue or topic' : `${number(n)} queues and topics`;
}
