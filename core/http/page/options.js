// Options as people write them: one `name=value` a line.
import { h, facts } from './dom.js';

// Gives an object of texts; a line without `=` is a flag, which is 1.
export function parseOptions(text) {
  const options = {};
  for (const line of text.split('\n').map((one) => one.trim()).filter(Boolean)) {
    const at = line.indexOf('=');
    options[at < 0 ? line : line.slice(0, at).trim()] = at < 0 ? '1' : line.slice(at + 1).trim();
  }
  return options;
}

// Without those that are empty; numbers and booleans as the broker writes them.
export function givenOptions(values) {
  return Object.fromEntries(Object.entries(values)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => [name, value === true ? '1' : value === false ? '0' : String(value)]));
}

export function showOptions(options) {
  const pairs = Object.entries(options ?? {});
  return pairs.length ? facts(pairs) : h('p', { class: 'dim' }, 'All options have their defaults.');
}
