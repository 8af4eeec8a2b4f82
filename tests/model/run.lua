--- Runs a script against a broker and the model of the specification, side by side.
---
--- A script is a list of lines:
---
---   window 16                     the broker has --window-messages 16 (first line)
---   c1 PUB - q1 pri=3 <m7>       client 1 sends it, with the payload m7
---   c2 ACK {tag:m7@q1}           the tag by which client 2 holds m7 of q1
---   c2 REMOVE q1 {id:m7@q1}      the id of m7 in q1
---   reconnect 2 | leave 2 | restart | kill | kill-all | kill-redis | clock 60m
---
--- A line that names a message which is not there is skipped: so a script still runs
--- when lines of it are taken away. After each line the broker must come to what the model says.
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local Spec = require 'model.spec'
local wait = require 'support.wait'

local M = {}

M.CLIENTS = 3
M.settle_seconds = 30 -- that the broker has to come to the state of the model

local function violated(format, ...)
  error({ violation = format:format(...) }, 0)
end

-- ---- the broker ------------------------------------------------------------------

local Place = {}
Place.__index = Place

--- A broker for scripts of one window, which is started anew after a violation.
local function place_for(pool, window)
  local place = pool[window]
  if place then return place end
  place = setmetatable({ clock = Clock.new(), ahead = 0 }, Place)
  place.broker = Broker.start {
    env = place.clock.env, args = { '--fsync', 'no', '--window-messages', window },
  }
  pool[window] = place
  return place
end

local function destroy(pool, window)
  local place = pool[window]
  if not place then return end
  pool[window] = nil
  place.broker:destroy()
  place.clock:destroy()
end

function Place:step_clock(ms)
  local function steps()
    return select(2, self.broker:log():gsub('the clock was set forward', ''))
  end
  local before = steps()
  self.ahead = self.ahead + ms // 1000
  self.clock:set(self.ahead)
  if not wait.poll(function() return steps() > before end) then
    violated 'the broker did not notice that the clock was set'
  end
end

-- ---- a run -----------------------------------------------------------------------

local Run = {}
Run.__index = Run

local function connect(self, number)
  self.clients[number] = self.place.broker:connect()
end

local function connect_all(self)
  self.admin = self.place.broker:connect()
  for i = 1, M.CLIENTS do connect(self, i) end
end

