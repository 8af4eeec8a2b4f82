--- Each operation of the HTTP API, with a request that succeeds and what it needs.
---
--- In paths and bodies stand, for what there is at that moment: `@CONNECTION@` the number of
--- another connection, `@ID@` the id of a ready message of q, `@BURIED@` that of a buried one,
--- `@RECEIPT@` the receipt of one that the asking user holds, `@OFFSET@` likewise of topic t,
--- `@HASH@` that of an older generation of the rules.

---@class HttpOperation
---@field [1] string method and path, as docs/openapi.json has them
---@field path? string that of the request; default: the first field, in the vhost /
---@field body? table
---@field needs? string[][] action, kind and name of each permission; none: any user may
---@field tag? string the tag that it needs instead
---@field free? boolean nobody has to log in
---@field is_endless? boolean the answer is a stream
---@field shadow? boolean candidate rules are in the shadow

local V = '/api/vhosts/{vhost}'
local Q, X, T = V .. '/queues/{queue}', V .. '/exchanges/{exchange}', V .. '/topics/{topic}'
local function read_q() return { { 'read', 'queue', 'q' } } end
local function configure_q() return { { 'configure', 'queue', 'q' } } end
local function read_t() return { { 'read', 'queue', 't' } } end
local function at(path) return '/api/vhosts/%2F' .. path end

