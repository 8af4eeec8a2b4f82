-- What a user may do: each verb asks for it, and so does what a request leads to.
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local Stomp = require 'support.stomp'
local shell = require 'support.shell'
local users = require 'support.users'
local verbs = require 'support.line_verbs'
local wait = require 'support.wait'

local VERBS = { configure = 'configure', write = 'write to', read = 'read from' }
local KINDS = { exchange = 'exchange', queue = 'queue or topic', lock = 'lock' }

local function refusal(user, action, kind, name, vhost)
  return ("ERR denied user '%s' may not %s %s '%s' in vhost '%s'"):format(user, VERBS[action], KINDS[kind], name,
    vhost or '/')
end

--- @class Row
--- @field [1] string the request; `@CONNECTION@` is the number of another connection
--- @field payload? string
--- @field needs? string[][] action, kind and name of each permission; none: any user may
--- @field tag? string the tag that it needs instead
local ROWS = {
  { 'HELLO' }, { 'PING' }, { 'HELP' }, { 'QUIT' }, { '@1 OPEN' }, { '@1 CLOSE' },
  { 'ACK 1' }, { 'NACK 1' }, { 'TOUCH 1' }, { 'UNSUB s' }, { 'BEGIN' }, { 'COMMIT' }, { 'ROLLBACK' },
  { 'DECLARE queue new', needs = { { 'configure', 'queue', 'new' } } },
  { 'DECLARE topic new', needs = { { 'configure', 'queue', 'new' } } },
  { 'DECLARE exchange new direct', needs = { { 'configure', 'exchange', 'new' } } },
  { 'DECLARE queue new dead-letter=x/k',
    needs = { { 'configure', 'queue', 'new' }, { 'read', 'queue', 'new' }, { 'write', 'exchange', 'x' } } },
  { 'DECLARE queue new dead-letter=x',
    needs = { { 'configure', 'queue', 'new' }, { 'read', 'queue', 'new' }, { 'write', 'exchange', 'x' } } },
  { 'DECLARE queue new dead-letter=-/other',
    needs = { { 'configure', 'queue', 'new' }, { 'read', 'queue', 'new' }, { 'write', 'queue', 'other' } } },
  { 'DECLARE topic new dead-letter=-/other',
    needs = { { 'configure', 'queue', 'new' }, { 'read', 'queue', 'new' }, { 'write', 'queue', 'other' } } },
  { 'DECLARE exchange new direct alternate=y',
    needs = { { 'configure', 'exchange', 'new' }, { 'read', 'exchange', 'new' }, { 'write', 'exchange', 'y' } } },
  { 'DECLARE vhost new', tag = 'admin' }, { 'DELETE vhost new', tag = 'admin' },
  { 'DELETE queue q', needs = { { 'configure', 'queue', 'q' } } },
  { 'DELETE topic t', needs = { { 'configure', 'queue', 't' } } },
  { 'DELETE exchange x', needs = { { 'configure', 'exchange', 'x' } } },
  { 'DELETE group t g', needs = { { 'configure', 'queue', 't' } } },
  { 'PAUSE group t g', needs = { { 'configure', 'queue', 't' } } },
  { 'RESUME group t g', needs = { { 'configure', 'queue', 't' } } },
  { 'BIND q x k', needs = { { 'read', 'exchange', 'x' }, { 'write', 'queue', 'q' } } },
  { 'BIND y x k dest=exchange', needs = { { 'read', 'exchange', 'x' }, { 'write', 'exchange', 'y' } } },
  { 'UNBIND q x bound', needs = { { 'read', 'exchange', 'x' }, { 'write', 'queue', 'q' } } },
  { 'PUB x k', payload = 'p', needs = { { 'write', 'exchange', 'x' } } },
  { 'PUB - q', payload = 'p', needs = { { 'write', 'queue', 'q' } } },
  { 'PUB - t', payload = 'p', needs = { { 'write', 'queue', 't' } } },
  { 'SUB q s', needs = { { 'read', 'queue', 'q' } } },
  { 'SUB t s group=g', needs = { { 'read', 'queue', 't' } } },
  { 'SEEK t g first', needs = { { 'read', 'queue', 't' } } },
  { 'GET q', needs = { { 'read', 'queue', 'q' } } },
  { 'GET q other', needs = { { 'read', 'queue', 'q' }, { 'read', 'queue', 'other' } } },
  { 'GET q id=0000000000000001', needs = { { 'read', 'queue', 'q' } } },
  { 'GET t group=g', needs = { { 'read', 'queue', 't' } } },
  { 'PEEK q', needs = { { 'read', 'queue', 'q' } } },
  { 'PEEK t', needs = { { 'read', 'queue', 't' } } },
  { 'REDRIVE q', needs = { { 'read', 'queue', 'q' } } },
  { 'REDRIVE q to=x/k', needs = { { 'read', 'queue', 'q' }, { 'write', 'exchange', 'x' } } },
  { 'REDRIVE q to=-/other', needs = { { 'read', 'queue', 'q' }, { 'write', 'queue', 'other' } } },
  { 'DECLARE queue q ttl=1h update', needs = { { 'configure', 'queue', 'q' } } },
  { 'PURGE q', needs = { { 'read', 'queue', 'q' } } },
  { 'PURGE t', needs = { { 'read', 'queue', 't' } } },
  { 'KICK q', needs = { { 'read', 'queue', 'q' } } },
  { 'KICK q id=0000000000000001', needs = { { 'read', 'queue', 'q' } } },
  { 'FIND q 0000000000000001', needs = { { 'read', 'queue', 'q' } } },
  { 'REMOVE q 0000000000000001', needs = { { 'read', 'queue', 'q' } } },
  { 'RESCHEDULE q 0000000000000001 delay=1s', needs = { { 'read', 'queue', 'q' } } },
  { 'PAUSE q in', needs = { { 'configure', 'queue', 'q' } } },
  { 'RESUME q', needs = { { 'configure', 'queue', 'q' } } },
  { 'LIST queues', tag = 'monitor' }, { 'LIST exchanges', tag = 'monitor' }, { 'LIST topics', tag = 'monitor' },
  { 'LIST bindings', tag = 'monitor' }, { 'LIST consumers', tag = 'monitor' },
  { 'LIST connections', tag = 'monitor' }, { 'LIST locks', tag = 'monitor' }, { 'LIST rules', tag = 'monitor' },
  { 'LIST history', tag = 'monitor' }, { 'LIST now', tag = 'monitor' },
  { 'LIST groups' }, { 'LIST vhosts' },
  { 'STATS', tag = 'monitor' }, { 'STATS exchange -', tag = 'monitor' },
  { 'STATS q', needs = { { 'read', 'queue', 'q' } } },
  { 'STATS topic t', needs = { { 'read', 'queue', 't' } } },
  { 'STATS queue q', needs = { { 'read', 'queue', 'q' } } },
  { 'STATS exchange x', needs = { { 'read', 'exchange', 'x' } } },
  { 'RULES status', tag = 'monitor' },
  { 'RULES eval code=1', tag = 'admin' },
  { 'RULES show topic', tag = 'monitor' }, { 'RULES show topic source', tag = 'admin' },
  { 'RULES reload', tag = 'admin' }, { 'RULES log', tag = 'admin' }, { 'RULES rollback', tag = 'admin' },
  { 'RULES shadow status', tag = 'admin' }, { 'RULES shadow drop', tag = 'admin' },
  { 'RULES shadow promote', tag = 'admin' }, { 'RULES shadow no-such-directory', tag = 'admin' },
  { 'RULES recent', tag = 'admin' }, { 'RULES replay no-such-directory', tag = 'admin' },
  { 'RULES simulate retry fixed', tag = 'admin' },
  { 'RULES simulate declare kind=queue name=q', tag = 'monitor' },
  { 'SHARED list', tag = 'monitor' }, { 'SHARED get key=k', tag = 'monitor' },
  { 'SHARED set key=k value=v', tag = 'admin' }, { 'SHARED delete key=k', tag = 'admin' },
  { 'SHARED clear prefix=none', tag = 'admin' },
  { 'EXPLAIN x k', tag = 'monitor' }, { 'EXPLAIN - q', tag = 'monitor' },
  { 'TRACE x k', tag = 'monitor', needs = { { 'read', 'exchange', 'x' } } },
  { 'TRACE - q', tag = 'monitor', needs = { { 'read', 'queue', 'q' } } },
  { 'LOCK l', needs = { { 'write', 'lock', 'l' } } },
  { 'UNLOCK l 1', needs = { { 'write', 'lock', 'l' } } },
  { 'CHECK l 1', needs = { { 'read', 'lock', 'l' } } },
  { 'KILL connection @CONNECTION@', tag = 'admin' },
  { 'DRAIN', tag = 'admin' }, { 'DRAIN off', tag = 'admin' },
  { 'USER list', tag = 'admin' }, { 'USER revoke nobody /', tag = 'admin' },
}

