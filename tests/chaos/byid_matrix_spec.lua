-- Messages by their ids, and ids of publishes that are taken while their message is in the
-- queue (dedupe=queued): a life with both is cut short before and after commands to Redis,
-- by the end of the connection, of the broker or of Redis. What was answered holds.
--
--   TIDE_MATRIX_SHARE  one point in so many; default 10
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

local share = tonumber(os.getenv 'TIDE_MATRIX_SHARE') or 10
local root = shell.line 'pwd'
local DECLARE = 'DECLARE queue jobs dedupe=queued retry=none shards=2 sharding=round_robin'

describe('what is done to messages by their ids', function()
  local redis, proxy, broker

  local function start()
    redis = Redis.start()
    proxy = Proxy.start(redis)
    broker = Broker.start { args = { '--store', proxy.url, '--window-messages', '16' } }
  end

  local function destroy()
    broker:destroy()
    proxy:destroy()
    redis:destroy()
  end

  setup(start)
  teardown(destroy)

  --- The answer; false when the broker was killed meanwhile.
  local function ask(c, request)
    local ok = pcall(c.send, c, request .. '\r\n')
    local line = ok and c:read_line(30)
    if not line and broker:is_running() and not c.is_closed then error('no answer to ' .. request) end
    return line or false
  end

  local function publish(c, id, options)
    return ask(c, ('PUB - jobs id=%s %s %d\r\n%s'):format(id, options or 'pri=0', #id, id))
  end

  --- Requests until one is not answered. `is`: publish id -> id of the message, false when it is
  --- done with; what is in `open` may be either. `states`: what RESCHEDULE was answered for.
  local function work(is, open, states)
    local c = broker:connect()
    local function settle(id, request, now)
      open[id] = true
      local line = ask(c, request)
      if not line then return false end
      assert(line == 'OK 1', line)
      open[id] = nil
      if now ~= nil then is[id] = now end
      return true
    end
    if not ask(c, DECLARE) then return end
    for i = 1, 44 do
      open['j' .. i] = true
      local line = publish(c, 'j' .. i, i > 40 and 'delay=1h' or nil)
      if not line then return end
      is['j' .. i], open['j' .. i] = assert(line:match '^OK (%x+) 1$', line), nil
    end
    if not settle('j40', 'REMOVE jobs ' .. is.j40, false) then return end
    if not settle('j1', 'REMOVE jobs ' .. is.j1, false) then return end
    if not settle('j37', ('RESCHEDULE jobs %s delay=1h'):format(is.j37)) then return end
    states.j37 = 'delayed'
    if not settle('j44', ('RESCHEDULE jobs %s delay=0'):format(is.j44)) then return end
    states.j44 = 'ready'
    local line = ask(c, 'GET jobs id=' .. is.j39)
    if not line then return end
    c:expect_msg()
    if not settle('j39', 'ACK 1', false) then return end
    for _, id in ipairs { 'j40', 'j39', 'j1' } do
      open[id] = true
      line = publish(c, id)
      if not line then return end
      is[id], open[id] = assert(line:match '^OK (%x+) 1$', line), nil
    end
    ask(c, 'PING')
    c:close()
  end

  local function verify(is, open, states)
    local c = broker:connect()
    assert(ask(c, DECLARE) == 'OK')
    for id in pairs(open) do is[id] = assert(publish(c, id):match '^OK (%x+) 1') end
    local count = 0
    for id, message in pairs(is) do
      local line = publish(c, id)
      if message then
        assert.equal(('OK %s 1 duplicate'):format(message), line, id)
      else
        is[id] = assert(line:match '^OK (%x+) 1$', id .. ' is done with: ' .. line)
      end
      count = count + 1
    end
    for id, message in pairs(is) do
      local found = c:document('FIND jobs ' .. message)
      assert.equal(id, found.payload)
      if states[id] then assert.equal(states[id], found.state) end
    end
    assert(wait.poll(function()
      local stats = c:stats 'jobs'
      return stats.dedupe_ids == count and stats.ready + stats.delayed == count
    end), 'there are others')
    c:close()
  end

  --- It may be ending by itself.
  local function kill()
    pcall(broker.kill9, broker)
    assert(wait.poll(function() return not broker:is_running() end))
  end

  -- A start loads what the lives before have left.
  local LIVES_OF_A_STORE = 4
  local lives = 0

  --- In a vhost of its own: the broker that was verified last leads this life.
  local function life(point)
    if lives % LIVES_OF_A_STORE == 0 then
      if broker:is_running() then kill() end
      redis:cli 'FLUSHALL'
    end
    lives = lives + 1
    broker:enter_vhost():close()
    local is, open, states = {}, {}, {}
    if point then
      local commands = {
        broker = ('kill -9 $(cat %s/pid)'):format(broker.dir),
        redis = ('kill -9 $(cat %s/pid); TIDE_TEST_DIR=%s bash %s/tests/integration/support/process.sh run'):format(
          redis.dir, redis.dir, root),
      }
      proxy:arm(point.at, point.when, 'cut', commands[point.what])
    end
    local from = proxy:count()
    work(is, open, states)
    local count = proxy:count() - from
    if proxy:state() == 'armed' then proxy:disarm() end
    kill()
    broker:run()
    verify(is, open, states)
    return count
  end

  local function holds(what)
    local count = life()
    for at = math.random(share), count, share do
      local point = { at = at, when = at % 2 == 0 and 'before' or 'after', what = what }
      local ok, err = pcall(life, point)
      if not ok then error(('%d %s %s: %s'):format(at, point.when, what, err), 0) end
    end
  end

  it('holds when the connection to Redis ends at a command', function() holds 'connection' end)
  it('holds when the broker is killed at a command', function() holds 'broker' end)
  it('holds when Redis is killed at a command', function() holds 'redis' end)
end)
