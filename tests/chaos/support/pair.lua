--- Two brokers on one Redis: one has the store, the other one stands by. Each has a proxy of
--- its own to Redis.
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

---@class Pair
---@field redis Redis
---@field brokers Broker[]
---@field proxies table<Broker, Proxy>
local Pair = {}
Pair.__index = Pair

function Pair.start()
  local self = setmetatable({ brokers = {}, proxies = {}, launched = {} }, Pair)
  self.redis = Redis.start()
  for i = 1, 2 do
    local proxy = Proxy.start(self.redis)
    local broker = Broker.start {
      args = { '--standby', '--store', proxy.url, '--window-messages', '100', '--drain-timeout', '2s' }, stopped = true,
    }
    self.brokers[i], self.proxies[broker] = broker, proxy
    self:launch(broker)
  end
  return self
end

function Pair:destroy()
  for _, broker in ipairs(self.brokers) do
    broker:destroy()
    self.proxies[broker]:destroy()
  end
  self.redis:destroy()
end

function Pair:launch(broker)
  self.launched[broker] = #broker:log()
  broker:launch()
end

function Pair:log_of(broker) return broker:log():sub(self.launched[broker] + 1) end

function Pair:is_holder(broker)
  -- A process that has just been started has no pid yet.
  local pid = shell.read_file(broker.dir .. '/pid')
  return pid ~= nil and self.redis:cli('HGET', '{tide}:holder', 'pid') == pid:match '%d+'
end

local function is_listening(broker) return broker:stdout():find('listening on', 1, true) ~= nil end

--- A broker that has ended starts again: it was killed, told to end, or taken over from.
function Pair:revive(broker)
  local status = broker:exit_status()
  if not status then return end
  local log = self:log_of(broker)
  local is_expected = status == 137 or status == 0 or (status == 1 and log:find 'has taken the store over')
  assert(is_expected, ('a broker ended with status %d:\n%s'):format(status, log))
  self:launch(broker)
end

--- Wait until one holds the store and the other one stands by.
---@return Broker holder, Broker other
function Pair:roles()
  local holder, other
  local found = wait.poll(function()
    for i, broker in ipairs(self.brokers) do
      self:revive(broker)
      if self:is_holder(broker) and is_listening(broker) then holder, other = broker, self.brokers[3 - i] end
    end
    -- One that has listened is a former holder, which is about to end.
    return holder and not is_listening(other) and self:log_of(other):find 'standing by' and self:is_holder(holder)
  end, 30)
  if not found then
    error(('no holder and standby:\n%s\n\n%s'):format(self.brokers[1]:log(), self.brokers[2]:log()))
  end
  assert(holder:wait_ready() == true)
  return holder, other
end

return Pair
