// Short notices in a corner, read out by screen readers. Errors stay until they are closed.
import { h, button } from './dom.js';

const box = h('div', { class: 'toasts', role: 'status', 'aria-live': 'polite' });
const SHOWN_MS = 5000;
const MOST = 5;

function show(text, kind) {
  const toast = h('div', { class: `toast ${kind}`, role: kind === 'bad' ? 'alert' : null },
    h('span', {}, text), button('×', () => toast.remove(), 'quiet', { 'aria-label': 'close' }));
  if (!box.isConnected) document.body.append(box);
  // The same error, told again and again by a timer, is one.
  for (const other of box.children) {
    if (other.firstChild.textContent === text) other.remove();
  }
  box.append(toast);
  while (box.children.length > MOST) box.firstChild.remove();
  if (kind !== 'bad') setTimeout(() => toast.remove(), SHOWN_MS);
}

export function tell(text) {
  show(text, 'good');
}

export function tellError(error) {
  // What is away has a banner, what needs a login a form.
  if (error.name === 'AbortError' || error.code === 'away' || error.status === 401) return;
  show(error.code && error.code !== 'http' ? `${error.code}: ${error.message}` : error.message, 'bad');
}

// Run an action, and show the error when it fails. Gives whether it worked.
export async function attempt(action, success) {
  try {
    const result = await action();
    if (success) tell(typeof success === 'function' ? success(result) : success);
    return true;
  } catch (error) {
    tellError(error);
    return false;
  }
}
