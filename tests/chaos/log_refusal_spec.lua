-- Redis refuses to write, from a numbered command on, while a topic is published to and read;
-- some commands later it takes writes again, and the broker is killed in some runs. What was
-- refused is never seen, unless its answer was lost; all that log_ledger.lua says holds.
-- TIDE_REFUSAL_RUNS is how many runs of each kind (default 2), TIDE_TEST_SEED repeats a
-- choice.
local Broker = require 'support.broker'
local LogTraffic = require 'chaos.support.log_traffic'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local refusals = require 'chaos.support.refusals'
local wait = require 'support.wait'

local runs = tonumber(os.getenv 'TIDE_REFUSAL_RUNS') or 2
local seed = require 'support.seed'

local kills = { 'none', 'while it refuses', 'afterwards' }

-- Commands of a start, and of the work behind it, are about so many.
local COMMANDS = 120

describe('a topic keeps what it has shown (TIDE_TEST_SEED=' .. seed .. ')', function()
  local redis, proxy, broker

  setup(function()
    math.randomseed(seed)
    redis = Redis.start()
    proxy = Proxy.start(redis)
  end)

  teardown(function()
    proxy:destroy()
    redis:destroy()
  end)

  local function shell_of(what) return ('redis-cli -s %s %s >/dev/null'):format(redis.path, what) end

  local function lift(refusal)
    -- The point may be about to take effect.
    assert(wait.poll(function()
      local state = proxy:state()
      if state == 'armed' then proxy:disarm() end
      return state ~= 'stopping'
    end))
    os.execute(shell_of(refusal.off))
  end

  --- A start, and a declaration, may be refused.
  local function boot(refusal, traffic)
    local why
    broker, why = Broker.start { args = { '--store', proxy.url, '--topic-memory', '1M' }, may_fail = true }
    if not broker then
      lift(refusal)
      broker = Broker.start { args = { '--store', proxy.url } }
    end
    local c = broker:connect()
    for _, line in ipairs(traffic.declarations) do
      assert(wait.poll(function()
        c:send(line .. '\r\n')
        why = c:read_line(0.4)
        if why ~= 'OK' then lift(refusal) end
        return (why or c:read_line(30)) == 'OK'
      end), why)
    end
    c:close()
  end

  local function kill(traffic)
    traffic:read()
    traffic:close()
    broker:kill9()
    broker:destroy()
    traffic.ledger:restarted()
  end

  local function run(refusal, choice)
    redis:cli 'FLUSHALL'
    local traffic = LogTraffic.new()
    traffic.ledger.is_strict = not choice.is_cut
    proxy:arm(choice.at, choice.is_cut and 'after' or 'before', choice.is_cut and 'cut' or 'go', shell_of(refusal.on))
    boot(refusal, traffic)
    traffic:connect(broker)
    traffic:work(choice.turns)
    local has_begun = proxy:state() == 'idle'
    if has_begun and choice.commands then proxy:arm(choice.commands, 'before', 'go', shell_of(refusal.off)) end
    traffic:work(choice.turns)
    if choice.kill == 'afterwards' then lift(refusal) end
    if choice.kill ~= 'none' then
      kill(traffic)
      boot(refusal, traffic)
      traffic:connect(broker)
    end
    traffic:work(choice.turns)
    lift(refusal)
    traffic:work(5)
    traffic:finish(broker)
    broker:expect_clean_stop()
  end

  local function describe_choice(choice)
    return ('from command %d, for %s commands, %d turns, kill %s%s'):format(choice.at, choice.commands or 'all',
      choice.turns, choice.kill, choice.is_cut and ', cut' or '')
  end

  for name, refusal in pairs(refusals) do
    it('though Redis was ' .. name, function()
      math.randomseed(seed)
      for _ = 1, runs do
        local choice = {
          at = math.random(30, COMMANDS), commands = math.random(3) > 1 and math.random(20) or nil,
          turns = math.random(5, 30), kill = kills[math.random(#kills)], is_cut = math.random(3) == 1,
        }
        local ok, err = pcall(run, refusal, choice)
        local log = broker and broker:log() or ''
        lift(refusal)
        if broker then broker:destroy() end
        if not ok then
          error(('%s\n%s\n%s'):format(type(err) == 'table' and err.broken or err, describe_choice(choice),
            log:sub(-3000)), 0)
        end
      end
    end)
  end
end)
