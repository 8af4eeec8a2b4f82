--- What `make chaos` does to a broker. Each fault has `begin`, called while clients work,
--- and perhaps `finish`, called some work later. `needs` names what the place (place.lua)
--- must have: 'single' (one Redis), 'proxy', 'disk' (a file system of its own, which can be filled). `asks` says
--- that it asks Redis, which must not be stopped. Those of a cluster and of Sentinels are in cluster_faults.lua.
local cluster_faults = require 'chaos.support.cluster_faults'
local shell = require 'support.shell'

---@class Fault
---@field begin fun(place: Place)
---@field finish? fun(place: Place)
---@field needs? string
---@field asks? boolean
---@field seconds? number clients work so long at most meanwhile
---@field is_of_many? boolean it hurts one of several Redis
---@field level? string 'replicated': an OK must say that a replica has it

local quote = shell.quote

--- A rule that does nothing, and is another text each time.
local function harmless_rule()
  return ('return { doc = "run %d", match = { exchange = "none" }, publish = function() end }\n'):format(
    math.random(1 << 30))
end

---@type table<string, Fault>
local faults = {
  ['kill -9 of the broker'] = { begin = function(p) p:kill_broker() end },
  ['kill -9 of Redis'] = { needs = 'single', asks = true, begin = function(p) p:kill_redis() end },
  ['kill -9 of both'] = { needs = 'single', asks = true, begin = function(p) p:kill_redis() p:kill_broker() end },
  ['SIGSTOP of the broker'] = {
    begin = function(p) p:stop((p.broker:pid())) end,
    finish = function(p) p:continue() end,
  },
  ['SIGSTOP of Redis'] = {
    needs = 'single',
    asks = true,
    begin = function(p) p:stop(p:redis_pid()) end,
    finish = function(p) p:continue() end,
  },
  ['SIGTERM'] = { begin = function(p) p:terminate() end },
  ['disconnection from Redis'] = { needs = 'proxy', begin = function(p) p.proxy:cut() end },
  ['disconnection of clients'] = {
    begin = function(p)
      p.traffic:close()
      p.log:close()
    end,
  },
  ['full disk'] = {
    needs = 'disk',
    begin = function(p)
      -- A little is left, so that some command is written in part.
      local left = shell.line(('df --output=avail -B1 %s | tail -n 1'):format(quote(p.disk)))
      os.execute(('fallocate -l %d %s/ballast 2>/dev/null'):format(
        math.max(4096, tonumber(left) - math.random(0, 40) * 4096), quote(p.disk)))
    end,
    finish = function(p) os.remove(p.disk .. '/ballast') end,
  },
  ['no memory for Redis'] = {
    needs = 'single',
    asks = true,
    begin = function(p) p:redis_cli('CONFIG', 'SET', 'maxmemory', '1mb') end,
    finish = function(p) p:redis_cli('CONFIG', 'SET', 'maxmemory', '0') end,
  },
  ['slow disk'] = {
    needs = 'proxy',
    begin = function(p) p.proxy:delay(math.random(5, 100)) end,
    finish = function(p) p.proxy:delay(0) end,
  },
  ['step of the clock'] = {
    begin = function(p)
      local step = math.random(3) == 1 and math.random(10800) or math.random(10)
      p:set_clock(p.clock_ahead + (math.random(2) == 1 and step or -step))
    end,
  },
  ['reload of rules'] = {
    begin = function(p) p.broker:write_rule('filter/chaos.lua', harmless_rule()) end,
  },
  ['broken rules'] = {
    begin = function(p)
      p.broker:write_rule('filter/chaos.lua', math.random(2) == 1 and 'return {' or 'error("broken on purpose")')
    end,
    finish = function(p) p.broker:write_rule('filter/chaos.lua', harmless_rule()) end,
  },
}

for name, fault in pairs(cluster_faults) do faults[name] = fault end

return faults
