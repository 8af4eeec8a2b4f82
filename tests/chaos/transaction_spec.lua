-- A COMMIT over several queues and shards, with a fault at each command that it sends to
-- Redis: everything has happened, or nothing.
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

local root = shell.line 'pwd'

describe('all or nothing of a transaction has happened', function()
  local redis, proxy, broker, c

  setup(function()
    redis = Redis.start()
    proxy = Proxy.start(redis)
    broker = Broker.start { args = { '--store', proxy.url, '--window-messages', '16' } }
  end)
  teardown(function()
    broker:destroy()
    proxy:destroy()
    redis:destroy()
  end)

  -- A start loads what the rounds before have left.
  local ROUNDS_OF_A_STORE = 4
  local rounds = 0

  --- What the COMMIT is about, in a vhost of its own: the broker of the last round serves this one.
  local function begin()
    if rounds % ROUNDS_OF_A_STORE == 0 then
      if broker:is_running() then broker:kill9() end
      redis:cli 'FLUSHALL'
    end
    rounds = rounds + 1
    c = broker:enter_vhost()
    for _, line in ipairs {
      'DECLARE queue in ack-timeout=1h dead-letter=-/dead', 'DECLARE queue out shards=4 sharding=round_robin',
      'DECLARE queue dead', 'DECLARE queue later', 'DECLARE topic log partitions=2 sharding=round_robin',
    } do
      c:ok(line)
    end
    for i = 1, 30 do c:ok('PUB - in', 'in' .. i) end
    assert.equal(8, #c:get 'in max=8')
  end

  local function ask()
    c:send 'BEGIN quiet\r\n'
    for i = 1, 8 do c:send(('PUB - out quiet id=p%d 4\r\nout%d\r\n'):format(i, i)) end
    for i = 1, 4 do c:send(('PUB - log quiet 4\r\nlog%d\r\n'):format(i)) end
    c:send 'PUB - later quiet delay=1h ttl=2h 1\r\nx\r\n'
    c:send 'ACK 1-4 quiet\r\nNACK 5 dead quiet\r\nNACK 6 delay=1h quiet\r\nNACK 7 requeue quiet\r\nCOMMIT\r\n'
  end

  --- Of all that the COMMIT was to do: how many messages each state has.
  local function counts(client)
    local list = {}
    for _, name in ipairs { 'in', 'out', 'dead', 'later' } do
      local s = client:stats(name)
      list[#list + 1] = ('%s %d+%d+%d'):format(name, s.ready + s.unacked, s.delayed, s.buried)
    end
    list[#list + 1] = 'log ' .. client:stats('log').messages
    return table.concat(list, ', ')
  end

  local NOTHING = 'in 30+0+0, out 0+0+0, dead 0+0+0, later 0+0+0, log 0'
  local ALL = 'in 24+1+0, out 8+0+0, dead 1+0+0, later 0+1+0, log 4'

  -- The requeued one may still wait because it is paced: it is no other than a ready one.
  local function settled(client)
    local now
    wait.poll(function()
      now = counts(client)
      return now == NOTHING or now == ALL
    end)
    return now
  end

  local function command_of(what)
    if what == 'broker' then return ('kill -9 $(cat %s/pid)'):format(broker.dir) end
    if what == 'redis' then
      return ('kill -9 $(cat %s/pid); TIDE_TEST_DIR=%s bash %s/tests/integration/support/process.sh run'):format(
        redis.dir, redis.dir, root)
    end
  end

  --- One COMMIT with a fault; gives the answer, if there was one, and the command. A nil
  --- command: the COMMIT has sent fewer.
  local function fault(at, when, what)
    begin()
    proxy:arm(at, when, 'cut', command_of(what))
    ask()
    local answer = c:read_line(what == 'broker' and 1 or 20)
    local state, command = proxy:state()
    if state == 'armed' then
      proxy:disarm()
      command = nil
    end
    if what == 'broker' and command then
      assert(wait.poll(function() return not broker:is_running() end))
    end
    if not broker:is_running() then broker:run() end
    c = broker:connect()
    return answer, command
  end

  local function survives(what)
    local seen = {}
    for _, when in ipairs { 'before', 'after' } do
      local at = 0
      repeat
        at = at + 1
        local answer, command = fault(at, when, what)
        local now = settled(c)
        local where = ('%d %s %s %s'):format(at, when, what, command or 'nothing')
        assert.is_true(now == ALL or now == NOTHING, where .. ': ' .. now)
        if answer then
          assert.equal('OK 13 7', answer, where)
          assert.equal(ALL, now, where)
        end
        if what ~= 'broker' then assert.equal('OK 13 7', answer, where) end
        seen[now] = true
        -- Redis alone says the same: what memory has is what a start reads.
        broker:kill9()
        broker:run()
        c = broker:connect()
        assert.equal(now, settled(c), where)
      until not command
      assert.is_true(at > 10, 'the COMMIT has sent ' .. at .. ' commands')
    end
    assert.is_true(seen[ALL])
    assert.equal(what == 'broker' or nil, seen[NOTHING])
  end

  it('when the broker is killed at a command', function() survives 'broker' end)
  it('when Redis is killed at a command', function() survives 'redis' end)
  it('when the connection between them ends at a command', function() survives 'connection' end)
end)
