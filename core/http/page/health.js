// What is wrong with the broker, as /health/ready says it: notices above every view, and their number in the menu. It
// needs no login, so the page says it before one too. The overview has the same from STATS, which names queues.
import { h, update, setText } from './dom.js';
import { loadHealth } from './api.js';
import { count } from './format.js';

const EVERY_MS = 5000;
const FEW = 2; // above another view than the overview, which has them all

const notices = h('div', { role: 'status' });
const badge = h('span', { class: 'count', hidden: true });
let report = {};
let named;
let overviewHref; // of another view

function noticesOf(list, most) {
  const shown = list.slice(0, most).map(([mood, { code, text }]) => h('p', { class: `notice ${mood}` },
    h('strong', {}, code), ` ${text}`));
  return h('div', { class: 'notices', 'data-part': 'health', hidden: list.length === 0 }, shown,
    list.length > most && h('p', { class: 'notice' }, h('a', { href: overviewHref }, `${list.length - most} more`)));
}

function listOf({ reasons = [], warnings = [] }) {
  return [...reasons.map((one) => ['bad', one]), ...warnings.map((one) => ['warn', one])];
}

function show() {
  const list = listOf(named ?? report);
  update(notices, noticesOf(list, overviewHref ? FEW : list.length));
  badge.hidden = list.length === 0;
  badge.setAttribute('aria-label', count(list.length, 'problem'));
  setText(badge, list.length);
}

// Ask now, as after something that changes the answer.
export async function lookAtHealth() {
  if (document.hidden) return;
  try {
    report = await loadHealth();
  } catch {
    report = {}; // it is away, which the page says in another place
  }
  show();
}

export function setHealthView(ctx) {
  overviewHref = ctx.view.path === 'overview' ? undefined : ctx.href(['overview']);
  named = undefined;
  show();
}

// `health` of STATS; undefined: it has none.
export function setNamedHealth(health) {
  named = health;
  show();
}

async function keepLooking() {
  await lookAtHealth();
  setTimeout(keepLooking, EVERY_MS);
}

// Begin to ask. Gives { notices, badge }, two elements.
export function followHealth() {
  keepLooking();
  document.addEventListener('visibilitychange', lookAtHealth);
  return { notices, badge };
}