local function verb_of(row) return row[1]:gsub('^@1 ', ''):match '^%u+' end

--- The patterns for exactly these permissions.
local function patterns_for(needs, except)
  local names = { configure = {}, write = {}, read = {} }
  for i, need in ipairs(needs) do
    if i ~= except then table.insert(names[need[1]], '^' .. need[3] .. '$') end
  end
  local patterns = {}
  for action, list in pairs(names) do patterns[action] = table.concat(list, '|') end
  return patterns
end

local ALL = { configure = '.*', write = '.*', read = '.*' }

describe('a permission', function()
  local broker, admin

  setup(function()
    broker = Broker.start { redis = {}, stopped = true }
    local table_of_users = {
      root = { tags = { 'admin' }, vhosts = { ['/'] = ALL, shop = ALL } },
      watcher = { tags = { 'monitor' } },
      nothing = { vhosts = { ['/'] = {} } },
      all = { vhosts = { ['/'] = ALL } },
    }
    for i, row in ipairs(ROWS) do
      local needs = row.needs or {}
      local tags = row.tag and row.needs and { row.tag } or nil
      table_of_users['may-' .. i] = { tags = tags, vhosts = { ['/'] = patterns_for(needs) } }
      for k in ipairs(needs) do
        table_of_users[('not-%d-%d'):format(i, k)] = { tags = tags, vhosts = { ['/'] = patterns_for(needs, k) } }
      end
    end
    users.restore(broker.redis, table_of_users)
    broker:run()
    admin = users.connect(broker, 'root')
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  --- What the rows name is there, and what they make is not.
  local function prepare()
    for _, line in ipairs {
      'DRAIN off', 'DELETE topic t', 'DELETE queue new', 'DELETE topic new', 'DELETE exchange new', 'DECLARE queue q',
      'DECLARE queue other', 'DECLARE topic t', 'DECLARE exchange x direct', 'DECLARE exchange y direct',
      'BIND q x bound', 'BIND q x k', 'RESUME q', 'PURGE q',
    } do
      admin:request(line)
    end
    admin:get 't group=g'
  end

  --- The first line of the answer.
  local function ask(c, row)
    local victim = users.connect(broker, 'root')
    local number
    for _, connection in ipairs(admin:document 'LIST connections') do number = connection.connection end
    local line = row[1]:gsub('@CONNECTION@', tostring(number))
    local answer = c:request(line, row.payload)
    victim:close()
    return (answer:gsub('^@1 ', ''))
  end

  it('has a row here for each verb', function()
    local has = {}
    for _, row in ipairs(ROWS) do has[verb_of(row)] = true end
    local count = 0
    for verb in pairs(verbs) do
      count = count + 1
      assert.is_true(has[verb], verb .. ' has no row in this file: which permission does it need?')
    end
    assert.is_true(count > 30)
  end)

  it('is in the table of docs/protocol-connections.md, for each verb', function()
    local text = shell.read_file 'docs/protocol-connections.md':match '\n## Permissions\n(.-)\n## '
    for _, row in ipairs(ROWS) do
      assert.is_truthy(text:find('`' .. verb_of(row), 1, true), verb_of(row))
    end
  end)

  for i, row in ipairs(ROWS) do
    local what = row.needs and ' for what it names' or row.tag and ' as a tag' or ', which needs none'
    it('is asked by ' .. row[1] .. what,
      function()
        prepare()
        for k, need in ipairs(row.needs or {}) do
          local name = ('not-%d-%d'):format(i, k)
          local c = users.connect(broker, name)
          assert.equal(refusal(name, table.unpack(need)), ask(c, row))
          c:close()
        end
        if row.tag then
          for _, name in ipairs { 'all', row.tag == 'admin' and 'watcher' or nil } do
            local c = users.connect(broker, name)
            assert.matches(("^ERR denied %%u+[%%l%%u ]* needs a user with the tag %s, and user '%s' has not$"):format(
              row.tag, name), ask(c, row))
            c:close()
          end
        end
        local tagged = row.tag and not row.needs and (row.tag == 'admin' and 'root' or 'watcher')
        local c = users.connect(broker, tagged or 'may-' .. i)
        assert.not_matches(row[1] == 'HELLO' and '^ERR denied user' or '^ERR denied', ask(c, row))
        c:close()
      end)
  end

  it('tells nobody which names there are', function()
    prepare()
    local c = users.connect(broker, 'nothing')
    for _, words in ipairs {
      { 'PUB %s k', 'exchange', 'write', 'x' }, { 'PUB - %s', 'queue', 'write', 'q' },
      { 'GET %s', 'queue', 'read', 'q' },
      { 'SUB %s s', 'queue', 'read', 't' }, { 'SEEK %s g first', 'queue', 'read', 't' },
      { 'DELETE exchange %s', 'exchange', 'configure', 'x' }, { 'DELETE topic %s', 'queue', 'configure', 't' },
      { 'BIND q %s k', 'exchange', 'read', 'x' }, { 'GET %s group=g', 'queue', 'read', 'q' },
      { 'STATS exchange %s', 'exchange', 'read', 'x' }, { 'DECLARE queue %s', 'queue', 'configure', 'q' },
    } do
      for _, name in ipairs { words[4], 'absent' } do
        assert.equal(refusal('nothing', words[3], words[2], name),
          c:request(words[1]:format(name), words[1]:find '^PUB' and 'p' or nil))
      end
    end
    c:close()
  end)
end)

-- ---- what a request leads to ---------------------------------------------------

describe('the permission of who publishes', function()
  local broker, admin, c

  setup(function()
    broker = Broker.start {
      redis = {}, stopped = true,
      rules = {
        ['filter/50-sends.lua'] = [[
return {
  match = { exchange = "*" },
  publish = function(msg)
    if msg.headers.to then msg.exchange = msg.headers.to end
    if msg.headers.key then msg.key = msg.headers.key end
    if msg.headers.copy and msg.exchange ~= msg.headers.copy then msg:copy { exchange = msg.headers.copy } end
  end,
}
]],
      },
    }
    users.restore(broker.redis, {
      root = { tags = { 'admin' }, vhosts = { ['/'] = ALL } },
      bob = { vhosts = { ['/'] = {} } },
    })
    broker:run()
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function grant(patterns)
    local words = ''
    for action, pattern in pairs(patterns) do words = words .. (' %s=%s'):format(action, pattern) end
    admin:ok('USER grant bob /' .. words)
  end

  before_each(function()
    admin = users.connect(broker, 'root')
    for _, line in ipairs {
      'DECLARE queue in', 'DECLARE queue audit', 'DECLARE exchange first fanout', 'DECLARE exchange second fanout',
      'BIND audit second -', 'BIND in first -', 'PURGE in', 'PURGE audit',
    } do
      admin:ok(line)
    end
    grant {}
    c = users.connect(broker, 'bob')
  end)
  after_each(function()
    c:close()
    admin:close()
  end)

  local FILTER = 'ERR denied filter/50-sends.lua:3 sends the %s elsewhere: '
    .. "user 'bob' may not write to %s '%s' in vhost '/'"

  it('is asked about where a filter sends the message', function()
    grant { write = '^first$' }
    assert.equal(FILTER:format('message', 'exchange', 'second'), c:request('PUB first k h:to=second', 'p'))
    assert.equal(0, admin:stats 'audit'.ready + admin:stats 'in'.ready)
    grant { write = '^(first|second)$' }
    assert.matches('^OK %x+ 1$', c:request('PUB first k h:to=second', 'p'))
    assert.equal(1, admin:stats 'audit'.ready)
  end)

  it('is asked about the queue that a filter names through the default exchange', function()
    grant { write = '^in$' }
    assert.equal(FILTER:format('message', 'queue or topic', 'audit'), c:request('PUB - in h:key=audit', 'p'))
    grant { write = '^(in|audit)$' }
    assert.matches('^OK %x+ 1$', c:request('PUB - in h:key=audit', 'p'))
    -- Of a named exchange the key is no address.
    grant { write = '^first$' }
    assert.matches('^OK %x+ 1$', c:request('PUB first in h:key=audit', 'p'))
  end)

  it('is asked about copies, and nothing is stored without it', function()
    grant { write = '^first$' }
    assert.equal(FILTER:format('copy', 'exchange', 'second'), c:request('PUB first k h:copy=second', 'p'))
    assert.equal(0, admin:stats 'in'.ready)
    grant { write = '^(first|second)$' }
    assert.matches('^OK %x+ 1$', c:request('PUB first k h:copy=second', 'p'))
    assert.equal(1, admin:stats 'in'.ready)
    assert.equal(1, admin:stats 'audit'.ready)
  end)

  it('is asked about it in a transaction', function()
    grant { write = '^first$' }
    c:ok 'BEGIN'
    c:expect_answer('PUB second k 1\r\np', refusal('bob', 'write', 'exchange', 'second'))
    assert.matches('^ERR denied nothing was applied: request 1: ', c:request 'COMMIT')
    c:ok 'BEGIN'
    c:expect_answer('PUB first k h:to=second 1\r\np', 'OK queued')
    local why = FILTER:format('message', 'exchange', 'second'):sub(12)
    assert.equal('ERR denied nothing was applied: request 1: ' .. why, c:request 'COMMIT')
    assert.equal(0, admin:stats 'audit'.ready)
  end)

  it('is not asked about bindings and alternates, which somebody else has made', function()
    grant { write = '^(first|lost)$' }
    admin:ok 'BIND second first - dest=exchange'
    admin:ok 'DECLARE exchange lost direct alternate=second'
    assert.matches('^OK %x+ 2$', c:request('PUB first k', 'p'))
    assert.matches('^OK %x+ 1$', c:request('PUB lost k', 'p'))
    admin:ok 'UNBIND second first - dest=exchange'
    admin:ok 'DELETE exchange lost'
  end)

  it('is not asked about dead letters: who has declared their queue has had it', function()
    admin:ok 'DECLARE queue dying dead-letter=second/k'
    admin:ok('PUB - dying', 'p')
    grant { read = '^dying$' }
    local m = c:get 'dying'[1]
    c:ok(('NACK %s dead'):format(m.tag))
    assert(wait.poll(function() return admin:stats 'audit'.ready == 1 end))
    admin:ok 'DELETE queue dying'
  end)

  it('is that of who sends dead letters back', function()
    admin:ok 'DECLARE queue dead'
    admin:ok 'DECLARE queue dying dead-letter=-/dead'
    for _, exchange in ipairs { '-', 'first' } do
      admin:ok 'BIND dying first -'
      admin:ok(('PUB %s dying'):format(exchange), 'p')
      local m = admin:get 'dying'[1]
      admin:ok(('NACK %s dead'):format(m.tag))
    end
    assert(wait.poll(function() return admin:stats 'dead'.ready == 2 end))
    grant { read = '^dead$', write = '^first$' }
    c:expect_answer('REDRIVE dead', 'OK 0 2')
    broker:expect_log("redrive of queue 'dead': 2 messages stay where they are; of the last one: "
      .. "user 'bob' may not write to queue or topic 'dying' in vhost '/'")
    grant { read = '^dead$', write = '^dying$' }
    c:expect_answer('REDRIVE dead routed', 'OK 1 1')
    broker:expect_log("redrive of queue 'dead': 1 messages stay where they are; of the last one: "
      .. "user 'bob' may not write to exchange 'first' in vhost '/'")
    assert.equal(1, admin:stats 'dead'.ready)
    grant { read = '^dead$', write = '^first$' }
    c:expect_answer('REDRIVE dead routed', 'OK 1 0')
    admin:ok 'DELETE queue dead'
    admin:ok 'DELETE queue dying'
  end)

  it('is no difference between rules, in the shadow and in a replay', function()
    local dir = broker:copy_rules('next', {})
    admin:document('RULES shadow ' .. dir .. ' share=100%')
    local before = admin:document('RULES replay ' .. dir)
    grant { write = '^first$' }
    assert.matches('^ERR denied', c:request('PUB first k h:to=second', 'p'))
    assert.matches('^OK', c:request('PUB first k', 'p'))
    local shadow = admin:document 'RULES shadow status'
    assert.same({ 2, 0 }, { shadow.compared, shadow.differing })
    admin:ok 'RULES shadow drop'
    local replay = admin:document('RULES replay ' .. dir)
    assert.same({ before.publishes + 2, before.changed }, { replay.publishes, replay.changed })
  end)

  it('is shown by EXPLAIN, and keeps nobody from asking', function()
    admin:ok 'USER set bob tags=monitor'
    grant { write = '^first$' }
    assert.is_nil(c:document 'EXPLAIN first k'.denied)
    local answer = c:document 'EXPLAIN second k'
    assert.equal("user 'bob' may not write to exchange 'second' in vhost '/'", answer.denied)
    assert.equal('audit', answer.queues[1].queue)
    answer = c:document 'EXPLAIN first k h:copy=second'
    assert.equal("filter/50-sends.lua:3 sends the copy elsewhere: user 'bob' may not write to exchange 'second' "
      .. "in vhost '/'", answer.denied)
    assert.equal(2, #answer.filters)
    admin:ok 'USER set bob tags='
  end)
end)

-- ---- changes ---------------------------------------------------------------------

describe('a change of permissions', function()
  local broker, admin, c

  setup(function()
    broker = Broker.start { redis = {}, stopped = true, rules = {} }
    users.restore(broker.redis, {
      root = { tags = { 'admin' }, vhosts = { ['/'] = ALL, shop = ALL } },
      bob = { vhosts = { ['/'] = {}, shop = {} } },
    })
    broker:run()
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function grant(patterns, vhost)
    local words = ''
    for action, pattern in pairs(patterns) do words = words .. (' %s=%s'):format(action, pattern) end
    admin:ok(('USER grant bob %s%s'):format(vhost or '/', words))
  end

  before_each(function()
    admin = users.connect(broker, 'root')
    admin:ok 'DECLARE queue q'
    admin:ok 'DECLARE queue other'
    admin:ok 'DECLARE exchange x fanout'
    admin:ok 'DECLARE topic t partitions=1'
    admin:ok 'BIND q x -'
    grant(ALL)
    c = users.connect(broker, 'bob')
  end)
  after_each(function()
    c:close()
    for _, line in ipairs {
      'DELETE queue q', 'DELETE queue other', 'DELETE exchange x', 'DELETE topic t',
    } do
      admin:ok(line)
    end
    admin:close()
  end)

  it('holds for the next publish, through a named exchange and the default one', function()
    for _, address in ipairs { { 'x k', 'exchange', 'x' }, { '- q', 'queue', 'q' } } do
      grant(ALL)
      for _ = 1, 3 do assert.matches('^OK', c:request('PUB ' .. address[1], 'p')) end
      grant { write = '^other$' }
      for _ = 1, 2 do
        assert.equal(refusal('bob', 'write', address[2], address[3]), c:request('PUB ' .. address[1], 'p'))
      end
      assert.matches('^OK', c:request('PUB - other', 'p'))
      assert.equal(refusal('bob', 'write', address[2], address[3]), c:request('PUB ' .. address[1], 'p'))
      grant { write = '^(x|q)$' }
      assert.matches('^OK', c:request('PUB ' .. address[1], 'p'))
    end
  end)

  it('holds for a publish whose payload is still on its way', function()
    local function read_bytes()
      for _, connection in ipairs(admin:document 'LIST connections') do
        if connection.user == 'bob' then return connection.bytes_in end
      end
    end
    for _, address in ipairs { { 'x k', 'exchange', 'x' }, { '- q', 'queue', 'q' } } do
      grant(ALL)
      local before, begin = read_bytes(), ('PUB %s 5\r\nhe'):format(address[1])
      c:send(begin)
      assert(wait.poll(function() return read_bytes() == before + #begin end))
      grant {}
      c:send 'llo\r\n'
      c:expect_line(refusal('bob', 'write', address[2], address[3]))
    end
  end)

  it('holds for what a transaction has kept', function()
    c:ok 'BEGIN'
    c:expect_answer('PUB x k 1\r\np', 'OK queued')
    c:expect_answer('PUB - other 1\r\np', 'OK queued')
    grant { write = '^x$' }
    assert.equal('ERR denied nothing was applied: request 2: ' .. refusal('bob', 'write', 'queue', 'other'):sub(12),
      c:request 'COMMIT')
    assert.equal(0, admin:stats 'q'.ready)
  end)

  it('cancels subscriptions of what may no longer be read, and their messages go back', function()
    c:ok 'SUB q s'
    c:ok 'SUB other kept'
    for i = 1, 3 do admin:ok('PUB - q', tostring(i)) end
    admin:ok('PUB - other', 'o')
    local tags = {}
    for _ = 1, 4 do
      local m = c:expect_msg()
      tags[m.payload] = m.tag
    end
    c:send '@2 OPEN\r\n@2 SUB q s2\r\n'
    c:expect_line('@2 OK'):expect_line '@2 OK'
    grant { read = '^other$' }
    c:expect_line 'EVT cancelled s denied'
    c:expect_line '@2 EVT cancelled s2 denied'
    local stats = admin:stats 'q'
    assert.same({ 3, 0, 0 }, { stats.ready, stats.unacked, stats.consumers })
    -- In their order, and unpunished.
    local got = admin:get 'q max=3'
    assert.same({ '1', '2', '3' }, { got[1].payload, got[2].payload, got[3].payload })
    assert.equal(0, admin:document('FIND q ' .. got[1].options.id).failures)
    assert.matches('^ERR lease%-lost', c:request('ACK ' .. tags['1']))
    c:expect_answer('ACK ' .. tags.o, 'OK 1')
    admin:ok('PUB - other', 'o2')
    assert.equal('o2', c:expect_msg().payload)
    assert.equal(refusal('bob', 'read', 'queue', 'q'), c:request 'SUB q s')
    grant(ALL)
    c:ok 'SUB q s'
  end)

  it('takes back what a GET has taken', function()
    admin:ok('PUB - q', '1')
    local m = c:get 'q'[1]
    grant {}
    assert(wait.poll(function() return admin:stats 'q'.ready == 1 end))
    assert.matches('^ERR lease%-lost', c:request('ACK ' .. m.tag))
  end)

  it('takes back what a transaction was to settle', function()
    admin:ok('PUB - q', '1')
    local m = c:get 'q'[1]
    c:ok 'BEGIN'
    c:expect_answer('ACK ' .. m.tag, 'OK queued')
    grant {}
    assert(wait.poll(function() return admin:stats 'q'.ready == 1 end))
    assert.matches('^ERR lease%-lost nothing was applied', c:request 'COMMIT')
  end)

  it('refuses GETs that wait', function()
    c:send 'GET other q wait=1m\r\n'
    c:send '@3 OPEN\r\n'
    c:expect_line '@3 OK'
    c:send '@3 GET t group=g wait=1m\r\n'
    assert(wait.poll(function() return #admin:document 'LIST consumers' == 3 end))
    grant { read = '^other$' }
    c:expect_line(refusal('bob', 'read', 'queue', 'q'))
    c:expect_line('@3 ' .. refusal('bob', 'read', 'queue', 't'))
    assert.equal(0, #admin:document 'LIST consumers')
  end)

  it('takes a topic away from a member of a group, and from who reads without one', function()
    c:send 'SUB t s group=g\r\nSUB t r\r\n'
    c:expect_line('OK'):expect_line('EVT assigned s 0'):expect_line 'OK'
    for i = 1, 3 do admin:ok('PUB - t', tostring(i)) end
    for _ = 1, 6 do c:expect_msg() end
    grant {}
    c:expect_line('EVT cancelled s denied'):expect_line 'EVT cancelled r denied'
    local group = admin:document 'LIST groups'[1]
    assert.same({ 0, 0, 3 }, { group.members, group.partitions[1].held, group.lag })
    admin:send 'SUB t s group=g\r\n'
    admin:expect_line('OK'):expect_line 'EVT assigned s 0'
    for i = 1, 3 do
      local m = admin:expect_msg()
      assert.same({ tostring(i), 1, true }, { m.payload, m.attempt, m.redelivered })
    end
    admin:ok 'UNSUB s'
  end)

  it('lets locks lapse, and refuses who waits for one', function()
    local token = c:ok 'LOCK mine ttl=200ms'
    local other = admin:ok 'LOCK yours'
    c:send '@4 OPEN\r\n'
    c:expect_line '@4 OK'
    c:send '@4 LOCK yours wait=1m\r\n'
    assert(wait.poll(function() return admin:document 'LIST locks'[2].waiting == 1 end))
    grant {}
    c:expect_line('@4 ' .. refusal('bob', 'write', 'lock', 'yours'))
    assert.equal(refusal('bob', 'write', 'lock', 'mine'), c:request('UNLOCK mine ' .. token))
    admin:ok 'LOCK mine wait=20s'
    admin:ok('UNLOCK yours ' .. other)
  end)

  it('is of one vhost', function()
    local shop = users.connect(broker, 'root', 'shop')
    shop:ok 'DECLARE queue q'
    grant(ALL, 'shop')
    local there = users.connect(broker, 'bob', 'shop')
    there:ok 'SUB q s'
    c:ok 'SUB q s'
    grant({}, 'shop')
    there:expect_line 'EVT cancelled s denied'
    assert.equal(refusal('bob', 'write', 'queue', 'q', 'shop'), there:request('PUB - q', 'p'))
    c:expect_nothing()
    assert.matches('^OK', c:request('PUB - other', 'p'))
    shop:close()
    there:close()
  end)

  it('ends the connections of a user who is deleted', function()
    admin:ok 'USER add eve pass=x'
    admin:ok 'USER grant eve / read=.*'
    local eve = users.connect(broker, 'eve', '/', 'x')
    eve:ok 'SUB q s'
    admin:ok('PUB - q', 'p')
    eve:expect_msg()
    admin:ok 'USER delete eve'
    eve:expect_line "EVT closed denied user 'eve' was deleted"
    eve:expect_closed()
    assert(wait.poll(function() return admin:stats 'q'.ready == 1 end))
  end)

  it('ends a STOMP connection that has a subscription, with an ERROR that says why', function()
    local stomp = Stomp.connect(broker, { login = 'bob', passcode = users.password })
    stomp:subscribe('1', '/amq/queue/q', { ack = 'client' })
    admin:ok('PUB - q', 'p')
    stomp:expect('MESSAGE', { subscription = '1' })
    grant { write = '^x$' }
    stomp:expect_error("the subscription '1' has ended: its user may no longer read from the queue",
      { code = 'denied' })
    assert(wait.poll(function() return admin:stats 'q'.ready == 1 end))
    stomp = Stomp.connect(broker, { login = 'bob', passcode = users.password })
    stomp:ask('SEND', { destination = '/exchange/x/k' }, 'p')
    stomp:frame('SEND', { destination = '/amq/queue/q' }, 'p')
    stomp:expect_error("user 'bob' may not write to queue or topic 'q' in vhost '/'", { code = 'denied' })
    stomp = Stomp.connect(broker, { login = 'bob', passcode = users.password })
    stomp:frame('SEND', { destination = '/queue/new' }, 'p')
    stomp:expect_error("user 'bob' may not configure queue or topic 'new' in vhost '/'", { code = 'denied' })
    -- Who may do nothing with it does not learn that it is there.
    stomp = Stomp.connect(broker, { login = 'bob', passcode = users.password })
    stomp:frame('SEND', { destination = '/queue/q' }, 'p')
    stomp:expect_error("user 'bob' may not configure queue or topic 'q' in vhost '/'", { code = 'denied' })
  end)

  it('lets STOMP subscribe to exchanges by what the documentation says', function()
    grant { read = '^(amq[.]topic|(gen-|stomp-).*)$', configure = '^(gen-|stomp-)', write = '^(x$|gen-|stomp-)' }
    local stomp = Stomp.connect(broker, { login = 'bob', passcode = users.password })
    stomp:ask('SUBSCRIBE', { id = '1', destination = '/topic/a.*' })
    stomp:ask('SUBSCRIBE', { id = '2', destination = '/exchange/amq.topic/a.b', durable = 'true' })
    stomp:ask('SEND', { destination = '/exchange/x/k', ['reply-to'] = '/temp-queue/r' }, 'p')
    stomp:frame('SEND', { destination = '/topic/a.b' }, 'p')
    stomp:expect_error("user 'bob' may not write to exchange 'amq.topic' in vhost '/'", { code = 'denied' })
  end)

  it('comes from scripts too, as soon as they are loaded', function()
    c:ok 'SUB q s'
    assert.matches('^OK', c:request('PUB - other', 'p'))
    broker:write_rule('auth/10-closed.lua', [[
return {
  authorize = function(user, action, object)
    if user.name ~= "bob" then return nil end
    if object.name == "q" then return false, "q is closed" end
    if action == "configure" and object.kind == "topic" then error "oops" end
    if action == "write" and object.kind == "exchange" then return true end
  end,
}
]])
    admin:document 'RULES reload'
    c:expect_line 'EVT cancelled s denied'
    assert.equal(refusal('bob', 'write', 'queue', 'q') .. ': q is closed (auth/10-closed.lua)',
      c:request('PUB - q', 'p'))
    assert.equal(refusal('bob', 'configure', 'queue', 't') .. ': a script has failed (auth/10-closed.lua)',
      c:request 'DELETE topic t')
    -- The table is asked where no script has an opinion, and not where one has.
    grant { read = '^other$' }
    assert.matches('^OK', c:request('PUB x k', 'p'))
    assert.equal(refusal('bob', 'write', 'queue', 'other'), c:request('PUB - other', 'p'))
    os.remove(broker.rules .. '/auth/10-closed.lua')
    admin:document 'RULES reload'
    assert.equal(refusal('bob', 'write', 'exchange', 'x'), c:request('PUB x k', 'p'))
  end)
end)

describe('what a script has allowed', function()
  it('is asked about again as time goes by, for what goes on too', function()
    if Broker.is_sanitized() then
      pending 'no other clock under AddressSanitizer'
      return
    end
    local clock = Clock.new()
    local broker = Broker.start {
      redis = {}, stopped = true, env = clock.env,
      rules = {
        ['auth/10-hours.lua'] = ([[
return {
  authorize = function(user)
    if user.name == "bob" and tide.now() > %d then return false, "it is late" end
  end,
}
]]):format((os.time() + 1800) * 1000),
      },
    }
    finally(function()
      broker:destroy()
      clock:destroy()
    end)
    users.restore(broker.redis, {
      root = { tags = { 'admin' }, vhosts = { ['/'] = ALL } }, bob = { vhosts = { ['/'] = ALL } },
    })
    broker:run()
    local admin, c = users.connect(broker, 'root'), users.connect(broker, 'bob')
    for _, line in ipairs { 'DECLARE queue q', 'DECLARE queue in', 'DECLARE exchange x fanout', 'BIND in x -' } do
      admin:ok(line)
    end
    c:ok 'SUB q s'
    assert.matches('^OK', c:request('PUB x k', 'p'))
    clock:set(3600)
    c:expect_line 'EVT cancelled s denied'
    assert.equal(refusal('bob', 'write', 'exchange', 'x') .. ': it is late (auth/10-hours.lua)',
      c:request('PUB x k', 'p'))
    clock:set(0)
    assert(wait.poll(function() return c:request('PUB x k', 'p'):find '^OK' end))
    admin:close()
    c:close()
    broker:expect_clean_stop()
  end)
end)
