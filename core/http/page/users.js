// Users: the list, and one in detail.
import { h, section, button, facts } from './dom.js';
import { api, ApiError, setLogin } from './api.js';
import { ask, confirm } from './dialog.js';
import { table, pageOf, plainTable } from './table.js';
import { number } from './format.js';
import { tell } from './toast.js';

const LIMITS = [['max-connections', 'Most connections'], ['max-channels', 'Most channels'],
  ['publish-rate', 'Messages a second'], ['publish-bytes', 'Bytes a second']];

function pathOf(name, ...more) {
  return ['/api/users', ...[name, ...more].map(encodeURIComponent)].join('/');
}

function tagsOf(user) {
  return Array.isArray(user.tags) ? user.tags.join(',') : user.tags ?? '';
}

async function loadUsers(ctx) {
  const answer = await api.get('/api/users', {}, { signal: ctx.signal });
  return answer.items ?? answer;
}

function tagFields(user = {}) {
  const tags = tagsOf(user).split(',');
  return [
    { name: 'monitor', label: 'monitor: sees everything', type: 'checkbox', value: tags.includes('monitor') },
    { name: 'admin', label: 'admin: may change everything', type: 'checkbox', value: tags.includes('admin') },
  ];
}

function givenTags({ monitor, admin }) {
  return [admin && 'admin', monitor && 'monitor'].filter(Boolean).join(',');
}

function addUser(ctx, isFirst, done) {
  return ask({
    title: 'New user', verb: 'Add',
    text: isFirst ? 'This is the first user: from now on everybody has to log in. It needs the tag admin and a password.' : null,
    specs: [
      { name: 'name', label: 'Name', required: true, autocomplete: 'username' },
      { name: 'password', label: 'Password', type: 'password', autocomplete: 'new-password',
        help: 'without one it logs in by a certificate or a script alone' },
      ...tagFields(isFirst ? { tags: 'admin' } : {}),
    ],
    submit: async ({ name, password, ...tags }) => {
      await api.put(pathOf(name), { ...(password ? { password } : {}), tags: givenTags(tags) });
      ctx.go(ctx.href(['users', name]));
      if (isFirst) {
        // From now on nobody is let in without a login: we are this one.
        setLogin(name, password);
        location.reload();
      } else {
        tell(`User ${name} is there.`);
      }
    },
  }).then(done);
}

const columns = [
  { key: 'name', text: 'Name', sort: true, cell: (u) => u.name },
  { key: 'tags', text: 'Tags', cell: tagsOf },
  { key: 'vhosts', text: 'Vhosts', cell: (u) => Object.keys(u.vhosts ?? {}).join(' ') },
  { key: 'password', text: 'Password', cell: (u) => (u.unreadable ? h('span', { class: 'badge bad', title: u.unreadable }, 'unreadable')
    : u.password ? 'yes' : 'none') },
  { key: 'connections', text: 'Connections', sort: true, numeric: true, cell: (u) => number(u.connections) },
];

const listView = {
  path: 'users',
  title: 'Users',
  nav: { text: 'Users', key: 'u' },
  async render(ctx) {
    let count = 0;
    const add = () => addUser(ctx, ctx.user.open && count === 0, (done) => done && list.refresh());
    const list = table(ctx, {
      name: 'users', columns, sort: 'name', id: (u) => u.name, href: (u) => ctx.href(['users', u.name]),
      empty: 'No user is defined: everybody who reaches the broker may do everything.',
      load: async (state) => {
        const users = await loadUsers(ctx);
        count = users.length;
        return pageOf(users, state);
      },
      tools: [button('New user', add, 'primary')],
    });
    ctx.keys({ n: ['new user', add] });
    await list.refresh();
    ctx.every(10000, list.refresh);
    return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Users')), list.node);
  },
};

function changePassword(user) {
  return ask({
    title: `Password of ${user.name}`, verb: 'Change',
    specs: [{ name: 'user', label: 'User', value: user.name, readOnly: true, autocomplete: 'username' },
      { name: 'password', label: 'New password', type: 'password', required: true, autocomplete: 'new-password' }],
    submit: async ({ password }) => {
      await api.put(pathOf(user.name), { password });
      tell('The password is changed.');
    },
  });
}

