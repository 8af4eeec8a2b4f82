-- Two brokers on one Redis, whose topic is published to and read: the holder is killed, or
-- stands still until the other one has taken over, and goes on then. Nobody ever sees another
-- message at an offset, nothing that was confirmed is lost, and groups go on.
-- TIDE_CHAOS_ROUNDS is the number of faults (default 4), TIDE_TEST_SEED repeats a run.
local LogTraffic = require 'chaos.support.log_traffic'
local Pair = require 'chaos.support.pair'

local rounds = tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 4
local seed = require 'support.seed'

--- What clients have sent it while it stood still is on its way to it, and it may have more on
--- its way to Redis.
local function stand_still(_, holder, traffic)
  holder:signal 'STOP'
  pcall(traffic.work, traffic, 2)
  return function() holder:signal 'CONT' end
end

local function be_cut_off(pair, holder, traffic)
  pair.proxies[holder]:signal 'STOP'
  traffic:work(5)
  return function() pair.proxies[holder]:signal 'CONT' end
end

local function be_killed(_, holder)
  holder:kill9()
  return function() end
end

local faults = { stand_still, be_cut_off, be_killed }

local function round(pair, traffic)
  local holder, other = pair:roles()
  traffic:connect(holder)
  traffic:work(math.random(5, 20))
  local go_on = faults[math.random(#faults)](pair, holder, traffic)
  assert(other:wait_ready() == true, 'it does not take over')
  traffic:read()
  traffic:close()
  traffic.ledger:restarted()
  traffic:connect(other)
  traffic:work(10)
  go_on()
  traffic:work(10)
  traffic:read()
  traffic:close()
end

describe('with two brokers on one Redis (TIDE_TEST_SEED=' .. seed .. ')', function()
  it('a topic keeps what it has shown whatever happens to the holder', function()
    math.randomseed(seed)
    local pair = Pair.start()
    finally(function() pair:destroy() end)
    local traffic = LogTraffic.new()
    local c = pair:roles():connect()
    traffic:declare(c)
    c:close()
    local ok, err = xpcall(function()
      for _ = 1, rounds do round(pair, traffic) end
      -- What is in Redis is read by one that has written none of it.
      local holder = pair:roles()
      holder:kill9()
      traffic.ledger:restarted()
      traffic:finish((pair:roles()))
    end, function(e) return type(e) == 'table' and e.broken or debug.traceback(e) end)
    if not ok then
      for i, broker in ipairs(pair.brokers) do
        err = ('%s\nbroker %d %s:\n%s'):format(err, i, broker:exit_status() or 'runs', broker:log():sub(-3000))
      end
      error(err, 0)
    end
  end)
end)