--- The answer to what was sent; deliveries and events before it are kept for later.
local function read_answer(self, number)
  local c = self.clients[number]
  while true do
    local line = c:read_line(M.settle_seconds)
    if not line then violated('client %d got no answer', number) end
    if line:find '^MSG ' then
      self.events[#self.events + 1] = { number, c:delivery(line) }
    elseif line:find '^EVT closed' then
      violated('client %d: %s', number, line)
    elseif not line:find '^EVT ' then
      return line
    end
  end
end

--- What each client got, in its order. That between two clients is not seen: if one has what may not
--- come yet, another got something before.
local function deliver_events(self)
  while #self.events > 0 do
    local at, is_passed = nil, {}
    for i, event in ipairs(self.events) do
      local number, delivery = table.unpack(event)
      if not at and not is_passed[number] and not self.spec:is_early(number, delivery) then at = i end
      is_passed[number] = true
    end
    self.spec:deliver(table.unpack(table.remove(self.events, at or 1)))
  end
end

--- All deliveries that were on their way.
local function collect(self)
  for number, c in ipairs(self.clients) do
    c:send 'PING\r\n'
    local answer = read_answer(self, number)
    if answer ~= 'OK' then violated('PING was answered %q', answer) end
  end
  deliver_events(self)
end

local STATES = { 'ready', 'delayed', 'unacked', 'buried' }

--- What is different between the broker and the model.
local function difference(self)
  local stuck = self.spec:stuck()
  if stuck then return stuck end
  local names = {}
  for name in pairs(self.spec.queues) do
    names[#names + 1] = name
    for _, state in ipairs(STATES) do self.admin:send(('PEEK %s 100 state=%s\r\n'):format(name, state)) end
    self.admin:send(('STATS %s\r\n'):format(name))
  end
  local found
  for _, name in ipairs(names) do
    local shown, counts = {}, {}
    for _, state in ipairs(STATES) do
      local document = self.admin:expect_json()
      counts[state] = #document.messages
      table.move(document.messages, 1, #document.messages, #shown + 1, shown)
    end
    local stats = self.admin:expect_json()
    -- All of them, since what one must have given up may be in another.
    local wrong = self.spec:compare(name, shown)
    found = found or wrong
    for _, state in ipairs(STATES) do
      if not found and stats[state] ~= counts[state] then
        found = ('STATS of %s counts %d %s, PEEK %d'):format(name, stats[state], state, counts[state])
      end
    end
  end
  return found
end

local function settle(self)
  local found
  local deadline = wait.deadline(M.settle_seconds)
  repeat
    collect(self)
    self.spec:end_leases()
    if not self.spec:stuck() then self.spec:overflow() end
    found = difference(self)
    if found and wait.left(deadline) == 0 then violated('%s', found) end
  until not found
  self.spec.is_loose = false
end

--- All that was answered before is in Redis when this is.
local function barrier(self)
  local ok = wait.poll(function()
    return self.admin:request('PUB - barrier', 'x'):find '^OK'
  end)
  if not ok then violated 'Redis does not come back' end
end

-- ---- steps -----------------------------------------------------------------------

local faults = {}

function faults.reconnect(self, number)
  number = math.tointeger(tonumber(number))
  self.clients[number]:close()
  connect(self, number)
  self.spec:disconnect(number)
end

function faults.leave(self, number)
  number = math.tointeger(tonumber(number))
  self.clients[number]:ok 'QUIT'
  self.clients[number]:close()
  connect(self, number)
  self.spec:leave(number)
end

local function begin_again(self, is_killed)
  self.spec:restart(is_killed)
  connect_all(self)
end

function faults.restart(self)
  self.place.broker:restart()
  begin_again(self, false)
end

function faults.kill(self)
  barrier(self)
  self.place.broker:kill9()
  self.place.broker:run()
  begin_again(self, true)
end

faults['kill-all'] = function(self)
  barrier(self)
  self.place.broker:kill9_all()
  self.place.broker:run()
  begin_again(self, true)
end

faults['kill-redis'] = function(self)
  barrier(self)
  -- A Redis that a killed broker left may be about to end, and answers nobody then.
  wait.poll(function() return pcall(self.place.broker.kill9_redis, self.place.broker) end)
  barrier(self)
end

function faults.clock(self, duration)
  local ms = Spec.duration(duration)
  self.spec:step_clock(ms)
  self.place:step_clock(ms)
end

local FLAGS = { must = true, bury = true, dead = true, requeue = true, ['if-empty'] = true, routed = true }

---@return table? what a line asks for; nil when it names what is not there
local function request_of(self, number, line)
  local is_there = true
  line = line:gsub('{(%a+):(%w+)@(%w+)}', function(what, payload, name)
    local queue = self.spec.queues[name]
    for _, msg in ipairs(queue and queue.msgs or {}) do
      if msg.payload == payload then
        if what == 'id' and msg.id then return msg.id end
        if what == 'tag' and msg.holder and msg.holder.client.number == number then return tostring(msg.tag) end
      end
    end
    is_there = false
  end)
  if not is_there then return nil end
  local r = { client = number, words = {}, options = {}, flags = {}, messages = {} }
  r.line, r.payload = line:match '^(.-) <(.*)>$'
  r.line = r.line or line
  r.verb = r.line:match '^%a+'
  for word in r.line:gmatch(' (%S+)') do
    local name, value = word:match '^([%a-.]+)=(.*)$'
    if name then
      r.options[name] = value
    elseif FLAGS[word] and r.verb:find '^[PNDR][UAE][BCLD]' then
      r.flags[word] = true
    else
      r.words[#r.words + 1] = word
    end
  end
  return r
end

local function request(self, number, line)
  local r = request_of(self, number, line)
  if not r then return false end
  local c = self.clients[number]
  if r.payload then
    c:send(('%s %d\r\n%s\r\n'):format(r.line, #r.payload, r.payload))
  else
    c:send(r.line .. '\r\n')
  end
  r.answer = read_answer(self, number)
  if r.verb == 'GET' and r.answer:find '^OK ' then
    for i = 1, tonumber(r.answer:match '^OK (%d+)') do r.messages[i] = c:expect_msg() end
  end
  local len = r.answer:match '^DATA (%d+)'
  if len then r.document = require('dkjson').decode((c:expect_payload(len))) end
  self.trace[#self.trace + 1] = ('c%d> %s'):format(number, r.line .. (r.payload and ' <' .. r.payload .. '>' or ''))
  self.trace[#self.trace + 1] = ('c%d< %s'):format(number, r.answer)
  self.spec:request(r)
  return true
end

---@param line string
---@return boolean it was done, not skipped
function Run:step(line)
  local number, text = line:match '^c(%d) (.*)$'
  if number then
    if not request(self, math.tointeger(tonumber(number)), text) then return false end
  else
    local fault, argument = line:match '^(%S+) ?(.*)$'
    self.trace[#self.trace + 1] = '-- ' .. line
    faults[fault](self, argument)
  end
  settle(self)
  return true
end

local function finish(self)
  for name in pairs(self.spec.queues) do self.admin:ok('DELETE queue ' .. name) end
  self.admin:ok 'DELETE queue barrier'
  for name in pairs(self.spec.exchanges) do self.admin:ok('DELETE exchange ' .. name) end
  self.admin:close()
  for _, c in ipairs(self.clients) do c:close() end
end

---@class Outcome
---@field done string[] the lines that were done, the failing one included
---@field violation string? what the broker did wrong
---@field trace string[] the session
---@field log string? of the broker, its end

--- Run the lines that `next_line` gives until it gives none.
---@param pool table brokers, which are kept for later runs
---@param window integer
---@param next_line fun(spec: table): string?
---@return Outcome
function M.run(pool, window, next_line)
  local self = setmetatable({ trace = {}, events = {}, clients = {}, spec = Spec.new(M.CLIENTS) }, Run)
  local done = {}
  local is_fine, problem = xpcall(function()
    self.place = place_for(pool, window)
    self.place.broker:enter_vhost():close()
    connect_all(self)
    self.admin:ok 'DECLARE queue barrier'
    for line in function() return next_line(self.spec) end do
      done[#done + 1] = line
      if not self:step(line) then done[#done] = nil end
    end
    finish(self)
  end, function(err) return type(err) == 'table' and err or { violation = debug.traceback(err) } end)
  if is_fine then return { done = done, trace = self.trace } end
  local broker = self.place and self.place.broker
  local outcome = { done = done, trace = self.trace, violation = problem.violation, log = broker and broker:log() }
  destroy(pool, window)
  return outcome
end

---@param pool table
function M.close(pool)
  for window in pairs(pool) do destroy(pool, window) end
end

--- Run a script again.
---@param lines string[]
---@return Outcome
function M.replay(pool, window, lines)
  local i = 0
  return M.run(pool, window, function()
    i = i + 1
    return lines[i]
  end)
end

return M
