// Which view the page shows: `#/queues/orders?vhost=shop&sort=ready` is the view with the path 'queues/:name', its
// params { name: 'orders' } and its query { vhost: 'shop', sort: 'ready' }.
//
// A view:
//   {
//     path: 'queues/:name',              names of parts begin with a colon
//     title: ({ name }) => name,         or a text
//     nav: { text: 'Queues', key: 'q', group: 1 },   only of views in the navigation: `g q` goes there
//     render(ctx) -> node                or a promise of one; it may throw an ApiError, which is then shown
//   }
// ctx, the visit of a view:
//   params, query, vhost                 as above; vhost is '/' when the query has none
//   signal                               aborted when the view is left: give it to api.get
//   user                                 what /api/whoami says: { user, tags, open, ... }
//   can(tag)                             whether the user has the tag ('monitor', 'admin'); all have, when open
//   href(['queues', name], query)        a link within the page; it keeps the vhost
//   setQuery(changes)                    change the query of the address, without another visit
//   go(href)                             leave for another place
//   every(ms, fn)                        run an async function again and again while the page can be seen
//   keys({ p: ['publish', fn] })         keys of this view
//   onLeave(fn)
//   reload()                             render again
import { h, fill } from './dom.js';
import { setViewKeys, addViewKeys } from './keys.js';
import { tellError } from './toast.js';

const views = [];
let current = null;
let place = null;
let session = { user: { open: true, tags: [] } };
let onVisit = () => {};

export function register(...list) {
  for (const view of list) views.push({ ...view, parts: view.path.split('/') });
}

export function navigation() {
  return views.filter((view) => view.nav);
}

export function parseHash(hash) {
  const [path, query] = hash.replace(/^#?\/?/, '').split(/\?(.*)/s);
  let parts;
  try {
    parts = path.split('/').map(decodeURIComponent);
  } catch {
    parts = [path];
  }
  return { parts, query: Object.fromEntries(new URLSearchParams(query ?? '')) };
}

// The address of a place: its parts, and what of the query is not empty.
export function hashOf(parts, query = {}) {
  const given = Object.entries(query).filter(([k, v]) => v !== undefined && v !== null && v !== '' &&
    !(k === 'vhost' && v === '/'));
  const path = `#/${parts.map(encodeURIComponent).join('/')}`;
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

function find(parts) {
  for (const view of views) {
    if (view.parts.length !== parts.length) continue;
    const params = {};
    const fits = view.parts.every((part, i) => {
      if (!part.startsWith(':')) return part === parts[i];
      params[part.slice(1)] = parts[i];
      return parts[i] !== '';
    });
    if (fits) return { view, params };
  }
  return null;
}

class Visit {
  constructor(view, params, parts, query) {
    this.view = view;
    this.params = params;
    this.parts = parts;
    this.query = query;
    this.vhost = query.vhost ?? '/';
    this.user = session.user;
    this.controller = new AbortController();
    this.signal = this.controller.signal;
    this.leaving = [];
  }

  can(tag) {
    return this.user.open || (this.user.tags ?? []).includes(tag);
  }

  href(parts, query = {}) {
    return hashOf(parts, { vhost: this.vhost, ...query });
  }

  setQuery(changes) {
    Object.assign(this.query, changes);
    history.replaceState(null, '', hashOf(this.parts, this.query));
  }

  go(href) {
    location.hash = href;
  }

  keys(table) {
    if (current === this) addViewKeys(table);
  }

  onLeave(fn) {
    this.leaving.push(fn);
  }

  reload() {
    if (current === this) visit();
  }

  every(ms, fn) {
    let timer = 0;
    let isRunning = false;
    const run = async () => {
      clearTimeout(timer);
      if (this.signal.aborted || isRunning) return;
      if (!document.hidden) {
        isRunning = true;
        try {
          await fn();
        } catch (error) {
          // What is looked at has gone: the view says so.
          if (error.status === 404) this.reload();
          else tellError(error);
        }
        isRunning = false;
      }
      if (!this.signal.aborted) timer = setTimeout(run, ms);
    };
    timer = setTimeout(run, ms);
    const onSeen = () => {
      if (!document.hidden) run();
    };
    document.addEventListener('visibilitychange', onSeen);
    this.onLeave(() => {
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onSeen);
    });
  }

  leave() {
    this.controller.abort();
    for (const fn of this.leaving) fn();
  }
}

function problem(error, ctx) {
  const titles = { 403: 'Not allowed', 404: 'Not found' };
  return h('div', { class: 'problem', role: 'alert' }, h('h1', {}, titles[error.status] ?? 'Not shown'),
    h('p', {}, error.message), h('p', {}, h('code', {}, error.code ?? error.name)),
    h('button', { type: 'button', class: 'button', onclick: () => ctx.reload() }, 'Try again'));
}

async function render(ctx) {
  let node;
  try {
    node = await ctx.view.render(ctx);
  } catch (error) {
    if (ctx.signal.aborted) return;
    if (!error.code) throw error;
    node = problem(error, ctx);
  }
  // By now the user may have gone on to another view.
  if (current !== ctx) return;
  fill(place, node);
  place.removeAttribute('aria-busy');
}

// Show what the address says.
export function visit() {
  const { parts, query } = parseHash(location.hash);
  const found = find(parts) ?? find(['overview']);
  current?.leave();
  const ctx = new Visit(found.view, found.params, parts[0] === '' ? ['overview'] : parts, query);
  const isSameView = current?.view === found.view;
  const isSamePlace = isSameView && current.vhost === ctx.vhost && current.parts.join('/') === ctx.parts.join('/');
  current = ctx;
  setViewKeys({});
  const title = typeof found.view.title === 'function' ? found.view.title(found.params) : found.view.title;
  document.title = `${title} – tidemq`;
  place.setAttribute('aria-busy', 'true');
  if (!isSamePlace) fill(place, h('p', { class: 'loading', role: 'status' }, 'Loading…'));
  onVisit(ctx);
  if (!isSameView) window.scrollTo(0, 0);
  return render(ctx);
}

// Stop what is shown: nothing is asked for any more.
export function leave() {
  current?.leave();
  current = null;
}

export function currentVisit() {
  return current;
}

export function setUser(user) {
  session = { user };
}

// `element` shows the views; `visited(ctx)` is called at each visit.
export function start(element, visited) {
  place = element;
  onVisit = visited;
  window.addEventListener('hashchange', visit);
}
