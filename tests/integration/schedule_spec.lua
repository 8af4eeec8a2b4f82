-- Schedules: each tick once, through restarts and kills; and what tide.shared keeps.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local function rules_status(broker)
  local c = broker:connect()
  local status = c:document 'RULES status'
  c:close()
  return status
end

local function schedule_status(broker, name)
  for _, s in ipairs(rules_status(broker).schedules) do
    if s.name == name then return s end
  end
end

--- The payloads of everything that is in the queue.
local function drain(broker, queue)
  local c = broker:connect()
  local payloads = {}
  while true do
    c:send(('GET %s max=100 ack=auto\r\n'):format(queue))
    local n = tonumber((c:expect '^OK (%d+)'))
    for _ = 1, n do
      payloads[#payloads + 1] = c:expect_msg().payload
    end
    if n == 0 then break end
  end
  c:close()
  return payloads
end

local TICKER = [[
return {
  every = "100ms",
  missed = "%s",
  run = function(broker, tick)
    broker.publish { key = "ticks", payload = tick.ms .. " " .. tick.missed }
  end,
}
]]

local function start(missed, more)
  local rules = { ['schedule/ticker.lua'] = more or TICKER:format(missed) }
  local broker = Broker.start { rules = rules }
  local c = broker:connect()
  c:ok 'DECLARE queue ticks'
  c:close()
  return broker
end

local function ready(broker)
  local c = broker:connect()
  local n = c:document('STATS ticks').ready
  c:close()
  return n
end

local function wait_for_ticks(broker, n)
  assert(wait.poll(function() return ready(broker) >= n end), 'too few ticks')
end

--- The ticks in order; each is there once.
local function ticks_of(broker)
  local ticks, seen = {}, {}
  for _, payload in ipairs(drain(broker, 'ticks')) do
    local ms = math.tointeger(tonumber(payload:match '^%d+'))
    assert.is_nil(seen[ms], 'tick ' .. ms .. ' came twice')
    seen[ms] = true
    ticks[#ticks + 1] = ms
  end
  table.sort(ticks)
  return ticks
end

local function gaps(ticks)
  local n = 0
  for i = 2, #ticks do
    assert.equal(0, ticks[i] % 100)
    if ticks[i] - ticks[i - 1] ~= 100 then n = n + 1 end
  end
  return n
end

--- No further ticks.
local function silence(broker)
  broker:write_rule('schedule/ticker.lua', 'return { every = "100ms", active = false, run = function() end }')
  local c = broker:connect()
  c:document 'RULES reload'
  c:close()
  assert(wait.poll(function() return not schedule_status(broker, 'ticker').running end))
end

describe('a schedule', function()
  local broker
  after_each(function() broker:destroy() end)

  it('runs every tick once, all of the missed ones included, through kills and restarts', function()
    broker = start 'all'
    for _, kill in ipairs { broker.kill9_all, broker.expect_clean_stop, broker.kill9_redis, broker.kill9 } do
      wait_for_ticks(broker, ready(broker) + 5)
      kill(broker)
      if not broker:is_running() then broker:run() end
    end
    wait_for_ticks(broker, ready(broker) + 5)
    silence(broker)
    local ticks = ticks_of(broker)
    assert.is_true(#ticks >= 25)
    -- The first may have come before the queue was there, none after it is missing.
    assert.equal(0, gaps(ticks))
    broker:expect_clean_stop()
  end)

  it('finishes a tick that was begun, without a second copy of what is there', function()
    broker = start('all', [[
      return {
        every = "1d",
        run = function(broker, tick)
          broker.publish { key = "ticks", payload = tick.ms .. " a" }
          broker.publish { key = "ticks", payload = tick.ms .. " b" }
          broker.publish { key = "new", payload = tick.ms .. " c" }
        end,
      }]])
    local day = 86400 * 1000
    local tick = math.floor(require('socket').gettime() * 1000) // day * day
    local c = broker:connect()
    c:ok 'DECLARE queue new'
    local first = c:ok('PUB - ticks', tick .. ' a'):match '^%x+'
    c:close()
    -- As if it had been killed between the first message and the others.
    broker:redis_cli('HSET', '{tide}:rules:schedule', 'ticker',
      ('%d %d 0 %s,00000000000000a1,00000000000000a2'):format(tick - day, tick, first))
    broker:kill9()
    broker:run()
    assert(wait.poll(function()
      return broker:redis_cli('HGET', '{tide}:rules:schedule', 'ticker') == tostring(tick)
    end))
    local payloads = drain(broker, 'ticks')
    table.sort(payloads)
    assert.same({ tick .. ' a', tick .. ' b' }, payloads)
    assert.same({ tick .. ' c' }, drain(broker, 'new'))
    broker:expect_clean_stop()
  end)

  for _, case in ipairs {
    { missed = 'once', runs = 1 },
    { missed = 'skip', runs = 0 },
    { missed = 'all', runs = 3 },
  } do
    it('deals with missed ticks as `missed = "' .. case.missed .. '"` says', function()
      broker = start(nil, ([[
        return {
          every = "1d",
          missed = "%s",
          run = function(broker, tick)
            broker.publish { key = "ticks", payload = tick.ms .. " " .. tick.missed }
          end,
        }]]):format(case.missed))
      local day = 86400 * 1000
      local done = math.tointeger(tonumber(broker:redis_cli('HGET', '{tide}:rules:schedule', 'ticker')))
      assert.is_true(done > 0)
      -- Near the end of a day there would be one more.
      local last = (math.floor(require('socket').gettime() * 1000) // day - 3) * day
      broker:redis_cli('HSET', '{tide}:rules:schedule', 'ticker', last)
      broker:kill9()
      broker:run()
      assert(wait.poll(function()
        return math.tointeger(tonumber(broker:redis_cli('HGET', '{tide}:rules:schedule', 'ticker'))) == last + 3 * day
      end), broker:redis_cli('HGETALL', '{tide}:rules:schedule') .. '\n' .. broker:log())
      local payloads = drain(broker, 'ticks')
      assert.equal(case.runs, #payloads)
      if case.missed == 'once' then assert.equal(('%d 2'):format(last + 3 * day), payloads[1]) end
      broker:expect_clean_stop()
    end)
  end

  it('that fails is logged, publishes nothing, and is tried again at the next tick', function()
    broker = start(nil, [[
      local n = 0
      return {
        every = "100ms",
        run = function(broker, tick)
          n = n + 1
          broker.publish { key = "ticks", payload = tostring(n) }
          if n == 1 then error("not yet") end
        end,
      }]])
    broker:expect_log "schedule 'ticker': schedule/ticker.lua:7: not yet"
    wait_for_ticks(broker, 2)
    local s = schedule_status(broker, 'ticker')
    assert.equal(1, s.failures)
    assert.equal('ok', s.result)
    assert.equal('2', drain(broker, 'ticks')[1])
    broker:expect_clean_stop()
  end)

  it('keeps its place through a reload, and ends when its file goes', function()
    broker = start 'all'
    wait_for_ticks(broker, 2)
    broker:write_rule('schedule/other.lua', 'return { cron = "0 0 1 1 *", zone = "Asia/Tokyo", run = function() end }')
    broker:expect_log 'generation 2 is active'
    wait_for_ticks(broker, ready(broker) + 2)
    assert.equal('cron 0 0 1 1 * Asia/Tokyo', schedule_status(broker, 'other').when)
    broker:remove_rule 'schedule/ticker.lua'
    broker:expect_log 'generation 3 is active'
    assert(wait.poll(function()
      return broker:redis_cli('HEXISTS', '{tide}:rules:schedule', 'ticker') == '0'
    end))
    assert.equal(0, gaps(ticks_of(broker)))
    assert.is_nil(schedule_status(broker, 'ticker'))
    broker:expect_clean_stop()
  end)

  it('cannot address what is not there, and sees the queues', function()
    broker = start(nil, [[
      return {
        every = "100ms",
        run = function(broker)
          local q = broker.queue("ticks")
          if not q or broker.queue("nothing") then return end
          if q.ready == 0 then
            broker.publish { key = "ticks", payload = "x", priority = 9, headers = { n = 7, s = "t" } }
          else
            broker.publish { exchange = "nowhere", key = "k" }
          end
        end,
      }]])
    broker:expect_log "schedule/ticker.lua:9: there is no exchange 'nowhere' in vhost '/'"
    local c = broker:connect()
    c:ok 'SUB ticks s'
    local msg = c:expect_msg()
    assert.equal('9', msg.options.pri)
    assert.same({ n = '7', s = 't' }, msg.headers)
    c:close()
    broker:expect_clean_stop()
  end)

  it('runs no tick twice when the clock is set back, and recovers from a wrong one', function()
    broker = start 'all'
    wait_for_ticks(broker, 1)
    silence(broker)
    drain(broker, 'ticks')
    local now = math.floor(require('socket').gettime() * 1000)
    local soon = now + 2000 - now % 100
    local function restart_with(mark)
      broker:redis_cli('HSET', '{tide}:rules:schedule', 'ticker', mark)
      broker:kill9()
      broker:write_rule('schedule/ticker.lua', TICKER:format 'all')
      broker:run()
    end
    restart_with(soon)
    wait_for_ticks(broker, 1)
    silence(broker)
    assert.equal(soon + 100, ticks_of(broker)[1])
    restart_with(now + 3 * 86400000)
    broker:expect_log "schedule 'ticker': its last tick is days in the future"
    wait_for_ticks(broker, 2)
    broker:expect_clean_stop()
  end)

  it('runs without a store too', function()
    broker = Broker.start { args = { '--store', 'none' }, rules = { ['schedule/ticker.lua'] = TICKER:format 'once' } }
    local c = broker:connect()
    c:ok 'DECLARE queue ticks'
    c:close()
    wait_for_ticks(broker, 3)
    broker:expect_clean_stop()
  end)
end)

describe('tide.shared', function()
  local broker
  after_each(function() broker:destroy() end)

  local RULE = [[
    return {
      -- %s
      pick = function(msg)
        tide.shared.set("text", "a\0b")
        tide.shared.set("flag", false)
        tide.shared.set("short", 1, 1)
        if msg.key == "gone" then tide.shared.delete("flag") end
        tide.counter("picks"):incr()
        tide.shared.incr("n", 0.5)
        tide.log(tide.shared.get("n"), tide.shared.get("flag"), #tide.shared.get("text"))
        return 0
      end,
    }]]

  local function publish(b, key)
    local c = b:connect()
    c:ok(('PUB x %s'):format(key or 'k'), 'p')
    c:close()
  end

  local function start_shared()
    local b = Broker.start { rules = { ['sharding/mine.lua'] = RULE:format '1' } }
    local c = b:connect()
    c:ok 'DECLARE queue q shards=2 sharding=mine'
    c:ok 'DECLARE exchange x fanout'
    c:ok 'BIND q x -'
    c:close()
    return b
  end

  it('survives reloads, and kill -9 once it is written', function()
    broker = start_shared()
    publish(broker)
    broker:expect_log 'mine.lua:%d+: 0.5 false 3'
    broker:write_rule('sharding/mine.lua', RULE:format '2')
    broker:expect_log 'generation 2 is active'
    publish(broker)
    broker:expect_log 'mine.lua:%d+: 1.0 false 3'
    local c = broker:connect()
    c:document 'EXPLAIN x k'
    broker:expect_log 'mine.lua:%d+: 1.0 false 3.*mine.lua:%d+: 1.0 false 3'
    assert.equal(2, c:document('STATS').counters.picks)
    c:close()
    assert(wait.poll(function() return broker:redis_cli('HGET', '{tide}:rules:shared', 'c:picks') == '0 i2' end))
    assert.equal('0 n1', broker:redis_cli('HGET', '{tide}:rules:shared', 'k:n'))
    broker:kill9_all()
    broker:run()
    publish(broker, 'gone')
    broker:expect_log 'mine.lua:%d+: 1.5 nil 3'
    assert.equal(3, rules_status(broker).counters.picks)
    assert(wait.poll(function() return broker:redis_cli('HEXISTS', '{tide}:rules:shared', 'k:flag') == '0' end))
    assert(wait.poll(function() return broker:redis_cli('HEXISTS', '{tide}:rules:shared', 'k:short') == '0' end))
    broker:expect_clean_stop()
  end)

  it('is written at a stop without waiting', function()
    broker = start_shared()
    for _ = 1, 20 do publish(broker) end
    broker:restart()
    assert.equal(20, rules_status(broker).counters.picks)
    broker:expect_clean_stop()
  end)

  it('is bounded by the configuration', function()
    broker = Broker.start {
      args = { '--max-shared', '2' },
      rules = { ['priority/many.lua'] = [[
        return { rank = function(msg) tide.shared.set(msg.key, 1) return 0 end }]] },
    }
    local c = broker:connect()
    c:ok 'DECLARE queue a priority=many'
    c:ok 'DECLARE queue b priority=many'
    c:ok 'DECLARE queue c priority=many'
    for _, q in ipairs { 'a', 'b', 'c' } do c:ok('PUB - ' .. q, 'p') end
    c:close()
    local status = rules_status(broker)
    assert.equal(2, status.shared.entries)
    for _, script in ipairs(status.scripts) do
      if script.name == 'many' then
        assert.matches('many.lua:1: .*tide.shared is full: 2 entries', script.last_error)
      end
    end
    broker:expect_clean_stop()
  end)
end)

it('a schedule is held back while messages fill the memory, like publishers', function()
  local broker = Broker.start {
    args = { '--store', 'none', '--max-memory', '8M' },
    rules = { ['schedule/flood.lua'] = [[
      return { every = "10ms", run = function(broker)
        for _ = 1, 10 do broker.publish { key = "flood", payload = ("x"):rep(64 * 1024) } end
      end }]] },
  }
  local memory = broker:memory()
  local c = broker:connect()
  c:ok 'DECLARE queue flood'
  local function held() return c:document 'STATS'.blocked end
  local function runs() return schedule_status(broker, 'flood').runs end
  assert(wait.poll(held), 'never held back')
  local before = runs()
  -- A schedule that went on would run fifty times during these.
  assert.is_false(wait.poll(function() return runs() > before + 1 end, 0.5) or false)
  assert.is_true(c:document 'STATS flood'.ready < 300)
  broker:expect_memory_below(memory + (64 << 20))
  c:ok 'PURGE flood'
  assert(wait.poll(function() return runs() > before + 1 end), 'it never went on')
  broker:expect_log 'publishers and schedules are held back: messages fill 8 MiB of memory'
  broker:expect_clean_stop()
end)
