// The pages of the rules.
import { h } from './dom.js';

const TABS = [
  ['', 'Active'], ['generations', 'Generations'], ['candidate', 'Candidate'], ['replay', 'Replay'],
  ['recent', 'Recent publishes'], ['source', 'Source'],
];

// Who may look at the active rules alone gets none.
export function rulesTabs(ctx, here) {
  if (!ctx.can('admin')) return null;
  return h('div', { class: 'tabs', role: 'navigation', 'aria-label': 'pages of the rules' }, TABS.map(([path, text]) =>
    h('a', { href: ctx.href(path ? ['rules', path] : ['rules']),
      'aria-current': path === here ? 'page' : null }, text)));
}
