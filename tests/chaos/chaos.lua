--- chaos.lua: hurt a broker in every way of support/faults.lua while clients work, for
--- $TIME (default 60s; 90s, 30m, 1h), and hold it to what it confirmed. $SEED repeats the
--- choices of a run. $STORE is `single` (default: one Redis), `cluster` (three masters and three replicas) or
--- `sentinel` (a master, a replica, three Sentinels), with the faults of support/cluster_faults.lua; $CONFIRM is the
--- level of such a broker (default: any). With $TRACE each fault is named when it begins;
--- $KEEP is a directory for what a broken promise leaves: logs, files of Redis, the trail of each message.
--- $FAULTS='cut off|FAILOVER' takes those faults alone whose name has one of these.
--- Prints a line for each broker, figures at its end, and fails when
--- a message was lost, came back after its acknowledgement, or was not the one published.
package.path = './tests/?.lua;./tests/integration/?.lua;' .. package.path
local Net = require 'chaos.support.net'
local Place = require 'chaos.support.place'
local faults = require 'chaos.support.faults'
local shell = require 'support.shell'
local socket = require 'socket'

local function seconds_of(text)
  local n, unit = text:match '^(%d+)([smh]?)$'
  assert(n, 'TIME is a number of seconds, or like 90s, 30m, 1h; not ' .. text)
  return tonumber(n) * ({ [''] = 1, s = 1, m = 60, h = 3600 })[unit]
end

local store = os.getenv 'STORE' or 'single'
assert(store == 'single' or store == 'cluster' or store == 'sentinel', 'STORE is single, cluster or sentinel')
local has_net = Net.begin()
-- A fault of several Redis takes seconds.
local ROUNDS_OF_A_BROKER = store == 'single' and 25 or 12

-- ---- rounds --------------------------------------------------------------

--- Is a fault one of those that $FAULTS wants?
local function is_wanted(name)
  local is_any = true
  for part in (os.getenv 'FAULTS' or ''):gmatch '[^|]+' do
    if name:find(part, 1, true) then return true end
    is_any = false
  end
  return is_any
end

local names = {}
for name in pairs(faults) do
  if is_wanted(name) then names[#names + 1] = name end
end
table.sort(names)

local function is_possible(place, fault, begun)
  if fault.needs and not place[fault.needs] then return false end
  if fault.asks and #place.stopped > 0 then return false end
  if fault.level and not place[fault.level] then return false end
  -- Two of them at once may leave no majority, or promote with stale votes (Cluster:wait_votes_over).
  for _, other in ipairs(begun) do
    if other.is_of_many and fault.is_of_many then return false end
  end
  return true
end

local function choose(place, begun)
  while true do
    local name = names[math.random(#names)]
    if is_possible(place, faults[name], begun) then return name, faults[name] end
  end
end

local function round(place, counts)
  place:connect()
  place:work(math.random(5, 40))
  local begun = {}
  -- Now and then the next thing goes wrong before the first is over.
  repeat
    local name, fault = choose(place, begun)
    counts[name] = (counts[name] or 0) + 1
    begun[#begun + 1] = fault
    place.doing = name
    place.ledger:note('fault: %s', name)
    if os.getenv 'TRACE' then io.stderr:write(('%.1f %s\n'):format(socket.gettime() % 1000, name)) end
    fault.begin(place)
    if fault.seconds then place:work_for(math.random() * fault.seconds) else place:work(math.random(5, 40)) end
  until math.random(4) > 1
  for i = #begun, 1, -1 do
    if begun[i].finish then begun[i].finish(place) end
  end
  place.ledger:note 'healing'
  place:start()
  place.ledger:note 'healed'
  place:work(math.random(5, 20))
  place:close()
end

--- One broker, some rounds, and a drain; gives what was wrong.
local function hurt(figures, counts, is_over)
  local confirm = store ~= 'single' and (os.getenv 'CONFIRM' or ({ 'master', 'replicas=1' })[math.random(2)]) or nil
  local keep = os.getenv 'KEEP'
  keep = keep and shell.line(('mktemp -d -p %s chaos.XXXXXX'):format(shell.quote(keep)))
  local place = Place.new(figures, { store = store, confirm = confirm, disks = true, net = has_net, keep = keep })
  local n = 0
  local ok, err = xpcall(function()
    while n < ROUNDS_OF_A_BROKER and not is_over() do
      n = n + 1
      round(place, counts)
    end
    place.doing = 'the check of the store'
    if place.many then place:check_store() end
    place.doing = 'the drain'
    place:drain()
  end, function(e) return type(e) == 'table' and e.broken or debug.traceback(e) end)
  local log = place.broker:log()
  if keep and not ok then place:keep() end
  place:destroy()
  if keep and ok then os.execute('rm -rf ' .. shell.quote(keep)) end
  figures.rounds = (figures.rounds or 0) + n
  if ok then return nil end
  return ('%s\nin round %d%s, after: %s\nthe log ends:\n%s'):format(
    err, n, confirm and ' at --confirm ' .. confirm or '', place.doing, log:sub(-3000))
end

local function main()
  local seed = tonumber(os.getenv 'SEED') or os.time() % 1000000
  local seconds = seconds_of(os.getenv 'TIME' or '60s')
  math.randomseed(seed)
  print(('SEED=%d TIME=%ds STORE=%s%s'):format(seed, seconds, store,
    Place.can_mount and '' or '; no full disks: that needs the right to mount'))
  local figures, counts, broken, brokers = {}, {}, 0, 0
  local began = socket.gettime()
  local function is_over() return socket.gettime() - began >= seconds end
  while not is_over() do
    local fault = hurt(figures, counts, is_over)
    brokers = brokers + 1
    if fault then
      broken = broken + 1
      print('BROKEN (SEED=' .. seed .. '): ' .. fault)
    end
    print(('%5.0f s: %d brokers, %d rounds, %d confirmed, %d broken promises'):format(
      socket.gettime() - began, brokers, figures.rounds, figures.confirmed or 0, broken))
    io.stdout:flush()
  end
  print ''
  local shown = {
    'rounds', 'published', 'confirmed', 'refused', 'delivered', 'duplicated', 'acked', 'drained',
    'log published', 'log confirmed', 'log refused', 'log delivered', 'log settled',
  }
  for _, name in ipairs(shown) do
    print(('%-28s %10d'):format(name, figures[name] or 0))
  end
  print(('%-28s %10d'):format('broken promises', broken))
  for _, name in ipairs(names) do
    if counts[name] then print(('%-36s %2d'):format(name, counts[name])) end
  end
  os.exit(broken == 0)
end

main()
