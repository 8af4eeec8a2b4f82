// Keys. Single ones do nothing while somebody types, or while a dialog is open.
//
// A table of keys is { key: [what it does, function] }; `g q` is g, then q within a second.
import { h } from './dom.js';
import { show } from './dialog.js';

const everywhere = new Map();
let ofView = new Map();
let pending = '';
let pendingTimer = 0;

export function setGlobalKeys(table) {
  for (const [key, entry] of Object.entries(table)) everywhere.set(key, entry);
}

export function setViewKeys(table) {
  ofView = new Map(Object.entries(table));
}

export function addViewKeys(table) {
  for (const [key, entry] of Object.entries(table)) ofView.set(key, entry);
}

function help(title, table) {
  return table.size === 0 ? null : [h('h3', {}, title), h('dl', { class: 'keys' },
    [...table].map(([key, [text]]) => h('div', {},
      h('dt', {}, key.split(' ').map((k) => h('kbd', {}, k))), h('dd', {}, text))))];
}

export function showKeys() {
  if (document.querySelector('dialog[open]')) return;
  show('Keys', help('This view', ofView), help('Everywhere', everywhere));
}

function isTyping(target) {
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName);
}

function forget() {
  pending = '';
  clearTimeout(pendingTimer);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  if (isTyping(event.target)) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const key = pending ? `${pending} ${event.key}` : event.key;
  forget();
  const entry = ofView.get(key) ?? everywhere.get(key);
  if (entry) {
    event.preventDefault();
    entry[1]();
  } else if ([...ofView.keys(), ...everywhere.keys()].some((k) => k.startsWith(`${key} `))) {
    pending = key;
    pendingTimer = setTimeout(forget, 1000);
  }
}

document.addEventListener('keydown', onKey);
