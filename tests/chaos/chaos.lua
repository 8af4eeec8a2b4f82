--- chaos.lua: hurt a broker in every way of support/faults.lua while clients work, for
--- $TIME (default 60s; 90s, 30m, 1h), and hold it to what it confirmed. $SEED repeats the
--- choices of a run. Prints a line for each broker, figures at its end, and fails when
--- a message was lost, came back after its acknowledgement, or was not the one published.
package.path = './tests/?.lua;./tests/integration/?.lua;' .. package.path
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local Ledger = require 'chaos.support.ledger'
local LogTraffic = require 'chaos.support.log_traffic'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local Traffic = require 'chaos.support.traffic_ledger'
local faults = require 'chaos.support.faults'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

local ROUNDS_OF_A_BROKER = 25
local quote = shell.quote

local function seconds_of(text)
  local n, unit = text:match '^(%d+)([smh]?)$'
  assert(n, 'TIME is a number of seconds, or like 90s, 30m, 1h; not ' .. text)
  return tonumber(n) * ({ [''] = 1, s = 1, m = 60, h = 3600 })[unit]
end

-- ---- a place: a broker with all that can be done to it -------------------

---@class Place
---@field broker Broker
---@field traffic BusyTraffic
---@field ledger Ledger
---@field log LogTraffic
---@field proxy Proxy? with it Redis is the test's own
---@field disk string? a file system of its own, for the files of Redis
---@field clock_ahead integer seconds
local Place = {}
Place.__index = Place

--- Mount a small file system over a directory; false where that is not allowed.
local function mount(dir)
  return os.execute(('mount -t tmpfs -o size=192m tmpfs %s 2>/dev/null'):format(quote(dir))) == true
end

local function has_mounts()
  local dir = shell.make_dir 'tidemq-mount'
  local ok = mount(dir)
  if ok then os.execute('umount ' .. quote(dir)) end
  os.execute('rmdir ' .. quote(dir))
  return ok
end
local can_mount = has_mounts()

