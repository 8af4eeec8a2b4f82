// Elements, from data. Text is always text: nothing here, and nothing else on the page, parses HTML.
//
//   h('a', { href: '#/queues', class: 'link', onclick: run }, 'Queues')
//
// Attributes: a function is a listener (`onclick`), `true` an attribute without a value, `false`, null and
// undefined none. `value`, `checked` and the like are set as properties. Children: nodes, text, numbers, lists
// of them; null, undefined and false are left out.

const PROPERTIES = new Set(['value', 'checked', 'disabled', 'selected', 'indeterminate', 'readOnly', 'hidden']);
const SVG = 'http://www.w3.org/2000/svg';

function isLocal(url) {
  return url.startsWith('#') || (url.startsWith('/') && !url.startsWith('//'));
}

function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === 'function') {
    element.addEventListener(name.slice(2), value);
  } else if (PROPERTIES.has(name)) {
    element[name] = value;
  } else if (/^on/i.test(name) || name === 'style' || name === 'srcdoc') {
    throw new Error(`no attribute ${name} from data`);
  } else if ((name === 'href' || name === 'src') && !isLocal(String(value)) && !String(value).startsWith('blob:')) {
    throw new Error(`a link to another place: ${value}`);
  } else {
    element.setAttribute(name, value === true ? '' : String(value));
  }
}

function append(parent, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(parent, child);
    else parent.append(child instanceof Node ? child : String(child));
  }
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) setAttribute(element, name, value);
  append(element, children);
  return element;
}

// An HTML element.
export function h(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

// An element of SVG.
export function s(tag, attributes, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

// Put these children in place of those that are there.
export function fill(element, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  element.replaceChildren(fragment);
  return element;
}

// Set the text, and touch the page only when it is another.
export function setText(element, text) {
  const wanted = String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
  return element;
}

// Show this one node, and touch the page only when it is another: what a user selects there stays.
export function update(element, node) {
  if (element.childNodes.length !== 1 || !element.firstChild.isEqualNode(node)) element.replaceChildren(node);
}

// A list of terms and what they are: pairs of [term, text or node]. Pairs with null are left out.
export function facts(pairs, attributes) {
  return h('dl', { class: 'facts', ...attributes },
    pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
      .map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))));
}

// A part of a view with a heading; `tools` stand beside the heading.
export function section(title, tools, ...children) {
  return h('section', { class: 'panel' },
    h('div', { class: 'panel-head' }, h('h2', {}, title), h('div', { class: 'tools' }, tools)), children);
}

// A button; `kind`: '' | 'primary' | 'danger' | 'quiet'.
export function button(text, onclick, kind = '', attributes = {}) {
  return h('button', { type: 'button', class: `button ${kind}`, onclick, ...attributes }, text);
}