function changeTags(user) {
  return ask({
    title: `Tags of ${user.name}`, verb: 'Change', specs: tagFields(user),
    submit: (values) => api.put(pathOf(user.name), { tags: givenTags(values) }),
  });
}

function changeLimits(user) {
  return ask({
    title: `Limits of ${user.name}`, verb: 'Change',
    specs: LIMITS.map(([name, label]) => ({ name, label, type: 'number', min: 0, value: user.limits?.[name] || '',
      placeholder: 'no limit' })),
    submit: (values) => api.put(pathOf(user.name), {
      limits: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, value ?? 0])),
    }),
  });
}

function grant(user, vhost, patterns = {}) {
  return ask({
    title: vhost === undefined ? 'Grant' : `Grant in ${vhost}`, verb: 'Grant',
    text: 'Regular expressions of names; an empty one matches nothing.',
    specs: [
      ...(vhost === undefined ? [{ name: 'vhost', label: 'Vhost', required: true, value: '/' }] : []),
      ...['configure', 'write', 'read'].map((name) => ({ name, label: name, value: patterns[name] ?? '', placeholder: '^orders' })),
    ],
    submit: ({ vhost: to = vhost, ...values }) => api.put(pathOf(user.name, 'grants', to), values),
  });
}

function revoke(user, vhost) {
  return confirm({
    title: 'Take the grant away?', verb: 'Revoke', text: `${user.name} may not enter the vhost ${vhost} any more.`,
    submit: () => api.delete(pathOf(user.name, 'grants', vhost)),
  });
}

function grantsTable(user, run) {
  const rows = Object.entries(user.vhosts ?? {});
  if (rows.length === 0) return h('p', { class: 'dim' }, 'It may enter no vhost.');
  const names = ['configure', 'write', 'read'];
  return plainTable('grants', [{ text: 'Vhost' }, ...names.map((text) => ({ text, class: 'mono' })), { text: '' }],
    rows.map(([vhost, patterns]) => [vhost, ...names.map((name) => patterns[name] ?? ''), h('span', { class: 'tools' },
      button('Change', () => run(() => grant(user, vhost, patterns)), 'small'),
      button('Revoke', () => run(() => revoke(user, vhost)), 'small danger'))]));
}

const detailView = {
  path: 'users/:name',
  title: ({ name }) => `User ${name}`,
  async render(ctx) {
    const user = (await loadUsers(ctx)).find((one) => one.name === ctx.params.name);
    if (!user) throw new ApiError('not-found', `there is no user '${ctx.params.name}'`, 404);
    const run = async (action) => {
      if (await action()) ctx.reload();
    };
    const remove = async () => {
      const done = await confirm({
        title: 'Delete the user?', verb: 'Delete', typed: user.name, text: 'Its connections end.',
        submit: () => api.delete(pathOf(user.name)),
      });
      if (done) ctx.go(ctx.href(['users']));
    };
    return h('div', {},
      h('div', { class: 'view-head' }, h('h1', {}, user.name), h('div', { class: 'tools' },
        button('Password', () => run(() => changePassword(user))), button('Tags', () => run(() => changeTags(user))),
        button('Limits', () => run(() => changeLimits(user))), button('Delete', remove, 'danger'))),
      user.unreadable && h('p', { class: 'notice bad' }, user.unreadable),
      section('User', null, facts([
        ['tags', tagsOf(user) || 'none'], ['password', user.password ? 'yes' : 'none'], ['connections', number(user.connections)],
        ...LIMITS.map(([name, label]) => [label.toLowerCase(), user.limits?.[name] ? number(user.limits[name]) : 'no limit']),
      ])),
      section('Grants', button('Grant', () => run(() => grant(user)), 'primary'), grantsTable(user, run)));
  },
};

export const userViews = [listView, detailView];
