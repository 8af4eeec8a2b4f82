--- A busy broker with all that can be done to it, and what it has promised: what chaos.lua hurts.
---
---   local place = Place.new({}, { store = 'cluster', confirm = 'replicas=1' })
---   place:connect()
---   place:work(20)                    -- turns of clients
---   place:kill_broker()
---   place:start()                     -- whatever was done to broker and Redis, they run
---   place:close()
---   place:drain()                     -- everything that is left comes, and leaves nothing
---   place:destroy()
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local Cluster = require 'support.cluster'
local Ledger = require 'chaos.support.ledger'
local LogTraffic = require 'chaos.support.log_traffic'
local Net = require 'chaos.support.net'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local Traffic = require 'chaos.support.traffic_ledger'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

local quote = shell.quote

---@class PlaceOptions
---@field store? 'single'|'cluster'|'sentinel' default: single, the broker's own Redis or one behind a proxy
---@field confirm? string the broker's --confirm; default: master
---@field net? boolean the network is the test's own (net.lua): nodes can be cut off from each other
---@field keep? string a directory for the trail of the ledger, and for `keep`
---@field disks? boolean each node of a cluster has a file system of its own, where that is allowed

---@class Place
---@field broker Broker
---@field store string? its --store; nil: embedded
---@field traffic BusyTraffic
---@field ledger Ledger
---@field log LogTraffic
---@field single boolean one Redis
---@field many (Cluster|SentinelGroup)? several of them, and which kind:
---@field cluster Cluster?
---@field sentinel SentinelGroup?
---@field replicated boolean? an OK says that a replica has it
---@field proxy Proxy? with it Redis is the test's own
---@field disk string? a file system of its own, for the files of Redis
---@field net boolean? nodes of a cluster can be cut off from each other
---@field disks string[]? one for each node of a cluster
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
Place.can_mount = has_mounts()

--- One Redis: the broker's own, or the test's, behind a proxy.
local function place_single(self)
  self.single = true
  if math.random(2) == 2 then return nil end
  self.disk = Place.can_mount and shell.make_dir 'tidemq-disk' or nil
  if self.disk then assert(mount(self.disk)) end
  self.redis = Redis.start { '--appendfsync', 'always', table.unpack(self.disk and { '--dir', self.disk } or {}) }
  self.proxy = Proxy.start(self.redis)
  return self.proxy.url
end

