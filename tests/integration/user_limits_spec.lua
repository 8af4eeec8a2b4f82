-- Limits of a user (USER set) and of an address (--address-*).
local Broker = require 'support.broker'
local Stomp = require 'support.stomp'
local socket = require 'socket'
local users = require 'support.users'
local wait = require 'support.wait'

local ALL = { configure = '.*', write = '.*', read = '.*' }
local LOG_IN = 'ERR denied log in first: HELLO user=<name> pass=<password>'

--- A broker with users of these limits, and an admin.
local function start(limits, options)
  local of = { admin = { tags = { 'admin' }, vhosts = { ['/'] = ALL } } }
  for name, limit in pairs(limits) do of[name] = { vhosts = { ['/'] = ALL }, limits = limit } end
  options = options or {}
  options.redis, options.stopped = {}, true
  local broker = Broker.start(options)
  users.restore(broker.redis, of)
  broker:run()
  return broker
end

--- How many of `count` publishes in one go are taken, and what the first of the others was told.
local function publish(c, count, payload)
  local line = ('PUB - q %d\r\n%s\r\n'):format(#(payload or 'x'), payload or 'x')
  local taken, refused = 0, nil
  c:send(line:rep(count))
  for _ = 1, count do
    local answer = c:expect '.+'
    if answer:find '^OK' then taken = taken + 1 else refused = refused or answer end
  end
  return taken, refused
end

describe('the limits of a user', function()
  local broker, admin

  setup(function()
    broker = start {
      two = { ['max-connections'] = 2 }, three = { ['max-channels'] = 3 }, slow = { ['publish-rate'] = 5 },
      small = { ['publish-bytes'] = 1000 }, again = { ['publish-rate'] = 5 }, changed = {},
    }
    admin = users.connect(broker, 'admin')
    admin:ok 'DECLARE queue q'
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function connection(name)
    for _, row in ipairs(admin:document 'LIST connections') do if row.user == name then return row end end
  end

  it('are of all connections together', function()
    local a, b, c = users.connect(broker, 'two'), users.connect(broker, 'two'), users.stranger(broker)
    local before = admin:document 'STATS'.limited.connections
    c:expect_answer('HELLO user=two pass=secret', "ERR limit user 'two' has reached max-connections=2")
    c:expect_answer('LIST queues', LOG_IN)
    assert.equal(before + 1, admin:document 'STATS'.limited.connections)
    local names = {}
    for i, row in ipairs(admin:document 'LIST connections') do names[i] = row.user end
    assert.same({ 'admin', 'two', 'two', '' }, names)
    assert.same({ user = 'two', connections = 2, channels = 0, refused = 1, ['max-connections'] = 2 },
      connection 'two'.user_limits)
    a:close()
    assert.is_truthy(wait.poll(function() return connection 'two'.user_limits.connections == 1 end))
    c:document 'HELLO user=two pass=secret'
    b:close()
    c:close()
  end)

  it('count the channels of all connections', function()
    local a, b = users.connect(broker, 'three'), users.connect(broker, 'three')
    a:expect_answer('@1 OPEN', '@1 OK'):expect_answer('@2 OPEN', '@2 OK')
    b:expect_answer('@1 OPEN', '@1 OK')
    b:expect_answer('@2 OPEN', "@2 ERR limit user 'three' has reached max-channels=3")
    a:expect_answer('@1 CLOSE', '@1 OK')
    b:expect_answer('@2 OPEN', '@2 OK')
    a:close()
    assert.is_truthy(wait.poll(function() return connection 'three'.user_limits.channels == 2 end))
    b:close()
  end)

  it('refuse publishes above a rate, which stores nothing, and nothing else', function()
    local c = users.connect(broker, 'slow')
    local taken, refused = publish(c, 20)
    assert.is_true(taken >= 5 and taken < 20)
    assert.matches("^ERR limit user 'slow' has reached publish%-rate=5; try again in %d+ ms$", refused)
    assert.equal(taken, admin:stats 'q'.ready)
    assert.equal(taken, #c:get 'q max=100 ack=auto')
    assert.equal(20 - taken, connection 'slow'.user_limits.refused)
    -- After the time that it says it is taken.
    local ms
    assert.is_truthy(wait.poll(function()
      local at, answer = socket.gettime(), c:request('PUB - q', 'x')
      if answer:find '^OK' then return not ms or at >= ms end
      ms = at + answer:match 'in (%d+) ms' / 1000 - 0.002
    end))
    c:ok 'PURGE q'
    c:close()
  end)

  it('are not evaded by coming again', function()
    local c, from = users.connect(broker, 'again'), socket.gettime()
    local taken = publish(c, 10)
    c:close()
    c = users.connect(broker, 'again')
    taken = taken + publish(c, 10)
    -- A second's worth at once, and what has come since.
    local most = 5 + 5 * (socket.gettime() - from)
    assert.is_true(taken >= 5 and taken <= most, ('%d of %.1f'):format(taken, most))
    c:ok 'PURGE q'
    c:close()
  end)

  it('let a payload through that is larger than a second brings, and what follows waits', function()
    local c = users.connect(broker, 'small')
    local taken, refused = publish(c, 2, ('x'):rep(5000))
    assert.equal(1, taken)
    assert.matches("^ERR limit user 'small' has reached publish%-bytes=1000; try again in %d+ ms$", refused)
    assert.is_true(tonumber(refused:match 'in (%d+) ms') > 3000)
    -- The rest of what was refused is read away.
    c:expect_answer('PING', 'OK')
    c:ok 'PURGE q'
    c:close()
  end)

  it('refuse a transaction that is over a rate', function()
    admin:ok 'USER set changed publish-rate=3'
    local c = users.connect(broker, 'changed')
    c:ok 'BEGIN'
    publish(c, 20)
    assert.matches('^ERR limit ', c:request 'COMMIT')
    assert.equal(0, admin:stats 'q'.ready)
    admin:ok 'USER set changed publish-rate=0'
    c:close()
  end)

  it('change at once', function()
    local c = users.connect(broker, 'changed')
    assert.equal(100, (publish(c, 100)))
    assert.is_nil(connection 'changed'.user_limits)
    admin:ok 'USER set changed publish-rate=1 max-channels=1'
    assert.is_true(publish(c, 100) < 100)
    c:expect_answer('@1 OPEN', '@1 OK')
    c:expect_answer('@2 OPEN', "@2 ERR limit user 'changed' has reached max-channels=1")
    admin:ok 'USER set changed publish-rate=0 max-channels=0'
    assert.equal(100, (publish(c, 100)))
    c:expect_answer('@2 OPEN', '@2 OK')
    c:ok 'PURGE q'
    c:close()
  end)
end)

describe('a rate of a STOMP client', function()
  local broker, admin

  before_each(function()
    broker = start { bob = { ['publish-rate'] = 5 } }
    admin = users.connect(broker, 'admin')
    admin:ok 'DECLARE queue q'
  end)
  after_each(function()
    admin:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function connect()
    return Stomp.connect(broker, { login = 'bob', passcode = 'secret' })
  end

  local function send(c, count)
    for i = 1, count do c:frame('SEND', { destination = '/amq/queue/q', receipt = tostring(i) }, 'x') end
  end

  it('holds it back, for an error would end it', function()
    local c, from = connect(), socket.gettime()
    send(c, 10)
    for i = 1, 10 do c:expect('RECEIPT', { ['receipt-id'] = tostring(i) }) end
    local took = socket.gettime() - from
    assert.is_true(took > 0.9, took)
    assert.equal(10, admin:stats 'q'.ready)
    assert.equal(0, admin:document 'STATS'.limited.publishes)
    c:close()
  end)

  it('lets it go on when the limit is gone', function()
    admin:ok 'USER set bob publish-rate=1'
    local c = connect()
    send(c, 100)
    for i = 1, 2 do c:expect('RECEIPT', { ['receipt-id'] = tostring(i) }) end
    admin:ok 'USER set bob publish-rate=0'
    for i = 3, 100 do c:expect('RECEIPT', { ['receipt-id'] = tostring(i) }) end
    c:close()
  end)

  it('does not keep it from ending', function()
    admin:ok 'USER set bob publish-rate=1'
    local c = connect()
    send(c, 10)
    c:expect('RECEIPT', { ['receipt-id'] = '1' })
    c:close()
    assert.is_truthy(wait.poll(function() return #admin:document 'LIST connections' == 1 end))
  end)
end)

describe('limits that a script gives', function()
  it('are those of the user that it makes', function()
    local broker = Broker.start { rules = { ['auth/token.lua'] = [[
return {
  authenticate = function(login)
    return { name = 'made', tags = { 'monitor' }, configure = '.*', write = '.*', read = '.*',
             limits = { max_connections = 1, max_channels = 1 } }
  end,
}
]] } }
    local a, b = users.stranger(broker), users.stranger(broker)
    a:document 'HELLO pass=token'
    b:expect_answer('HELLO pass=token', "ERR limit user 'made' has reached max-connections=1")
    a:expect_answer('@1 OPEN', '@1 OK')
    a:expect_answer('@2 OPEN', "@2 ERR limit user 'made' has reached max-channels=1")
    a:close()
    b:close()
    broker:expect_clean_stop()
  end)
end)

describe('the limits of an address', function()
  local function with(...)
    return Broker.start { args = { '--fsync', 'no', ... } }
  end

  it('end connections above it, and forget those that have ended', function()
    local broker = with('--address-connections', '2')
    local a, b, c = broker:connect(), broker:connect(), broker:connect()
    c:expect_line 'ERR limit address 127.0.0.1 has reached --address-connections 2'
    c:expect_closed()
    assert.equal(1, a:document 'STATS'.limited.connections)
    b:close()
    assert.is_truthy(wait.poll(function()
      local peer = broker:connect()
      peer:send 'PING\r\n'
      local answer = peer:read_line()
      peer:close()
      return answer == 'OK'
    end))
    a:close()
    broker:expect_clean_stop()
  end)

  it('count its channels and its publishes, whoever it is', function()
    local broker = with('--address-channels', '1', '--address-publish-rate', '4', '--address-publish-bytes', '1M')
    local a, b = broker:connect(), broker:connect()
    a:ok 'DECLARE queue q'
    a:expect_answer('@1 OPEN', '@1 OK')
    b:expect_answer('@1 OPEN', '@1 ERR limit address 127.0.0.1 has reached --address-channels 1')
    local taken, refused = publish(a, 20)
    assert.is_true(taken >= 4 and taken < 20)
    assert.matches('^ERR limit address 127%.0%.0%.1 has reached %-%-address%-publish%-rate 4; try again', refused)
    assert.is_true(publish(b, 5) < 5)
    assert.same({
      address = '127.0.0.1', connections = 2, channels = 1, ['max-channels'] = 1, ['publish-rate'] = 4,
      ['publish-bytes'] = 1048576,
    }, (function(t) t.refused = nil return t end)(a:document 'LIST connections'[1].address_limits))
    a:close()
    b:close()
    broker:expect_clean_stop()
  end)

  it('are those of all clients of a Unix socket', function()
    local broker = Broker.start { args = { '--address-connections', '1' }, listen = { 'unix:@DIR@/one.sock' } }
    local a, b = broker:connect(), broker:connect()
    b:expect_line 'ERR limit address unix has reached --address-connections 1'
    b:expect_closed()
    a:close()
    broker:expect_clean_stop()
  end)
end)
