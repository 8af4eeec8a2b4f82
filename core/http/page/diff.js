// The difference of two texts by lines, and of two sets of files.
import { h } from './dom.js';

const CONTEXT = 3;
const STEPS_MAX = 4000; // more lines differ than anybody reads: everything out, everything in

// Myers' shortest edit script. Gives the positions that the search reached, one array a step; null: too different.
function search(a, b) {
  const size = Math.min(a.length + b.length, STEPS_MAX);
  let furthest = new Map([[1, 0]]);
  const trace = [];
  for (let d = 0; d <= size; d++) {
    trace.push(new Map(furthest));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && furthest.get(k - 1) < furthest.get(k + 1));
      let x = down ? furthest.get(k + 1) : furthest.get(k - 1) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return trace;
    }
  }
  return null;
}

function walkBack(a, b, trace) {
  const steps = [];
  let [x, y] = [a.length, b.length];
  for (let d = trace.length - 1; d >= 0; d--) {
    const furthest = trace[d];
    const k = x - y;
    const down = k === -d || (k !== d && furthest.get(k - 1) < furthest.get(k + 1));
    const from = down ? k + 1 : k - 1;
    const [x0, y0] = d === 0 ? [0, 0] : [furthest.get(from), furthest.get(from) - from];
    while (x > x0 && y > y0) {
      steps.push({ kind: 'same', left: x, right: y, text: a[x - 1] });
      x--;
      y--;
    }
    if (d === 0) break;
    if (down) steps.push({ kind: 'added', right: y, text: b[y - 1] });
    else steps.push({ kind: 'removed', left: x, text: a[x - 1] });
    [x, y] = [x0, y0];
  }
  return steps.reverse();
}

function linesOf(text) {
  if (!text) return [];
  return text.replace(/\n$/, '').split('\n');
}

// The lines of both texts in one order: [{ kind: 'same' | 'added' | 'removed', left, right, text }], with their numbers
// in each.
export function diffLines(before, after) {
  const [a, b] = [linesOf(before), linesOf(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const [x, y] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const trace = search(x, y);
  const middle = trace ? walkBack(x, y, trace)
    : [...x.map((text, i) => ({ kind: 'removed', left: i + 1, text })),
      ...y.map((text, i) => ({ kind: 'added', right: i + 1, text }))];
  const same = (from, count, shift) => Array.from({ length: count }, (_, i) => ({ kind: 'same', left: from + i + 1,
    right: from + i + 1 + shift, text: a[from + i] }));
  return [...same(0, head, 0),
    ...middle.map((step) => ({ ...step, left: step.left && step.left + head, right: step.right && step.right + head })),
    ...same(a.length - tail, tail, b.length - a.length)];
}

// Leave out what is far from a change: { kind: 'skipped', count } stands for it.
function contract(steps) {
  const near = new Array(steps.length).fill(false);
  steps.forEach((step, i) => {
    if (step.kind === 'same') return;
    near.fill(true, Math.max(0, i - CONTEXT), i + CONTEXT + 1);
  });
  const out = [];
  steps.forEach((step, i) => {
    const last = out[out.length - 1];
    if (near[i]) out.push(step);
    else if (last?.kind === 'skipped') last.count++;
    else out.push({ kind: 'skipped', count: 1 });
  });
  return out;
}

function skippedRow(step, columns) {
  return h('tr', { class: 'skipped' }, h('td', { colspan: columns },
    step.count === 1 ? '… one line' : `… ${step.count} lines`));
}

function unified(steps) {
  const signs = { same: ' ', added: '+', removed: '-' };
  return contract(steps).map((step) => (step.kind === 'skipped' ? skippedRow(step, 4)
    : h('tr', { class: step.kind === 'same' ? null : step.kind }, h('td', { class: 'line-number' }, step.left ?? ''),
      h('td', { class: 'line-number' }, step.right ?? ''), h('td', { class: 'line-number' }, signs[step.kind]),
      h('td', {}, step.text))));
}

function pairRow(left, right) {
  const cells = (step, kind) => [h('td', { class: 'line-number' }, step?.[kind] ?? ''),
    h('td', { class: step && step.kind !== 'same' ? step.kind : null }, step?.text ?? '')];
  return h('tr', {}, cells(left, 'left'), cells(right, 'right'));
}

// What is removed stands beside what is added in its place.
function sideBySide(steps) {
  const rows = [];
  const list = contract(steps);
  for (let i = 0; i < list.length;) {
    if (list[i].kind === 'skipped') rows.push(skippedRow(list[i++], 4));
    else if (list[i].kind === 'same') rows.push(pairRow(list[i], list[i++]));
    else {
      const removed = [];
      const added = [];
      while (i < list.length && list[i].kind === 'removed') removed.push(list[i++]);
      while (i < list.length && list[i].kind === 'added') added.push(list[i++]);
      for (let n = 0; n < Math.max(removed.length, added.length); n++) rows.push(pairRow(removed[n], added[n]));
    }
  }
  return rows;
}

// `mode`: 'unified' or 'sides'.
export function diffTable(before, after, mode) {
  const steps = diffLines(before, after);
  return h('div', { class: 'source', tabindex: 0, role: 'region', 'aria-label': 'difference' },
    h('table', { 'data-mode': mode }, h('tbody', {}, mode === 'sides' ? sideBySide(steps) : unified(steps))));
}

// Files that differ, by name: [{ file, kind: 'added' | 'removed' | 'changed', added, removed }], the last two in lines.
export function diffFiles(before, after) {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  return names.filter((name) => before[name] !== after[name]).map((file) => {
    const steps = diffLines(before[file], after[file]);
    const kind = before[file] === undefined ? 'added' : after[file] === undefined ? 'removed' : 'changed';
    return { file, kind, added: steps.filter((step) => step.kind === 'added').length,
      removed: steps.filter((step) => step.kind === 'removed').length };
  });
}
