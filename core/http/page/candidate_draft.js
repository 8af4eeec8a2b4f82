// Candidate rules before they are on the broker: the files of a directory that was chosen, or those of the active rules
// with some edited.
import { loadFiles } from './source.js';
import { diffFiles } from './diff.js';

// It outlives the view, so that somebody may look something up meanwhile.
let draft = null; // { files, from: 'directory' | 'active', leftOut }

export function current() {
  return draft;
}

export function discard() {
  draft = null;
}

// Only scripts are rules. Specs run with the broker's rights, and so the broker takes none.
function isRule(path) {
  return path.endsWith('.lua') && !path.endsWith('_spec.lua') && !path.split('/').some((part) => part.startsWith('.'));
}

// What <input type=file webkitdirectory> gives. The name of the directory itself is left out.
export async function readDirectory(list) {
  const files = {};
  let leftOut = 0;
  for (const file of list) {
    const path = (file.webkitRelativePath || file.name).split('/').slice(file.webkitRelativePath ? 1 : 0).join('/');
    if (isRule(path)) files[path] = await file.text();
    else leftOut++;
  }
  if (Object.keys(files).length === 0) throw new Error('there is no script (*.lua) in this directory');
  draft = { files, from: 'directory', leftOut };
  return draft;
}

// Begin with the active rules, unless something is begun.
export async function begin() {
  if (draft) return draft;
  const active = await loadFiles();
  const files = Object.fromEntries(Object.entries(active.files).filter(([path]) => isRule(path)));
  draft = { files, from: 'active', leftOut: 0 };
  return draft;
}

// Set a file; null removes it.
export async function edit(path, text) {
  await begin();
  if (text === null) delete draft.files[path];
  else draft.files[path] = text;
  return draft;
}

// The shipped script that a file of this path would hide; undefined if there is none.
export async function shippedText(path) {
  return (await loadFiles()).shipped[`shipped/${path}`];
}

// How the draft differs from the active rules.
export async function changes() {
  const active = await loadFiles();
  const before = Object.fromEntries(Object.entries(active.files).filter(([path]) => isRule(path)));
  return { before, list: diffFiles(before, draft.files) };
}