--- A cluster of three masters and three replicas, or two Redis under Sentinels.
local function place_many(self, kind, options)
  if kind == 'cluster' then
    self.disks = options.disks and Place.can_mount and {} or nil
    self.net = options.net
    self.cluster = Cluster.start {
      host = self.net and Net.host,
      prepare = self.disks and function(dir)
        assert(mount(dir))
        self.disks[#self.disks + 1] = dir
      end,
    }
  else
    self.sentinel = Cluster.sentinels()
  end
  self.many = self.cluster or self.sentinel
  return self.many.url
end

---@param figures table<string, integer>
---@param options PlaceOptions?
---@return Place
function Place.new(figures, options)
  options = options or {}
  local self = setmetatable({ clock = Clock.new(), clock_ahead = 0, most_ahead = 0, stopped = {} }, Place)
  -- A publish that is sent again after a step of the clock must still be a repetition:
  -- with the default of 2m it would be a message of its own.
  local args, env = { '--window-messages', '100', '--dedupe-window', '24h' }, self.clock.env
  local kind = options.store or 'single'
  if kind == 'single' then
    self.store = place_single(self)
  else
    self.store = place_many(self, kind, options)
  end
  if self.store then table.move({ '--store', self.store }, 1, 2, #args + 1, args) end
  if options.confirm then table.move({ '--confirm', options.confirm }, 1, 2, #args + 1, args) end
  self.replicated = (options.confirm or 'master') ~= 'master'
  self.broker = Broker.start { args = args, env = env, rules = {}, stopped = true }
  if not self.store and Place.can_mount then
    self.disk = self.broker.data
    assert(mount(self.disk))
  end
  self.kept = options.keep
  self.ledger = Ledger.new(self.kept and assert(io.open(self.kept .. '/trail', 'w')))
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

-- ---- what is done to it --------------------------------------------------

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

-- ---- the clients ---------------------------------------------------------

function Place:connect()
  self.traffic:connect(self.broker)
  self.log:connect(self.broker)
end

function Place:close()
  pcall(self.traffic.read, self.traffic)
  self.traffic:close()
  self.log:close()
end

--- Those of the topic, until their connections are gone.
local function work_log(self)
  if not self.log.is_open then return end
  local ok, err = pcall(self.log.work, self.log, 1)
  if not ok and type(err) == 'table' then error(err, 0) end
  if not ok then self.log:close() end
end

-- So many publishes may be unanswered: while Redis is away they are, and the broker stops reading in the end.
local UNANSWERED_MAX = 1000

--- One turn of all clients; false when their connections are gone.
local function work_once(self)
  if #self.traffic.publishing > UNANSWERED_MAX then
    local ok, err = pcall(self.traffic.read, self.traffic)
    if not ok and type(err) == 'table' then error(err, 0) end
    return ok
  end
  local ok, err = pcall(self.traffic.work, self.traffic, 1)
  if not ok and type(err) == 'table' then error(err, 0) end
  if #self.log.publishing <= UNANSWERED_MAX then work_log(self) end
  return ok
end

--- Clients work until the broker is gone, or they have had their turns.
---@param turns integer
function Place:work(turns)
  if not self.broker:is_running() then return end
  pcall(self.traffic.publish, self.traffic, 0)
  for _ = 1, turns do
    if not work_once(self) then return end
    socket.sleep(0.002)
  end
end

--- The same for some time.
---@param seconds number
function Place:work_for(seconds)
  local began = socket.gettime()
  while socket.gettime() - began < seconds and self.broker:is_running() do
    if not work_once(self) then return end
    socket.sleep(0.02)
  end
end

-- ---- healing -------------------------------------------------------------

--- The broker has ended: what it has said before that counts.
function Place:end_log()
  if self.log.is_open then
    local ok, err = pcall(self.log.read, self.log)
    if not ok and type(err) == 'table' then error(err, 0) end
    self.log:close()
  end
  self.log.ledger:restarted()
end

local function start_redis(self)
  if self.redis and self.redis:cli 'PING' ~= 'PONG' then
    -- It may be loading its file.
    local is_there = wait.poll(function() return self.redis:cli 'PING':find '^PONG' end, 2)
    if not is_there then self.redis:run() end
  end
  if self.many then self.many:heal() end
end

local function wait_end(self)
  if not wait.poll(function() return not self.broker:is_running() end, 60) then
    Ledger.broken('the broker does not end after SIGTERM:\n%s', self.broker:log():sub(-3000))
  end
  self.is_ending = false
end

--- It ends in order, if it runs.
function Place:end_broker()
  self:continue()
  if self.broker:is_running() then self:terminate() end
  wait_end(self)
end

--- Redis and the broker run, whatever was done to them.
function Place:start()
  start_redis(self)
  if self.is_ending then wait_end(self) end
  local deadline = wait.deadline(60)
  while not self.broker.address or not self.broker:is_running() do
    self:end_log()
    self.broker:launch()
    if self.broker:wait_ready() == true then break end
    if wait.left(deadline) == 0 then Ledger.broken('the broker does not start:\n%s', self.broker:log():sub(-3000)) end
  end
end

--- What shows the cause of a broken promise stays: the broker's directory, and those of the Redis servers.
function Place:keep()
  if self.ledger.trail then self.ledger.trail:flush() end
  for _, dir in ipairs { self.broker.dir, self.many and self.many.dir or self.disk } do
    os.execute(('cp -r %s %s 2>/dev/null'):format(quote(dir), quote(self.kept)))
  end
end

function Place:destroy()
  self:continue()
  if self.ledger.trail then self.ledger.trail:close() end
  self.broker:destroy()
  if self.proxy then self.proxy:destroy() end
  if self.redis then self.redis:destroy() end
  if self.many then self.many:close() end
  if self.disk then
    os.execute(('umount -l %s 2>/dev/null; rm -rf %s %s'):format(
      quote(self.disk), quote(self.disk), quote(self.broker.dir)))
  end
  for _, dir in ipairs(self.disks or {}) do os.execute(('umount -l %s 2>/dev/null'):format(quote(dir))) end
  if self.disks then os.execute('rm -rf ' .. quote(self.cluster.dir)) end
  self.clock:destroy()
end

-- ---- the end -------------------------------------------------------------

local function drain_queue(self, c, queue)
  local traffic, deadline = self.traffic, wait.deadline(120)
  repeat
    c:ok('KICK ' .. queue) -- a dead letter that Redis refused is buried
    c:send(('GET %s max=500 wait=50ms\r\n'):format(queue))
    local n, first, last = tonumber((c:expect('^OK (%d+)$', 60))), nil, nil
    local copies = {}
    for _ = 1, n do
      local msg = c:expect_msg(60)
      copies[#copies + 1] = self.ledger:seen(queue, msg.payload, {
        id = msg.options.id, pri = msg.options.pri or '0', exchange = msg.exchange, key = msg.key,
        headers = msg.headers,
      })
      first, last = first or msg.tag, msg.tag
    end
    if first then c:ok(('ACK %s-%s'):format(first, last)) end
    for _, copy in ipairs(copies) do self.ledger:removed(copy, queue) end
    traffic:count('drained', n)
    local stats = c:stats(queue)
    if wait.left(deadline) == 0 then
      Ledger.broken('%s is not empty: %s', queue, require('dkjson').encode(stats))
    end
  until stats.ready + stats.delayed + stats.unacked + stats.buried == 0
end

local SETS = { ready = true, delayed = true, unack = true, buried = true, msg = true, tries = true, expiry = true }

--- Keys of all Redis that have messages.
local function full_keys(self)
  local keys, left = {}, {}
  if self.many then
    keys = self.many:keys()
  else
    for key in (self:redis_cli '--scan' .. '\n'):gmatch '([^\n]+)\n' do keys[#keys + 1] = key end
  end
  for _, key in ipairs(keys) do
    if SETS[key:match '^tide:{.*}:(%l+)$'] then left[#left + 1] = key end
  end
  return left
end

--- Everything that is left comes, and leaves nothing.
function Place:drain()
  self:set_clock(self.most_ahead + 10) -- what a clock that was ahead has delayed is due
  local c = self.broker:connect()
  for _, queue in ipairs(Traffic.QUEUES) do drain_queue(self, c, queue.name) end
  c:close()
  self.ledger:expect_nothing_lost()
  self.log:finish(self.broker)
  local left
  local is_clean = wait.poll(function()
    left = full_keys(self)
    return #left == 0
  end, 10)
  if not is_clean then Ledger.broken('a drain leaves %s', table.concat(left, ', ')) end
end

--- End the broker in order; check-store finds nothing in what is stored; start it again.
function Place:check_store()
  self:end_broker()
  local output, status = shell.run(('%s check-store --store %s 2>&1 </dev/null'):format(quote(Broker.binary()),
    quote(self.store)))
  if status ~= 0 then Ledger.broken('check-store ends with status %d:\n%s', status, output) end
  self:start()
end

return Place
