-- HELLO user= pass=: who a connection is.
local Broker = require 'support.broker'
local users = require 'support.users'

local LOG_IN = 'ERR denied log in first: HELLO user=<name> pass=<password>'
local WRONG = 'ERR denied the user or the password is wrong'

describe('a login', function()
  local broker

  setup(function()
    broker = Broker.start { redis = {}, stopped = true }
    local all = { configure = '.*', write = '.*', read = '.*' }
    users.restore(broker.redis, {
      admin = { tags = { 'admin' }, vhosts = { ['/'] = all } },
      bob = { vhosts = { shop = all } },
      eve = {}, mallory = {}, trent = {}, late = { vhosts = { ['/'] = all } },
      watcher = { tags = { 'monitor' } },
    })
    broker:run()
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function logins()
    local c = users.connect(broker, 'admin')
    local stats = c:document 'STATS'.logins
    c:close()
    return stats
  end

  it('is needed for all but HELLO, PING, HELP and QUIT', function()
    local c = users.stranger(broker)
    local verbs = require 'support.line_verbs'
    local words = {
      DECLARE = ' queue q', DELETE = ' queue q', BIND = ' q x p', UNBIND = ' q x p', SUB = ' q s', SEEK = ' t g first',
      UNSUB = ' s', GET = ' q', ACK = ' 1', NACK = ' 1', TOUCH = ' 1', PEEK = ' q', REDRIVE = ' q', PURGE = ' q',
      KICK = ' q', FIND = ' q 0000000000000001', REMOVE = ' q 0000000000000001',
      RESCHEDULE = ' q 0000000000000001 delay=1s', PAUSE = ' q in', RESUME = ' q', LIST = ' queues',
      RULES = ' status', EXPLAIN = ' - q', LOCK = ' l', UNLOCK = ' l 1', CHECK = ' l 1', KILL = ' connection 1',
      USER = ' list', SHARED = ' list', TRACE = ' x',
    }
    for verb in pairs(verbs) do
      if verb == 'HELP' then
        c:send 'HELP\r\n'
        c:expect_data()
      elseif verb == 'PUB' then
        assert.equal(LOG_IN, c:request('PUB - q', 'payload'))
      elseif verb ~= 'HELLO' and verb ~= 'PING' and verb ~= 'QUIT' then
        assert.equal(LOG_IN, c:request(verb .. (words[verb] or '')), verb)
      end
    end
    assert.equal(LOG_IN, c:request '@1 OPEN':gsub('^@1 ', ''))
    assert.equal(LOG_IN, c:request 'HELLO')
    assert.equal(LOG_IN, c:request 'HELLO vhost=shop')
    c:expect_answer('PING', 'OK')
    c:expect_answer('QUIT', 'OK')
    c:expect_closed()
  end)

  it('says who publishes, in LIST connections and in messages', function()
    local c = users.connect(broker, 'admin')
    local names = {}
    for _, connection in ipairs(c:document 'LIST connections') do names[connection.user] = true end
    assert.is_true(names.admin)
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'a')
    assert.equal('admin', c:document 'RULES recent 1'[1].user)
    c:close()
  end)

  it('needs a grant for the vhost, or a tag', function()
    local c = users.stranger(broker)
    assert.equal("ERR denied user 'bob' may not enter vhost '/'", c:request 'HELLO user=bob pass=secret')
    assert.equal("ERR denied user 'bob' may not enter vhost 'other'",
      c:request 'HELLO user=bob pass=secret vhost=other')
    assert.equal(LOG_IN, c:request 'LIST queues')
    assert.equal('shop', c:document 'HELLO user=bob pass=secret vhost=shop'.vhost)
    assert.equal('ERR denied HELLO must be the first request', c:request 'HELLO user=bob pass=secret vhost=shop')
    c:close()
    local admin = users.connect(broker, 'admin')
    admin:ok 'DECLARE vhost anywhere'
    admin:close()
    users.connect(broker, 'watcher', 'anywhere'):close()
  end)

  it('with a tag makes no vhost by a wrong name, and is told those that there are', function()
    local c = users.stranger(broker)
    assert.matches("^ERR not%-found there is no vhost 'shpo', only '/'.*; DECLARE vhost shpo makes it$",
      c:request 'HELLO user=watcher pass=secret vhost=shpo')
    c:close()
  end)

  it('learns of what another vhost has if its user may do something with it there', function()
    local admin = users.connect(broker, 'admin')
    for vhost, name in pairs { shop = 'mine', hidden = 'theirs', part = 'other' } do
      admin:ok('DECLARE vhost ' .. vhost)
      local there = users.connect(broker, 'admin', vhost)
      admin:ok('USER grant admin ' .. vhost .. ' configure=.* write=.* read=.*')
      there:ok('DECLARE queue ' .. name)
      there:ok(('DECLARE exchange %s topic'):format(name))
      there:close()
    end
    admin:ok 'USER grant bob / configure=.* write=.* read=.*'
    admin:ok 'USER grant bob part read=^mine$'
    local c = users.connect(broker, 'bob', '/')
    for line, kind in pairs {
      ['GET %s'] = 'queue', ['DELETE queue %s'] = 'queue', ['STATS exchange %s'] = 'exchange',
    } do
      local function told(name) return c:request(line:format(name)) end
      local missing = "ERR not-found there is no " .. kind .. " '%s' in vhost '/'"
      assert.equal(missing:format 'mine' .. "; vhost 'shop' has one", told 'mine')
      -- A vhost that is not his; one that is, and a name that is not.
      assert.equal(missing:format 'theirs', told 'theirs')
      assert.equal(missing:format 'other', told 'other')
    end
    c:close()
    admin:ok 'USER revoke bob /'
    admin:close()
  end)

  it('is told late when it is wrong, later each time, and not why', function()
    local c = users.stranger(broker)
    c:expect_answer('HELLO user=eve pass=wrong', WRONG)
    c:expect_answer('HELLO user=eve pass=wrong', WRONG)
    c:expect_answer('HELLO user=eve', WRONG)
    c:expect_answer('HELLO user=stranger pass=secret', WRONG)
    local log = broker:log()
    for _, line in ipairs {
      "login as 'eve' from 127%.0%.0%.1:%d+ refused: its password is wrong; told after 250 ms\n",
      "login as 'eve' from 127%.0%.0%.1:%d+ refused: its password is wrong; told after 500 ms\n",
      "login as 'eve' from 127%.0%.0%.1:%d+ refused: it gave no password; told after 1000 ms\n",
      "login as 'stranger' from 127%.0%.0%.1:%d+ refused: there is no such user; told after 250 ms\n",
    } do
      assert.matches(line, log)
    end
    -- He may come in on the same connection, and the delay is over.
    assert.equal("ERR denied user 'eve' may not enter vhost '/'", c:request 'HELLO user=eve pass=secret')
    c:close()
  end)

  it('holds back what the connection asks behind it, and nobody else', function()
    local c, peer = users.stranger(broker), users.connect(broker, 'admin')
    c:send 'HELLO user=mallory pass=wrong\r\nPING\r\nLIST queues\r\n'
    peer:expect_answer('PING', 'OK')
    c:expect_line(WRONG):expect_line('OK'):expect_line(LOG_IN)
    c:close()
    peer:close()
  end)

  it('costs one hash, however often it comes', function()
    users.connect(broker, 'late'):close()
    local before = logins()
    -- A few connections at a time, ten thousand in all.
    for _ = 1, 100 do
      local clients = {}
      for i = 1, 100 do
        clients[i] = users.stranger(broker)
        clients[i]:send 'HELLO user=late pass=secret\r\n'
      end
      for i = 1, 100 do
        clients[i]:expect_data()
        clients[i]:close()
      end
    end
    local after = logins()
    assert.equal(before.hashed, after.hashed)
    assert.is_true(after.remembered >= before.remembered + 10000)
  end)

  it('has a new password at once', function()
    local admin = users.connect(broker, 'admin')
    users.connect(broker, 'late'):close()
    admin:ok 'USER passwd late pass=other'
    local c = users.stranger(broker)
    c:expect_answer('HELLO user=late pass=secret', WRONG)
    c:document 'HELLO user=late pass=other'
    c:close()
    admin:close()
  end)

  it('may end while it waits', function()
    for _ = 1, 20 do
      local c = users.stranger(broker)
      c:send 'HELLO user=trent pass=wrong\r\n'
      c:close()
    end
    local c = users.connect(broker, 'admin')
    c:expect_answer('PING', 'OK')
    c:close()
  end)
end)

