-- kill -9 at random moments of a broker whose topic is published to and read, while the
-- members of its groups come and go: offsets are dense, nobody ever sees another message at
-- an offset, nothing that was confirmed is lost, and groups start again where they were.
-- TIDE_CHAOS_ROUNDS kills that often (default 3), TIDE_TEST_SEED repeats a run.
local Broker = require 'support.broker'
local LogTraffic = require 'chaos.support.log_traffic'
local shell = require 'support.shell'
local wait = require 'support.wait'

local rounds = tonumber(os.getenv 'TIDE_CHAOS_ROUNDS') or 3
local seed = require 'support.seed'

local function redis_of(broker)
  return function(...) return broker:redis_cli(...) end
end

--- A machine may be so slow that nothing has been answered by now.
local function work(traffic, turns)
  traffic:work(turns)
  local confirmed, settled = traffic.figures['log confirmed'], traffic.figures['log settled']
  assert(wait.poll(function()
    traffic:work(1)
    return traffic.figures['log confirmed'] ~= confirmed and traffic.figures['log settled'] ~= settled
  end, 30), 'there is no traffic')
end

local function round(broker, traffic, how)
  work(traffic, math.random(10, 40))
  traffic:sample(redis_of(broker))
  traffic:work(math.random(10))
  local is_clean = how(broker, traffic)
  -- What was answered before the end counts.
  if broker:is_running() then traffic:work(math.random(5, 20)) end
  traffic:read()
  traffic:close()
  if not broker:is_running() then
    broker:restart()
    traffic.ledger:restarted(is_clean)
    traffic:sample(redis_of(broker))
  end
  traffic:connect(broker)
end

---@param how fun(broker: Broker, traffic: LogTraffic): boolean? it was a clean stop
---@param options? { args: string[]?, retention: string? }
local function run(how, options)
  options = options or {}
  math.randomseed(seed)
  local broker = Broker.start { args = options.args }
  finally(function() broker:destroy() end)
  local traffic = LogTraffic.new(nil, options.retention)
  local c = broker:connect()
  traffic:declare(c)
  c:close()
  traffic:connect(broker)
  local ok, err = xpcall(function()
    for _ = 1, rounds do round(broker, traffic, how) end
    traffic:finish(broker)
    broker:expect_clean_stop()
  end, function(e) return type(e) == 'table' and e.broken or debug.traceback(e) end)
  if not ok then error(('%s\nthe log ends:\n%s'):format(err, broker:log():sub(-3000)), 0) end
  local text, status = shell.run(('%s check-store --data %s 2>&1'):format(shell.quote(Broker.binary()),
    shell.quote(broker.data)))
  assert.equal(0, status, text)
end

describe('a topic keeps what it has shown (TIDE_TEST_SEED=' .. seed .. ')', function()
  it('when broker and Redis are killed', function()
    run(function(broker) broker:kill9_all() end)
  end)

  it('when the broker is killed', function()
    run(function(broker) broker:kill9() end)
  end)

  it('when the broker is killed and reads from Redis alone', function()
    run(function(broker) broker:kill9() end, { args = { '--topic-memory', '1M' } })
  end)

  it('when both are killed and the oldest messages are dropped', function()
    run(function(broker) broker:kill9_all() end, { retention = 'retention-count=100' })
  end)

  it('when Redis is killed', function()
    run(function(broker)
      broker:kill9_redis()
      assert(wait.poll(function() return pcall(broker.redis_pid, broker) end), 'no Redis again')
    end)
  end)

  it('when Redis is stopped for a moment', function()
    run(function(broker, traffic)
      local pid = broker:redis_pid()
      os.execute('kill -STOP ' .. pid)
      traffic:work(math.random(20))
      os.execute('kill -CONT ' .. pid)
    end)
  end)

  it('when the broker is told to stop', function()
    run(function(broker)
      broker:expect_clean_stop()
      return true
    end)
  end)
end)
