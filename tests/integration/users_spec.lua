-- USER: users are defined, changed and deleted.
local Broker = require 'support.broker'
local json = require 'dkjson'
local users = require 'support.users'
local wait = require 'support.wait'

local ADMIN_FIRST = 'ERR denied the first user needs the tag admin and a password: '
  .. 'USER add <name> pass=<password> tags=admin'
local LOG_IN = 'ERR denied log in first: HELLO user=<name> pass=<password>'
local DENIED = 'EVT closed denied '

local function find(list, name)
  for _, user in ipairs(list) do if user.name == name then return user end end
end

describe('users', function()
  local broker

  before_each(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  after_each(function()
    if broker:is_running() then broker:expect_clean_stop() end
    broker:destroy()
  end)

  --- The first user, and the connection that defined it.
  local function found()
    local c = broker:connect()
    c:ok 'USER add alice pass=secret tags=admin'
    return c
  end

  it('are none at first: everybody may do everything', function()
    local c = broker:connect()
    assert.same({}, c:document 'USER list')
    c:ok 'DECLARE queue q'
    assert.is_true(c:document 'STATS'.logins.open)
    c:close()
  end)

  it('begin with an admin who has a password', function()
    local c = broker:connect()
    for _, words in ipairs { 'pass=x', 'pass=x tags=monitor', 'tags=admin', '' } do
      c:expect_answer(('USER add bob ' .. words):gsub(' $', ''), ADMIN_FIRST)
    end
    c:ok 'USER add alice pass=x tags=monitor,admin'
    assert.same({ 'admin', 'monitor' }, c:document 'USER list'[1].tags)
    c:close()
  end)

  it('end the connections of strangers, and who defines the first one is the first one', function()
    local stranger, silent = broker:connect(), broker:connect()
    stranger:ok 'DECLARE queue q'
    -- In one go: the requests behind USER add wait for it.
    local c = broker:connect()
    c:send 'USER add alice pass=secret tags=admin\r\nUSER grant alice /\r\nUSER list\r\n'
    c:expect_line('OK'):expect_line 'OK'
    local list = c:expect_json()
    assert.equal(1, #list)
    assert.equal(1, find(list, 'alice').connections)
    for _, peer in ipairs { stranger, silent } do
      peer:expect_line(DENIED .. 'from now on everybody has to log in')
      peer:expect_closed()
    end
    c:close()
    c = broker:connect()
    c:expect_answer('USER list', LOG_IN)
    c:close()
  end)

  it('are defined by one, when two define the first one at once', function()
    local a, b = broker:connect(), broker:connect()
    a:send 'USER add alice pass=a tags=admin\r\n'
    b:send 'USER add bob pass=b tags=admin\r\n'
    local first, second = a:read_line(20), b:read_line(20)
    assert.equal('OK', first == 'OK' and first or second)
    local winner, loser = a, second
    if first ~= 'OK' then winner, loser = b, first end
    assert.equal('ERR denied USER needs a user with the tag admin', loser)
    assert.equal(1, #winner:document 'USER list')
    a:close()
    b:close()
  end)

  it('end the connection whose first user came too late, and what it reads', function()
    local a, b = broker:connect(), broker:connect()
    a:ok 'DECLARE queue q'
    for _, c in ipairs { a, b } do c:ok('SUB q s') end
    a:send 'USER add alice pass=a tags=admin\r\n'
    b:send 'USER add bob pass=b tags=admin\r\n'
    local first, second = a:read_line(20), b:read_line(20)
    assert.equal('OK', first == 'OK' and first or second)
    local loser = first == 'OK' and b or a
    loser:expect_line(DENIED .. 'from now on everybody has to log in')
    loser:expect_closed()
    a:close()
    b:close()
  end)

  it('are what they were after a restart, and after a kill', function()
    local c = found()
    c:ok 'USER add bob pass=%25%20x tags=monitor'
    c:ok 'USER grant bob shop configure=^a write=b%25[c] read=.*'
    c:ok 'USER set bob max-connections=3 publish-rate=100'
    local before = c:document 'USER list'
    assert.same({ name = 'bob', tags = { 'monitor' }, password = true, connections = 0,
      vhosts = { shop = { configure = '^a', write = 'b%[c]', read = '.*' } },
      limits = { ['max-connections'] = 3, ['publish-rate'] = 100 } }, find(before, 'bob'))
    c:close()
    for _, how in ipairs { 'expect_clean_stop', 'kill9' } do
      broker[how](broker)
      broker:run()
      c = users.connect(broker, 'alice')
      assert.same(before, c:document 'USER list')
      c:close()
      users.connect(broker, 'bob', 'shop', '% x'):close()
    end
  end)

  it('are changed in what is named, and the rest stays', function()
    local c = found()
    c:ok 'USER add bob pass=one tags=monitor'
    c:ok 'USER set bob max-channels=7'
    c:ok 'USER set bob publish-bytes=9'
    c:ok 'USER set bob tags='
    c:ok 'USER grant bob / read=.*'
    c:ok 'USER grant bob / write=^w'
    c:ok 'USER grant bob shop'
    local bob = find(c:document 'USER list', 'bob')
    assert.same({ ['max-channels'] = 7, ['publish-bytes'] = 9 }, bob.limits)
    assert.same({}, bob.tags)
    local none = { configure = '', write = '', read = '' }
    assert.same({ ['/'] = { configure = '', write = '^w', read = '' }, shop = none }, bob.vhosts)
    c:ok 'USER revoke bob /'
    c:ok 'USER set bob max-channels=0'
    bob = find(c:document 'USER list', 'bob')
    assert.same({ shop = none }, bob.vhosts)
    assert.same({ ['publish-bytes'] = 9 }, bob.limits)
    c:close()
  end)

  it('are refused what is wrong, with a sentence', function()
    local c = found()
    local long = ('x'):rep(1025)
    for request, answer in pairs {
      ['USER'] = 'syntax USER takes add, passwd, delete, list, grant, revoke or set',
      ['USER frob x'] = 'syntax USER takes add, passwd, delete, list, grant, revoke or set',
      ['USER list x'] = "syntax USER list has no flag 'x'; it takes: none",
      ['USER add'] = 'syntax USER add needs <user>: <user> is missing',
      ['USER grant bob'] = 'syntax USER grant needs <user> and <vhost>: <vhost> is missing',
      ['USER passwd alice'] = 'syntax pass= is missing: expected a password',
      ['USER passwd alice pass='] = 'syntax a password has 1 to 1024 bytes',
      ['USER passwd alice pass=' .. long] = 'syntax a password has 1 to 1024 bytes',
      ['USER delete bob'] = "not-found there is no user 'bob'",
      ['USER revoke alice shop'] = "not-found user 'alice' has no grant for vhost 'shop'",
      ['USER add alice pass=x'] = "exists there is a user 'alice' already",
      ['USER add bob pass=x tags=chief'] = "syntax 'chief' is no tag: expected admin, monitor, or nothing",
      ['USER grant alice / read=('] = "syntax the pattern '(' is no regular expression: Unmatched ( or \\(",
      ['USER grant alice / read=(a)\\1'] = "syntax the pattern '(a)\\1' has a back-reference; it may not",
      ['USER set alice max-channels=many'] = 'syntax max-channels=many: expected a number from 0 to 9007199254740992',
      ['USER delete alice pass=geheim'] = "syntax USER delete has no option 'pass'; it takes: none",
    } do
      assert.equal('ERR ' .. answer, c:request(request))
    end
    c:close()
  end)

  it('keep an admin as long as there are any', function()
    local c = found()
    c:ok 'USER add bob pass=b'
    c:expect_answer('USER delete alice',
      "ERR denied user 'alice' is the last one with the tag admin; delete the other users first")
    c:expect_answer('USER set alice tags=monitor',
      "ERR denied user 'alice' is the last one with the tag admin, and keeps it")
    c:ok 'USER set alice max-connections=9'
    c:ok 'USER set bob tags=admin'
    c:ok 'USER set alice tags='
    c:expect_answer('USER list', "ERR denied USER list needs a user with the tag admin, and user 'alice' has not")
    c:close()
  end)

  it('that are deleted while they are connected are ended', function()
    local c = found()
    c:ok 'USER add bob pass=b'
    c:ok 'USER grant bob / read=.* configure=.*'
    local peers = { users.connect(broker, 'bob', '/', 'b'), users.connect(broker, 'bob', '/', 'b') }
    peers[1]:ok 'DECLARE queue q'
    peers[1]:send 'GET q wait=1h\r\n'
    c:ok 'USER delete bob'
    for _, peer in ipairs(peers) do
      peer:expect_line(DENIED .. "user 'bob' was deleted")
      peer:expect_closed()
    end
    assert.is_nil(find(c:document 'USER list', 'bob'))
    c:close()
  end)

  it('that are all deleted leave the broker open', function()
    local c = found()
    c:expect_answer('USER delete alice', 'OK')
    c:expect_line(DENIED .. "user 'alice' was deleted")
    c:expect_closed()
    c = broker:connect()
    c:ok 'DECLARE queue q'
    assert.same({}, c:document 'USER list')
    c:close()
    broker:restart()
    c = broker:connect()
    c:ok 'DECLARE queue q'
    c:close()
  end)

  it('have no password in any answer, log or command line', function()
    local c = found()
    c:ok 'USER add bob pass=verysecret'
    for _, request in ipairs {
      'USER add pass=verysecret', 'USER add bob verysecret pass=verysecret',
      'USER list pass=verysecret', 'USER frob bob pass=verysecret', 'USER passwd bob pass=verysecret pass=verysecret',
      'USER passwd bob pass=verysecret%zz', 'USER passwd bob pass=very\1secret', 'USER delete bob pass=verysecret',
      'HELLO pass=verysecret', 'HELLO user=bob pass=verysecret%zz', 'HELLO user=bob pass=verysecret heartbeat=x',
      'USER add eve x y z pass=verysecret',
    } do
      local answer = c:request(request)
      assert.matches('^ERR ', answer)
      local said = answer:gsub("no flag 'verysecret'", '')
      assert.is_nil(said:find('verysecret', 1, true), answer)
    end
    local peer = users.stranger(broker)
    peer:expect_answer('HELLO user=bob pass=verysecret2', 'ERR denied the user or the password is wrong')
    peer:close()
    for _, what in ipairs { 'USER list', 'LIST connections', 'STATS', 'RULES recent' } do
      assert.is_nil(json.encode(c:document(what)):find 'verysecret')
    end
    assert.is_nil(broker:log():find 'verysecret')
    c:close()
  end)
end)

describe('users in Redis', function()
  local broker

  local function start(values)
    broker = Broker.start { redis = {}, stopped = true }
    for name, value in pairs(values) do broker.redis:cli('HSET', '{tide}:users', name, value) end
    broker:run()
  end
  after_each(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('that cannot be read cannot log in, and all others must', function()
    start { alice = users.text { tags = { 'admin' } }, bob = '{"tags":["chief"]}' }
    assert.matches("error user 'bob' cannot log in, and is left as it is in Redis: its value 'chief' is no tag",
      broker:log())
    local c = users.connect(broker, 'alice')
    local bob = find(c:document 'USER list', 'bob')
    assert.equal("'chief' is no tag: expected admin, monitor, or nothing", bob.unreadable)
    assert.equal("ERR denied what Redis has of user 'bob' cannot be read; delete and add it again",
      c:request 'USER passwd bob pass=x')
    local peer = users.stranger(broker)
    assert.matches('^ERR denied the user or the password is wrong', peer:request 'HELLO user=bob pass=secret')
    c:ok 'USER delete bob'
    peer:close()
    c:close()
  end)

  it('all of whom cannot be read let nobody in', function()
    start { bob = 'rubbish' }
    local peer = broker:connect()
    peer:expect_answer('DECLARE queue q', LOG_IN)
    peer:close()
  end)

  it('change while others log in, who are not ended by that', function()
    start { alice = users.text { tags = { 'admin' } } }
    local c, silent = users.connect(broker, 'alice'), users.stranger(broker)
    c:ok 'USER add bob pass=b tags=monitor'
    silent:document 'HELLO user=bob pass=b'
    silent:close()
    c:close()
  end)

  it('that Redis refuses are not there', function()
    start { alice = users.text { tags = { 'admin' } } }
    local c = users.connect(broker, 'alice')
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', 1)
    assert.matches('^ERR store OOM', c:request 'USER add bob pass=b')
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', 0)
    assert.is_nil(find(c:document 'USER list', 'bob'))
    c:ok 'USER add bob pass=b'
    assert.is_truthy(wait.poll(function() return broker.redis:cli('HEXISTS', '{tide}:users', 'bob') == '1' end))
    c:close()
  end)
end)
