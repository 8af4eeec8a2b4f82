// The broker at a glance.
import { h, section, facts } from './dom.js';
import { api } from './api.js';
import { number } from './format.js';

export const overviewViews = [{
  path: 'overview',
  title: 'Overview',
  nav: { text: 'Overview', key: 'o' },
  async render(ctx) {
    const stats = await api.get('/api/stats', {}, { signal: ctx.signal });
    return h('div', {}, h('h1', {}, 'Overview'), section('Broker', null, facts([
      ['connections', number(stats.connections)],
    ])));
  },
}];