describe('a login that a script decides', function()
  local broker

  local SCRIPT = [[
return {
  authenticate = function(login)
    if login.user == 'loop' then while true do end end
    if login.user == 'blocked' then return false, 'not today' end
    if login.user == 'known' then return true end
    if login.password == 'token' then
      return { name = 'made', tags = { 'monitor' }, configure = '.*', write = '.*', read = '.*' }
    end
  end,
}
]]

  before_each(function()
    broker = Broker.start { redis = {}, stopped = true, rules = { ['auth/token.lua'] = SCRIPT } }
    users.restore(broker.redis, { known = { vhosts = { ['/'] = { read = '.*' } } }, blocked = { tags = { 'admin' } } })
    broker:run()
  end)
  after_each(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('is asked before the table', function()
    local c = users.stranger(broker)
    c:expect_answer('LIST queues', LOG_IN)
    c:expect_answer('HELLO user=blocked pass=secret', WRONG)
    assert.matches('refused: auth/token.lua: not today; told after 250 ms', broker:log())
    c:expect_answer('HELLO user=somebody pass=secret', WRONG)
    c:document 'HELLO pass=token'
    assert.equal('made', c:document 'LIST connections'[1].user)
    c:ok 'DECLARE queue q'
    c:close()
    c = users.stranger(broker)
    c:document 'HELLO user=known pass=whatever'
    assert.matches("^ERR denied user 'known' may not configure", c:request 'DECLARE queue other')
    c:close()
  end)

  it('is refused when the script fails, and the broker goes on', function()
    local c = users.stranger(broker)
    c:expect_answer('HELLO user=loop pass=x', WRONG)
    c:expect_answer('PING', 'OK')
    c:document 'HELLO pass=token'
    c:close()
  end)

  it('is needed as long as the script is there', function()
    broker.redis:cli('DEL', '{tide}:users')
    broker:restart()
    local c = broker:connect()
    c:expect_answer('DECLARE queue q', LOG_IN)
    broker:remove_rule 'auth/token.lua'
    broker:expect_log 'nobody has to log in'
    c:ok 'DECLARE queue q'
    broker:write_rule('auth/token.lua', SCRIPT)
    c:expect_line 'EVT closed denied from now on everybody has to log in'
    c:expect_closed()
  end)
end)
