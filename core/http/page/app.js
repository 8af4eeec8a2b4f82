// The page: header, navigation, login, and the views. A view is added by one row of `views` below.
import { h, fill, button } from './dom.js';
import { api, status, setLogin, forgetLogin, hasLogin } from './api.js';
import { register, navigation, start, visit, leave, currentVisit, setUser, hashOf, parseHash } from './router.js';
import { setGlobalKeys, showKeys } from './keys.js';
import { ask } from './dialog.js';
import { tellError } from './toast.js';
import { followHealth, setHealthView } from './health.js';
import { views } from './views.js';

const main = h('main', { id: 'main', tabindex: -1 });
const nav = h('nav', { 'aria-label': 'views' });
const banner = h('div', { class: 'banner', role: 'alert', hidden: true });
const { notices, badge } = followHealth();
const vhosts = h('select', { 'aria-label': 'vhost', class: 'vhost', hidden: true });
const who = h('span', { class: 'who' });
const node = h('span', { class: 'node' });
let isAsking = false;

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = isDark ? 'light' : 'dark';
  try {
    localStorage.setItem('tidemq.theme', root.dataset.theme);
  } catch {
    // It holds until the page is left.
  }
}

function showNavigation(ctx) {
  const first = ctx.parts[0];
  fill(nav, navigation().map((view) => {
    const isHere = view.path.split('/')[0] === first;
    return h('a', { href: hashOf([view.path], { vhost: ctx.vhost }), 'aria-current': isHere ? 'page' : null,
      title: `g ${view.nav.key}` }, view.nav.text, view.path === 'overview' && badge);
  }));
  setHealthView(ctx);
  if ([...vhosts.options].some((option) => option.value === ctx.vhost)) vhosts.value = ctx.vhost;
}

function showVhosts(names) {
  const here = currentVisit()?.vhost ?? '/';
  const all = names.includes(here) ? names : [here, ...names];
  fill(vhosts, all.map((name) => h('option', { value: name, selected: name === here }, name)));
  vhosts.hidden = all.length < 2;
  // Who may not enter '/' begins where that is allowed.
  const { parts, query } = parseHash(location.hash);
  if (!query.vhost && names.length > 0 && !names.includes('/')) location.hash = hashOf(parts, { ...query, vhost: names[0] });
}

// Each cell of a store with several owners has its own; one without an owner has none.
async function loadVhosts(cells) {
  const asked = Array.from({ length: cells ?? 1 }, (_, cell) => api.get('/api/vhosts', cells && { cell }));
  const answers = await Promise.allSettled(asked);
  const names = answers.flatMap(({ value }) => (value?.items ?? value ?? []).map((vhost) => vhost.name));
  if (answers.some(({ value }) => value)) showVhosts(names);
  else if (answers[0].reason.status !== 401) showVhosts(['/']);
}

// Ask who we are; the first answer decides whether there is a login form.
async function loadUser() {
  const user = await api.get('/api/whoami');
  setUser(user);
  fill(who, user.open ? null : [user.user, ' ',
    hasLogin() ? button('Log out', logOut, 'quiet') : null]);
  fill(node, user.node ? `${user.node} ` : '', h('small', {}, user.version ?? ''));
  await loadVhosts(user.cells);
}

function logOut() {
  forgetLogin();
  location.reload();
}

// What a person who was refused can do about it.
function refusal(error, user) {
  if (error.status !== 401) return error;
  return new Error(`Not logged in as ${user}: ${error.message}. Both are case-sensitive.`);
}

function loginText(isExpired) {
  return [isExpired ? 'The broker refuses the login that this tab kept: the user is gone, or has another password. '
    : 'This broker serves its users alone. ', 'Enter the name and the password of one of them.',
  h('small', { class: 'aside' }, 'You have none? Somebody with the tag admin adds a user: here, under Users, or with ',
    h('code', {}, 'tidemq user add NAME'), '. After a forgotten password: ', h('code', {}, 'tidemq user passwd NAME'), '.')];
}

async function logIn() {
  if (isAsking) return;
  isAsking = true;
  const isExpired = hasLogin();
  forgetLogin();
  const done = await ask({
    title: 'Log in', text: loginText(isExpired), verb: 'Log in',
    specs: [{ name: 'user', label: 'User', required: true, autocomplete: 'username', help: 'a user of this broker, not of this machine' },
      { name: 'password', label: 'Password', type: 'password', autocomplete: 'current-password' }],
    submit: async ({ user, password }) => {
      setLogin(user, password);
      try {
        await loadUser();
      } catch (error) {
        forgetLogin();
        throw refusal(error, user);
      }
    },
  });
  isAsking = false;
  if (done) {
    visit();
    return;
  }
  leave();
  main.removeAttribute('aria-busy');
  fill(main, h('div', { class: 'problem' }, h('h1', {}, 'Not logged in'),
    h('p', {}, 'Nobody is logged in. The broker shows its queues to its users alone.'),
    button('Log in', () => logIn(), 'primary')));
}

function goTo(parts, vhost = currentVisit()?.vhost) {
  location.hash = hashOf(parts, { vhost });
}

function build() {
  document.body.append(
    h('a', { class: 'skip', href: '#main', onclick: (event) => {
      event.preventDefault();
      main.focus();
    } }, 'Skip to the content'),
    h('header', {}, h('a', { href: '#/overview', class: 'brand' }, 'tidemq'), node, vhosts, h('span', { class: 'space' }),
      who, button('?', showKeys, 'quiet', { 'aria-label': 'keys', title: 'keys: ?' }),
      button('◐', toggleTheme, 'quiet', { 'aria-label': 'light or dark', title: 'light or dark' })),
    nav, h('div', { class: 'banners' }, banner, notices), main);
  vhosts.addEventListener('change', () => {
    // What is shown in detail is of one vhost; the list it is in, of any.
    goTo([currentVisit()?.parts[0] ?? 'overview'], vhosts.value);
  });
}

function onAway() {
  banner.hidden = false;
  fill(banner, 'The broker does not answer. Trying again …');
  const look = setInterval(() => api.get('/api/whoami').catch(() => {}), 2000);
  status.addEventListener('back', () => {
    clearInterval(look);
    banner.hidden = true;
    // Another broker may have come back: other users, other vhosts.
    loadUser().catch(tellError).finally(visit);
  }, { once: true });
}

async function run() {
  build();
  register(...views);
  setGlobalKeys({
    '?': ['these keys', showKeys],
    ...Object.fromEntries(navigation().map((view) => [`g ${view.nav.key}`, [view.nav.text, () => goTo([view.path])]])),
    t: ['light or dark', toggleTheme],
  });
  status.addEventListener('away', onAway);
  status.addEventListener('login', logIn);
  start(main, showNavigation);
  try {
    await loadUser();
  } catch (error) {
    tellError(error);
    // Who has to log in has a form by now, and the first view comes after it.
    if (error.status === 401) return;
  }
  visit();
}

run();
