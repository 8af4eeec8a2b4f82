--- The crash matrix: a life of a broker (life.lua, log_life.lua) is cut short before and
--- after every command that it sends to Redis, by the end of the connection, of the broker or
--- of Redis. With Matrix.start(Life, true) it is answered once as a Redis Cluster does whose slots move. A part of
--- the points is taken by chance; `make matrix` takes all.
---
---   TIDE_TEST_SEED   which points, and in which order; printed when one fails
---   TIDE_MATRIX_SHARE  one point in so many; default: what the life says
---   TIDE_MATRIX_PART   i/n: of these, the i-th of n parts, for n processes side by side
---   TIDE_MATRIX_POINT  one point alone, as a fault names it: '137 before broker'
---
---   local matrix = Matrix.start(Life)
---   local total = matrix:count()                    -- commands of a life that nothing ends
---   local fault = matrix:run { at = 17, when = 'before', what = 'broker' }
---   matrix:expect_survival('broker', total)         -- at a part of all points
---   matrix:destroy()
local Broker = require 'support.broker'
local Node = require 'support.redis_node'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

---@class Matrix
---@field life table whose lives are led: new, rules, share, and the parts start, work, stop, verify
local Matrix = {}
Matrix.__index = Matrix

---@class MatrixPoint
---@field at integer number of a command, from the first of the start
---@field when 'before'|'after'
---@field what 'connection'|'broker'|'redis'|'moved'|'ask'|'tryagain'|'clusterdown'|'carried'

Matrix.seed = require 'support.seed'

local share = tonumber(os.getenv 'TIDE_MATRIX_SHARE')
local part, parts = (os.getenv 'TIDE_MATRIX_PART' or '1/1'):match '^(%d+)/(%d+)$'
local only = os.getenv 'TIDE_MATRIX_POINT'
local root = shell.line 'pwd'
-- Redis keeps what the lives before wrote in its file, and reads all of it when it starts.
local LIVES_OF_A_REDIS = 40

--- What a master of a Redis Cluster answers, and whether it has carried out the command. The first names the port
--- of the proxy.
local BOUNCES = {
  moved = { 'instead', 'MOVED 1 127.0.0.1:%d' },
  ask = { 'instead', 'ASK 1 127.0.0.1:1' },
  tryagain = { 'instead', 'TRYAGAIN Multiple keys request during rehashing of slot' },
  clusterdown = { 'instead', 'CLUSTERDOWN Hash slot not served' },
  carried = { 'carried', 'TRYAGAIN Multiple keys request during rehashing of slot' },
}

--- One master with all slots, which is found at the proxy.
local function start_cluster(self)
  self.port = Node.free_port()
  self.redis = Redis.start {
    '--port', Node.free_port(), '--bind', '127.0.0.1', '--cluster-enabled', 'yes', '--cluster-port', Node.free_port(),
    '--cluster-announce-ip', '127.0.0.1', '--cluster-announce-port', self.port,
  }
  assert(self.redis:cli('CLUSTER', 'ADDSLOTSRANGE', 0, 16383) == 'OK')
  assert(wait.poll(function() return self.redis:cli('CLUSTER', 'INFO'):find 'cluster_state:ok' end),
    'the cluster does not begin')
end

local function renew(self)
  if self.broker then
    self.broker:destroy()
    self.proxy:destroy()
    self.redis:destroy()
  end
  if self.is_cluster then start_cluster(self) else self.redis = Redis.start() end
  self.proxy = Proxy.start(self.redis, self.port)
  self.broker = Broker.start { args = { '--store', self.proxy.url }, rules = self.life.rules, stopped = true }
  self.lives = 0
end

---@param life table
---@param is_cluster boolean? Redis is a Redis Cluster
---@return Matrix
function Matrix.start(life, is_cluster)
  local self = setmetatable({ life = life, is_cluster = is_cluster }, Matrix)
  renew(self)
  return self
end

--- What the shell does at a point.
local function command_of(self, what)
  if what == 'broker' then return ('kill -9 $(cat %s/pid)'):format(self.broker.dir) end
  if what == 'redis' then
    return ('kill -9 $(cat %s/pid); TIDE_TEST_DIR=%s bash %s/tests/integration/support/process.sh run'):format(
      self.redis.dir, self.redis.dir, root)
  end
end

--- The broker is gone, as it was to be at the point.
local function was_killed(self, point)
  return point.what == 'broker' and self.proxy:state() == 'idle'
    and wait.poll(function() return not self.broker:is_running() end)