---@param figures table<string, integer>
---@return Place
function Place.new(figures)
  local self = setmetatable({ clock = Clock.new(), clock_ahead = 0, most_ahead = 0, stopped = {} }, Place)
  -- A publish that is sent again after a step of the clock must still be a repetition:
  -- with the default of 2m it would be a message of its own.
  local args, env = { '--window-messages', '100', '--dedupe-window', '24h' }, self.clock.env
  local has_proxy = math.random(2) == 1
  if has_proxy then
    self.disk = can_mount and shell.make_dir 'tidemq-disk' or nil
    if self.disk then assert(mount(self.disk)) end
    self.redis = Redis.start { '--appendfsync', 'always', table.unpack(self.disk and { '--dir', self.disk } or {}) }
    self.proxy = Proxy.start(self.redis)
    args[#args + 1], args[#args + 2] = '--store', self.proxy.url
  end
  self.broker = Broker.start { args = args, env = env, rules = {}, stopped = true }
  if not has_proxy and can_mount then
    self.disk = self.broker.data
    assert(mount(self.disk))
  end
  self.ledger = Ledger.new()
  self.traffic = Traffic.new(self.ledger, figures)
  self.log = LogTraffic.new(figures)
  self:start()
  local c = self.broker:connect()
  for _, queue in ipairs(Traffic.QUEUES) do
    c:ok((('DECLARE queue %s %s'):format(queue.name, queue.options):gsub(' $', '')))
  end
  self.log:declare(c)
  c:close()
  return self
end

function Place:redis_cli(...)
  return (self.redis or self.broker)[self.redis and 'cli' or 'redis_cli'](self.redis or self.broker, ...)
end

--- nil while there is none.
function Place:redis_pid()
  local pid = self:redis_cli('INFO', 'server'):match 'process_id:(%d+)'
  return pid and math.tointeger(tonumber(pid))
end

function Place:kill_redis()
  local pid = self:redis_pid()
  if pid then os.execute(('kill -9 %d 2>/dev/null'):format(pid)) end
end

--- Its end is seen a little later.
function Place:kill_broker()
  os.execute(('kill -9 %d 2>/dev/null'):format((self.broker:pid())))
  self.is_ending = true
end

function Place:stop(pid)
  if not pid then return end
  os.execute(('kill -STOP %d 2>/dev/null'):format(pid))
  self.stopped[#self.stopped + 1] = pid
end

function Place:continue()
  for _, pid in ipairs(self.stopped) do os.execute(('kill -CONT %d 2>/dev/null'):format(pid)) end
  self.stopped = {}
end

--- It ends by itself, perhaps after the next fault.
function Place:terminate()
  os.execute(('kill -TERM %d 2>/dev/null'):format((self.broker:pid())))
  self.is_ending = true
end

function Place:set_clock(ahead)
  self.clock_ahead, self.most_ahead = ahead, math.max(ahead, self.most_ahead)
  self.clock:set(ahead)
end

--- The broker has ended: what it has said before that counts.
function Place:end_log()
  if self.log.is_open then
    local ok, err = pcall(self.log.read, self.log)
    if not ok and type(err) == 'table' then error(err, 0) end
    self.log:close()
  end
  self.log.ledger:restarted()
end

--- Redis and the broker run, whatever was done to them.
function Place:start()
  if self.redis and self.redis:cli 'PING' ~= 'PONG' then
    -- It may be loading its file.
    local is_there = wait.poll(function() return self.redis:cli 'PING':find '^PONG' end, 2)
    if not is_there then self.redis:run() end
  end
  if self.is_ending and not wait.poll(function() return not self.broker:is_running() end, 60) then
    Ledger.broken('the broker does not end after SIGTERM:\n%s', self.broker:log():sub(-3000))
  end
  self.is_ending = false
  local deadline = wait.deadline(60)
  while not self.broker.address or not self.broker:is_running() do
    self:end_log()
    self.broker:launch()
    if self.broker:wait_ready() == true then break end
    if wait.left(deadline) == 0 then Ledger.broken('the broker does not start:\n%s', self.broker:log():sub(-3000)) end
  end
end

function Place:destroy()
  self:continue()
  self.broker:destroy()
  if self.proxy then self.proxy:destroy() end
  if self.redis then self.redis:destroy() end
  if self.disk then
    os.execute(('umount -l %s 2>/dev/null; rm -rf %s %s'):format(
      quote(self.disk), quote(self.disk), quote(self.broker.dir)))
  end
  self.clock:destroy()
end

-- ---- rounds --------------------------------------------------------------

local names = {}
for name in pairs(faults) do names[#names + 1] = name end
table.sort(names)

local function choose(place)
  while true do
    local name = names[math.random(#names)]
    local fault = faults[name]
    local is_possible = not fault.needs or place[fault.needs]
    if is_possible and not (fault.asks and #place.stopped > 0) then return name, fault end
  end
end

--- Those of the topic, until their connections are gone.
local function work_log(place)
  if not place.log.is_open then return end
  local ok, err = pcall(place.log.work, place.log, 1)
  if not ok and type(err) == 'table' then error(err, 0) end
  if not ok then place.log:close() end
end

--- Clients work until the broker is gone, or they have had their turns.
local function work(place, turns)
  if not place.broker:is_running() then return end
  pcall(place.traffic.publish, place.traffic, 0)
  for _ = 1, turns do
    local ok, err = pcall(place.traffic.work, place.traffic, 1)
    if not ok and type(err) == 'table' then error(err, 0) end
    work_log(place)
    if not ok then return end
    socket.sleep(0.002)
  end
end

local function round(place, counts)
  place.traffic:connect(place.broker)
  place.log:connect(place.broker)
  work(place, math.random(5, 40))
  local begun = {}
  -- Now and then the next thing goes wrong before the first is over.
  repeat
    local name, fault = choose(place)
    counts[name] = (counts[name] or 0) + 1
    begun[#begun + 1] = fault
    place.doing = name
    fault.begin(place)
    work(place, math.random(5, 40))
  until math.random(4) > 1
  for i = #begun, 1, -1 do
    if begun[i].finish then begun[i].finish(place) end
  end
  place:start()
  work(place, math.random(5, 20))
  pcall(place.traffic.read, place.traffic)
  place.traffic:close()
  place.log:close()
end

local function drain_queue(place, c, queue)
  local traffic, deadline = place.traffic, wait.deadline(120)
  repeat
    c:ok('KICK ' .. queue) -- a dead letter that Redis refused is buried
    c:send(('GET %s max=500 wait=50ms\r\n'):format(queue))
    local n, first, last = tonumber((c:expect('^OK (%d+)$', 60))), nil, nil
    local copies = {}
    for _ = 1, n do
      local msg = c:expect_msg(60)
      copies[#copies + 1] = place.ledger:seen(queue, msg.payload, {
        id = msg.options.id, pri = msg.options.pri or '0', exchange = msg.exchange, key = msg.key,
        headers = msg.headers,
      })
      first, last = first or msg.tag, msg.tag
    end
    if first then c:ok(('ACK %s-%s'):format(first, last)) end
    for _, copy in ipairs(copies) do place.ledger:removed(copy, queue) end
    traffic:count('drained', n)
    local stats = c:stats(queue)
    if wait.left(deadline) == 0 then
      Ledger.broken('%s is not empty: %s', queue, require('dkjson').encode(stats))
    end
  until stats.ready + stats.delayed + stats.unacked + stats.buried == 0
end

local SETS = { ready = true, delayed = true, unack = true, buried = true, msg = true, tries = true, expiry = true }

--- Everything that is left comes, and leaves nothing.
local function drain(place)
  place:set_clock(place.most_ahead + 10) -- what a clock that was ahead has delayed is due
  local c = place.broker:connect()
  for _, queue in ipairs(Traffic.QUEUES) do drain_queue(place, c, queue.name) end
  c:close()
  place.ledger:expect_nothing_lost()
  place.log:finish(place.broker)
  local left
  local is_clean = wait.poll(function()
    left = {}
    for key in (place:redis_cli '--scan' .. '\n'):gmatch '([^\n]+)\n' do
      if SETS[key:match '^tide:{.*}:(%l+)$'] then left[#left + 1] = key end
    end
    return #left == 0
  end, 10)
  if not is_clean then Ledger.broken('a drain leaves %s', table.concat(left, ', ')) end
end

--- One broker, some rounds, and a drain; gives what was wrong.
local function hurt(figures, counts, is_over)
  local place = Place.new(figures)
  local n = 0
  local ok, err = xpcall(function()
    while n < ROUNDS_OF_A_BROKER and not is_over() do
      n = n + 1
      round(place, counts)
    end
    place.doing = 'the drain'
    drain(place)
  end, function(e) return type(e) == 'table' and e.broken or debug.traceback(e) end)
  local log = place.broker:log()
  place:destroy()
  figures.rounds = (figures.rounds or 0) + n
  if ok then return nil end
  return ('%s\nin round %d, after: %s\nthe log ends:\n%s'):format(err, n, place.doing, log:sub(-3000))
end

local function main()
  local seed = tonumber(os.getenv 'SEED') or os.time() % 1000000
  local seconds = seconds_of(os.getenv 'TIME' or '60s')
  math.randomseed(seed)
  print(('SEED=%d TIME=%ds%s'):format(seed, seconds,
    can_mount and '' or '; no full disks: that needs the right to mount'))
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
  for _, name in ipairs(names) do print(('%-28s %10d'):format(name, counts[name] or 0)) end
  os.exit(broken == 0)
end

main()