---@type HttpOperation[]
return {
  { 'GET /api' },
  { 'GET /api/openapi.json', free = true },
  { 'GET /api/whoami' },
  { 'GET /api/vhosts' },
  { 'PUT /api/vhosts/{name}', path = '/api/vhosts/new', tag = 'admin' },
  { 'DELETE /api/vhosts/{name}', path = '/api/vhosts/new?with-contents=true', tag = 'admin' },
  { 'GET /api/stats', tag = 'monitor' },
  { 'GET /api/history', path = '/api/history?max=2', tag = 'monitor' },
  { 'GET /api/events', path = '/api/events?every=100ms', tag = 'monitor', is_endless = true },
  { 'GET /api/connections', path = '/api/connections?sort=connection&order=desc&max=2&offset=0&match=1',
    tag = 'monitor' },
  { 'GET /api/brokers', path = '/api/brokers?sort=node&order=desc&max=2', tag = 'monitor' },
  { 'DELETE /api/connections/{connection}', path = '/api/connections/@CONNECTION@', tag = 'admin' },
  { 'POST /api/drain', tag = 'admin' },
  { 'DELETE /api/drain', tag = 'admin' },

  { 'GET /api/users', tag = 'admin' },
  { 'PUT /api/users/{user}', path = '/api/users/new',
    body = { tags = { 'monitor' }, limits = { ['max-connections'] = 9 } }, tag = 'admin' },
  { 'DELETE /api/users/{user}', path = '/api/users/gone', tag = 'admin' },
  { 'PUT /api/users/{user}/grants/{of}', path = '/api/users/other/grants/%2F',
    body = { configure = '', write = '^x$', read = '.*' }, tag = 'admin' },
  { 'DELETE /api/users/{user}/grants/{of}', path = '/api/users/other/grants/%2F', tag = 'admin' },

  { 'GET ' .. V .. '/exchanges', path = at '/exchanges?match=x', tag = 'monitor' },
  { 'GET ' .. X, path = at '/exchanges/x', needs = { { 'read', 'exchange', 'x' } } },
  { 'PUT ' .. X, path = at '/exchanges/new', body = { type = 'topic', options = { alternate = 'y' } },
    needs = { { 'configure', 'exchange', 'new' }, { 'read', 'exchange', 'new' }, { 'write', 'exchange', 'y' } } },
  { 'DELETE ' .. X, path = at '/exchanges/x', needs = { { 'configure', 'exchange', 'x' } } },
  { 'POST ' .. X .. '/publish', path = at '/exchanges/x/publish', body = { key = 'k', payload = 'p' },
    needs = { { 'write', 'exchange', 'x' } } },
  { 'POST ' .. X .. '/explain', path = at '/exchanges/x/explain', body = { key = 'k', payload = 'p' },
    tag = 'monitor' },
  { 'GET ' .. V .. '/bindings', path = at '/bindings?exchange=x&destination=q&to=queue', tag = 'monitor' },
  { 'POST ' .. V .. '/bindings', path = at '/bindings',
    body = { exchange = 'x', destination = 'q', pattern = 'more' },
    needs = { { 'read', 'exchange', 'x' }, { 'write', 'queue', 'q' } } },
  { 'DELETE ' .. V .. '/bindings', path = at '/bindings?exchange=x&destination=q&pattern=k',
    needs = { { 'read', 'exchange', 'x' }, { 'write', 'queue', 'q' } } },

  { 'GET ' .. V .. '/queues', path = at '/queues?sort=ready&order=desc&max=2', tag = 'monitor' },
  { 'GET ' .. Q, path = at '/queues/q', needs = read_q() },
  { 'PUT ' .. Q, path = at '/queues/new', body = { options = { ['max-length'] = 10, durable = true } },
    needs = { { 'configure', 'queue', 'new' } } },
  { 'DELETE ' .. Q, path = at '/queues/q?if-unused=true', needs = configure_q() },
  { 'POST ' .. Q .. '/purge', path = at '/queues/q/purge', needs = read_q() },
  { 'POST ' .. Q .. '/redrive', path = at '/queues/q/redrive', body = { max = 10, to = '-/other' },
    needs = { { 'read', 'queue', 'q' }, { 'write', 'queue', 'other' } } },
  { 'POST ' .. Q .. '/kick', path = at '/queues/q/kick', body = { max = 1 }, needs = read_q() },
  { 'POST ' .. Q .. '/pause', path = at '/queues/q/pause', body = { direction = 'in', ['for'] = '10s' },
    needs = configure_q() },
  { 'POST ' .. Q .. '/resume', path = at '/queues/q/resume', body = { direction = 'both' }, needs = configure_q() },
  { 'GET ' .. Q .. '/messages', path = at '/queues/q/messages?state=ready&max=10', needs = read_q() },
  { 'DELETE ' .. Q .. '/messages', path = at '/queues/q/messages?match=nothing', needs = read_q() },
  { 'POST ' .. Q .. '/reschedule', path = at '/queues/q/reschedule', body = { match = 'nothing', pri = 1 },
    needs = read_q() },
  { 'GET ' .. Q .. '/messages/{id}', path = at '/queues/q/messages/@ID@', needs = read_q() },
  { 'DELETE ' .. Q .. '/messages/{id}', path = at '/queues/q/messages/@ID@', needs = read_q() },
  { 'POST ' .. Q .. '/messages/{id}/kick', path = at '/queues/q/messages/@BURIED@/kick', needs = read_q() },
  { 'POST ' .. Q .. '/messages/{id}/reschedule', path = at '/queues/q/messages/@ID@/reschedule',
    body = { delay = '1h' }, needs = read_q() },
  { 'POST ' .. Q .. '/get', path = at '/queues/q/get', body = { max = 2, ['ack-timeout'] = '1m' }, needs = read_q() },
  { 'POST ' .. Q .. '/ack', path = at '/queues/q/ack', body = { receipts = { '@RECEIPT@' } } },
  { 'POST ' .. Q .. '/nack', path = at '/queues/q/nack', body = { receipts = { '@RECEIPT@' }, delay = '1s' } },
  { 'POST ' .. Q .. '/touch', path = at '/queues/q/touch', body = { receipts = { '@RECEIPT@' }, ['for'] = '1m' } },
  { 'GET ' .. Q .. '/history', path = at '/queues/q/history?max=2', needs = read_q() },
  { 'GET ' .. V .. '/consumers', path = at '/consumers?queue=q&group=g', tag = 'monitor' },
  { 'GET ' .. V .. '/locks', path = at '/locks', tag = 'monitor' },

  { 'GET ' .. V .. '/topics', path = at '/topics?sort=lag', tag = 'monitor' },
  { 'GET ' .. T, path = at '/topics/t', needs = read_t() },
  { 'PUT ' .. T, path = at '/topics/new', body = { options = { partitions = 2 } },
    needs = { { 'configure', 'queue', 'new' } } },
  { 'DELETE ' .. T, path = at '/topics/t', needs = { { 'configure', 'queue', 't' } } },
  { 'POST ' .. T .. '/purge', path = at '/topics/t/purge', body = { before = 'last', partition = 0 },
    needs = read_t() },
  { 'GET ' .. T .. '/history', path = at '/topics/t/history?max=2&group=g', needs = read_t() },
  { 'GET ' .. T .. '/messages', path = at '/topics/t/messages?partition=0&offset=first&max=10', needs = read_t() },
  { 'POST ' .. T .. '/get', path = at '/topics/t/get', body = { group = 'g', max = 10 }, needs = read_t() },
  { 'POST ' .. T .. '/ack', path = at '/topics/t/ack', body = { receipts = { '@OFFSET@' } } },
  { 'POST ' .. T .. '/nack', path = at '/topics/t/nack', body = { receipts = { '@OFFSET@' }, requeue = true } },
  { 'POST ' .. T .. '/touch', path = at '/topics/t/touch', body = { receipts = { '@OFFSET@' } } },
  { 'GET ' .. V .. '/groups', path = at '/groups' },
  { 'POST ' .. T .. '/groups/{group}/seek', path = at '/topics/t/groups/g/seek', body = { to = 'first' },
    needs = read_t() },
  { 'POST ' .. T .. '/groups/{group}/pause', path = at '/topics/t/groups/g/pause', body = { ['for'] = '1ms' },
    needs = { { 'configure', 'queue', 't' } } },
  { 'POST ' .. T .. '/groups/{group}/resume', path = at '/topics/t/groups/g/resume',
    needs = { { 'configure', 'queue', 't' } } },
  { 'DELETE ' .. T .. '/groups/{group}', path = at '/topics/t/groups/old',
    needs = { { 'configure', 'queue', 't' } } },

  { 'GET /api/shared', path = '/api/shared?prefix=a', tag = 'monitor' },
  { 'DELETE /api/shared', path = '/api/shared?prefix=none', tag = 'admin' },
  { 'PUT /api/shared/entry', body = { key = 'k', value = 7, ttl = '1h' }, tag = 'admin' },
  { 'GET /api/shared/entry', path = '/api/shared/entry?key=k', tag = 'monitor' },
  { 'DELETE /api/shared/entry', path = '/api/shared/entry?key=k', tag = 'admin' },
  { 'GET /api/rules', tag = 'monitor' },
  { 'GET /api/rules/log', tag = 'admin' },
  { 'GET /api/rules/generations/{hash}', path = '/api/rules/generations/active', tag = 'admin' },
  { 'POST /api/rules/reload', tag = 'admin' },
  { 'POST /api/rules/rollback', tag = 'admin' },
  { 'PUT /api/rules/candidate', body = { files = { ['filter/10-nothing.lua'] = 'return {' } }, tag = 'admin' },
  { 'POST /api/rules/shadow', body = { dir = 'next', share = '50%' }, tag = 'admin' },
  { 'GET /api/rules/shadow', path = '/api/rules/shadow?vhost=%2F', tag = 'admin' },
  { 'POST /api/rules/shadow/promote', tag = 'admin', shadow = true },
  { 'DELETE /api/rules/shadow', tag = 'admin', shadow = true },
  { 'POST /api/rules/replay', body = { dir = 'next' }, tag = 'admin' },
  { 'GET /api/rules/recent', path = '/api/rules/recent?max=5', tag = 'admin' },
  { 'POST /api/rules/simulate/retry',
    body = { name = 'exponential', options = { base = '1s' }, failures = 3, reason = 'nack' }, tag = 'admin' },
  { 'POST /api/rules/simulate/login', body = { user = 'bob', vhost = '/', protocol = 'http' }, tag = 'admin' },
  { 'POST /api/rules/simulate/access', body = { user = 'bob', action = 'read', kind = 'queue', name = 'q' },
    tag = 'admin' },
  { 'POST /api/rules/simulate/declare', body = { kind = 'queue', name = 'q', options = { ttl = '1h' } },
    tag = 'monitor' },

  { 'GET /health/live', free = true },
  { 'GET /health/ready', free = true },
}
