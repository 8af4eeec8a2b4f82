--- The crash matrix: a life of a broker (life.lua) is cut short before and after every
--- command that it sends to Redis, by the end of the connection, of the broker or of Redis.
---
---   local matrix = Matrix.start()
---   local total = matrix:count()                    -- commands of a life that nothing ends
---   local fault = matrix:run { at = 17, when = 'before', what = 'broker' }
---   matrix:destroy()
local Broker = require 'support.broker'
local Life = require 'chaos.support.life'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

---@class Matrix
local Matrix = {}
Matrix.__index = Matrix

---@class MatrixPoint
---@field at integer number of a command, from the first of the start
---@field when 'before'|'after'
---@field what 'connection'|'broker'|'redis'

local root = shell.line 'pwd'
-- Redis keeps what the lives before wrote in its file, and reads all of it when it starts.
local LIVES_OF_A_REDIS = 40

local function renew(self)
  if self.broker then
    self.broker:destroy()
    self.proxy:destroy()
    self.redis:destroy()
  end
  self.redis = Redis.start()
  self.proxy = Proxy.start(self.redis)
  self.broker = Broker.start { args = { '--store', self.proxy.url }, rules = Life.rules, stopped = true }
  self.lives = 0
end

---@return Matrix
function Matrix.start()
  local self = setmetatable({}, Matrix)
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
    and wait.poll(function() return not self.broker:is_running() end, 2)
end

local function live(self, life, point)
  local is_interrupted = false
  local parts = { 'start', 'work', 'stop', 'start', 'verify', 'stop' }
  local i = 1
  while parts[i] do
    local ok, err = pcall(life[parts[i]], life)
    if ok then
      i = i + 1
    elseif type(err) == 'table' or is_interrupted or not point then
      error(err, 0)
    elseif was_killed(self, point) then
      is_interrupted = true
      life.after_kill = true
      parts, i = { 'start', 'verify', 'stop' }, 1
    elseif point.what ~= 'broker' and parts[i] == 'start' and self.proxy:state() == 'idle' then
      -- A start may fail without Redis; the next one may not.
      is_interrupted = true
      assert(wait.poll(function() return self.redis:cli 'PING' == 'PONG' end), 'no Redis again')
      parts = { 'start', table.unpack(parts, i + 1) }
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
  if point then
    self.proxy:arm(point.at, point.when, 'cut', command_of(self, point.what))
  end
  local life = Life.new(self.broker, self.redis)
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

function Matrix:destroy()
  self.broker:destroy()
  self.proxy:destroy()
  self.redis:destroy()
end

return Matrix