end

local function live(self, life, point)
  local is_interrupted = false
  local steps = { 'start', 'work', 'stop', 'start', 'verify', 'stop' }
  local i = 1
  while steps[i] do
    local ok, err = pcall(life[steps[i]], life)
    if ok then
      i = i + 1
    elseif type(err) == 'table' or is_interrupted or not point then
      error(err, 0)
    elseif was_killed(self, point) then
      is_interrupted = true
      life.after_kill = true
      steps, i = { 'start', 'verify', 'stop' }, 1
    elseif point.what ~= 'broker' and steps[i] == 'start' and self.proxy:state() == 'idle' then
      -- A start may fail without Redis; the next one may not.
      is_interrupted = true
      assert(wait.poll(function() return self.redis:cli 'PING' == 'PONG' end), 'no Redis again')
      steps = { 'start', table.unpack(steps, i + 1) }
      i = 1
    else
      error(err, 0)
    end
  end
end

--- One life; gives what was wrong with it, nil when nothing was.
---@param point MatrixPoint?
---@return string? fault, string? command the command of the point, nil when the life was shorter
function Matrix:run(point)
  if self.lives >= LIVES_OF_A_REDIS then renew(self) end
  self.lives = self.lives + 1
  self.redis:cli 'FLUSHALL'
  shell.write_file(self.broker.dir .. '/stderr', '')
  local bounce = point and BOUNCES[point.what]
  if bounce then
    self.proxy:bounce(point.at, bounce[1], bounce[2]:format(self.port))
  elseif point then
    self.proxy:arm(point.at, point.when, 'cut', command_of(self, point.what))
  end
  local life = self.life.new(self.broker, self.redis)
  local ok, err = pcall(live, self, life, point)
  local state, command = self.proxy:state()
  local log = self.broker:log()
  if state == 'armed' then self.proxy:disarm() end
  if ok then return nil, command end
  renew(self)
  return ('%s\nthe command: %s\nthe log of the broker:\n%s'):format(
    type(err) == 'table' and err.broken or err, command or 'not reached', log), command
end

--- How many commands a life has that nothing ends.
---@return integer
function Matrix:count()
  local before = self.proxy:count()
  local fault = self:run()
  assert(not fault, fault)
  return self.proxy:count() - before
end

--- The points of a life with so many commands, in an order that the seed gives.
local function shuffled_points(count, what)
  local points = {}
  for at = 1, count do
    points[#points + 1] = { at = at, when = 'before', what = what }
    if not BOUNCES[what] then points[#points + 1] = { at = at, when = 'after', what = what } end
  end
  for i = #points, 2, -1 do
    local j = math.random(i)
    points[i], points[j] = points[j], points[i]
  end
  return points
end

local function chosen(count, what, share_by_default)
  if only then
    local at, when, its_what = only:match '^(%d+) (%l+) (%l+)$'
    return its_what == what and { { at = tonumber(at), when = when, what = what } } or {}
  end
  math.randomseed(Matrix.seed)
  local points, mine = shuffled_points(count, what), {}
  local step = share or share_by_default
  for i = 1, #points, step do
    if (i // step) % tonumber(parts) == tonumber(part) - 1 then mine[#mine + 1] = points[i] end
  end
  return mine
end

--- Nothing is wrong with the lives that end so at the chosen points.
---@param what 'connection'|'broker'|'redis'|'moved'|'ask'|'tryagain'|'clusterdown'|'carried'
---@param count integer
function Matrix:expect_survival(what, count)
  local faults = {}
  -- There are five answers for one end.
  local points = chosen(count, what, self.life.share * (BOUNCES[what] and 15 or 1))
  local said = wait.deadline(5)
  for i, point in ipairs(points) do
    local fault = self:run(point)
    if fault then
      faults[#faults + 1] = ('TIDE_MATRIX_POINT="%d %s %s": %s'):format(point.at, point.when, what, fault)
    end
    if os.getenv 'TIDE_MATRIX_PROGRESS' and wait.left(said) == 0 then
      io.stderr:write(('part %s: %s: %d of %d points, %d faults\n'):format(part, what, i, #points, #faults))
      said = wait.deadline(5)
    end
  end
  assert(#faults == 0, ('%d of %d points (of %d commands):\n%s'):format(#faults, #points, count,
    table.concat(faults, '\n')))
end

function Matrix:destroy()
  self.broker:destroy()
  self.proxy:destroy()
  self.redis:destroy()
end

return Matrix
