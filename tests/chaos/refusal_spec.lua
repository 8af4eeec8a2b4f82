-- Redis refuses to write, from a numbered command on, and some commands later it takes
-- writes again; the broker is killed in some runs. A model of what was confirmed and what
-- was acknowledged says what must be there in the end.
-- TIDE_REFUSAL_RUNS is how many runs of each kind (default 1), or `all`: every command is
-- the first to be refused once. TIDE_TEST_SEED repeats a choice.
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local refusals = require 'chaos.support.refusals'
local wait = require 'support.wait'

local runs = os.getenv 'TIDE_REFUSAL_RUNS' or '1'
local seed = require 'support.seed'

local kills = { 'none', 'while it refuses', 'afterwards' }

local QUEUES = { 'q', 'd', 'b', 'p', 'x' }

-- An answer that takes longer may be waiting for the end of the refusal.
local STUCK_S = 0.4

---@class Record what is known of a message, by its payload
---@field queue string
---@field confirmed boolean
---@field refused boolean
---@field maybe boolean something was asked that may have removed it
---@field gone boolean that was answered OK
---@field drained table<string, boolean>

---@class Run
local Run = {}
Run.__index = Run

local function new_run(redis, proxy)
  redis:cli 'FLUSHALL'
  return setmetatable({ redis = redis, proxy = proxy, records = {}, count = 0, said = {} }, Run)
end

function Run:say(format, ...) self.said[#self.said + 1] = format:format(...) end

function Run:fail(format, ...)
  error(('%s\n%s\n%s'):format(format:format(...), table.concat(self.said, '\n'),
    self.broker and self.broker:log() or ''), 0)
end

function Run:shell(what) return ('redis-cli -s %s %s >/dev/null'):format(self.redis.path, what) end

--- Begin at the n-th command from now on. With a cut, that one was carried out and its
--- answer is lost; whatever was not answered is sent again, and refused.
function Run:arm(refusal, at, commands, is_cut)
  self.refusal, self.commands = refusal, commands
  self.is_impatient = math.random(2) == 1
  self.is_cut = is_cut
  self.proxy:arm(at, is_cut and 'after' or 'before', is_cut and 'cut' or 'go', self:shell(refusal.on))
  self.phase = 'armed'
end

--- The refusal has begun: its end is known then.
function Run:follow()
  if self.phase == 'armed' and self.proxy:state() == 'idle' then
    self:say('-- refusing from here: %s', select(2, self.proxy:state()))
    self.phase = 'refusing'
    if self.commands then self.proxy:arm(self.commands, 'before', 'go', self:shell(self.refusal.off)) end
  end
  if self.phase == 'refusing' and self.commands and self.proxy:state() == 'idle' then
    self:say '-- no longer'
    self.phase = 'over'
  end
end

function Run:lift()
  self:follow()
  if self.phase == 'over' or not self.phase then return end
  self.proxy:disarm()
  os.execute(self:shell(self.refusal.off))
  self:say '-- ended'
  self.phase = 'over'
end

function Run:boot()
  for _ = 1, 3 do
    local broker = Broker.start { args = { '--store', self.proxy.url, '--window-messages', '16' }, stopped = true }
    self.broker = broker
    broker:launch()
    local ready = broker:wait_ready(STUCK_S)
    self:follow()
    if ready == nil then
      -- It has connected, and tries until Redis takes writes.
      self:lift()
      ready = broker:wait_ready()
    end
    if ready == true then
      self:say '-- started'
      return
    end
    self:say('-- did not start: %s', broker:log())
    broker:destroy()
    self.broker = nil
    self:lift()
  end
  self:fail 'the broker does not start'
end

function Run:kill()
  self.broker:kill9()
  self.broker:destroy()
  self.broker = nil
  self:say '-- killed'
end

--- The answer to what was sent. When there is none, the refusal ends, or nobody waits for
--- the answer any more: it is '' then.
function Run:answer(c, what)
  local line = not c.is_left and c:read_line(STUCK_S)
  self:follow()
  if not line and self.is_impatient and self.phase == 'refusing' then
    c.is_left = true
    line = ''
  elseif not line then
    self:lift()
    line = c:read_line(30)
  end
  if not line then self:fail('no answer to %s', what) end
  self:say('%s -> %s', what, line)
  return line
end

function Run:ask(c, line)
  if c.is_left then return '' end
  c:send(line .. '\r\n')
  return self:answer(c, line)
end

--- On a connection of its own.
function Run:ask_once(line)
  local c = self.broker:connect()
  local answer = self:ask(c, line)
  c:close()
  return answer
end

function Run:declare(queue, words)
  while true do
    local answer = self:ask_once(('DECLARE queue %s%s'):format(queue, words or ''))
    if answer == 'OK' then return end
    if answer ~= '' and not answer:find '^ERR store' then self:fail('DECLARE of %s', queue) end
    self:lift()
  end
end

function Run:publish(queue, count, words)
  local c = self.broker:connect()
  local sent = {}
  for i = 1, count do
    self.count = self.count + 1
    local text = ('%s-%d'):format(queue, self.count)
    self.records[text] = { queue = queue, drained = {} }
    sent[i] = text
    local options = (words or ''):gsub('@', text)
    c:send(('PUB - %s%s %d\r\n%s\r\n'):format(queue, options, #text, text))
  end
  for _, text in ipairs(sent) do
    local answer = self:answer(c, 'PUB ' .. text)
    local record = self.records[text]
    if answer:find '^OK' then
      record.confirmed = true
    elseif answer:find '^ERR store' then
      record.refused = true
    elseif answer ~= '' then
      self:fail('PUB %s', text)
    end
  end
  c:close()
end

--- A message came: it was published, not refused, and nobody has an OK for its removal.
function Run:check(queue, msg)
  local record = self.records[msg.payload]
  if not record then self:fail('%s: nobody published %s', queue, msg.payload) end
  -- After a cut nobody knows what Redis has taken.
  if record.refused and not self.is_cut then self:fail('%s: %s was refused and comes', queue, msg.payload) end
  if record.gone then self:fail('%s: %s was done with and comes back', queue, msg.payload) end
  return record
end

function Run:get(c, queue, max)
  local answer = self:ask(c, ('GET %s max=%d'):format(queue, max))
  local msgs = {}
  for i = 1, tonumber(answer:match '^OK (%d+)$') or 0 do
    msgs[i] = c:expect_msg()
    self:check(queue, msgs[i])
  end
  return msgs
end

function Run:ack(c, msg)
  local record = self.records[msg.payload]
  record.maybe = true
  record.gone = self:ask(c, 'ACK ' .. msg.tag):find '^OK' ~= nil
end

--- All messages of a queue go, if that is answered OK.
function Run:remove_all(line, queue)
  local all = {}
  for _, record in pairs(self.records) do
    if record.queue == queue then
      record.maybe = true
      all[#all + 1] = record
    end
  end
  local is_done = self:ask_once(line):find '^OK' ~= nil
  for _, record in ipairs(all) do record.gone = record.gone or is_done end
  return is_done
end

function Run:first_part()
  for _, queue in ipairs { 'd', 'b', 'p', 'x' } do self:declare(queue) end
  self:declare('q', ' dead-letter=-/d')
  self:publish('q', 20)
  self:publish('q', 2, ' delay=400ms')
  self:publish('q', 2, ' id=@')
  self:publish('b', 4)
  self:publish('p', 20)
  self:publish('x', 3)
  local c = self.broker:connect()
  local held = self:get(c, 'q', 5)
  for i, msg in ipairs(held) do
    if i <= 2 then self:ack(c, msg) end
    if i == 3 then self:ask(c, ('NACK %s delay=300ms'):format(msg.tag)) end
    if i == 4 then self:ask(c, ('NACK %s dead'):format(msg.tag)) end
  end
  local other = self.broker:connect()
  for _, msg in ipairs(self:get(other, 'b', 3)) do self:ask(other, ('NACK %s dead'):format(msg.tag)) end
  self:ask_once('KICK b 2')
  self:remove_all('PURGE p', 'p')
  self:publish('p', 2)
  self.is_deleted = self:remove_all('DELETE queue x', 'x')
  self:declare 'x'
  self:publish('x', 2)
end

function Run:second_part()
  local c = self.broker:connect()
  self.holder = c
  for _, msg in ipairs(self:get(c, 'q', 2)) do self:ack(c, msg) end
  self:publish('q', 3)
  self:publish('b', 1, ' ttl=1h')
  self:ask_once('KICK b')
  local held = self:get(c, 'b', 2)
  if held[1] then self:ack(c, held[1]) end
  self:remove_all('PURGE p', 'p')
  self.is_deleted = self:remove_all('DELETE queue x', 'x')
end

local function key(queue, name) return ('tide:{//%s#0}:%s'):format(queue, name) end

function Run:stored(queue, command, name) return tonumber(self.redis:cli(command, key(queue, name))) end

--- What memory counts is what Redis has.
function Run:expect_agreement(c)
  for _, queue in ipairs(QUEUES) do
    local why
    local ok = wait.poll(function()
      local answer = c:request('STATS ' .. queue)
      if answer:find '^ERR not%-found' then
        why = 'it is not there'
        return self.redis:cli('EXISTS', key(queue, 'msg'), key(queue, 'ready')) == '0'
      end
      local stats = require('dkjson').decode(c:expect_payload(answer:match '^DATA (%d+)$'))
      local counted = stats.ready + stats.delayed + stats.unacked + stats.buried
      local bodies = self:stored(queue, 'HLEN', 'msg')
      local places = 0
      for _, set in ipairs { 'ready', 'delayed', 'unack', 'buried' } do
        places = places + self:stored(queue, 'ZCARD', set)
      end
      why = ('counted %d, bodies %d, places %d'):format(counted, bodies, places)
      return counted == bodies and bodies == places
    end)
    if not ok then self:fail('%s: memory and Redis differ: %s', queue, why) end
  end
end

function Run:drain(c, queue)
  local deadline = wait.deadline(30)
  while true do
    if c:request('KICK ' .. queue):find '^ERR not%-found' then return end
    c:send(('GET %s max=100 wait=50ms\r\n'):format(queue))
    local n = tonumber((c:expect '^OK (%d+)$'))
    local first, last
    for _ = 1, n do
      local msg = c:expect_msg()
      first, last = first or msg.tag, msg.tag
      local record = self:check(queue, msg)
      if record.drained[queue] then self:fail('%s: %s comes twice', queue, msg.payload) end
      record.drained[queue] = true
    end
    if first then c:ok(('ACK %s-%s'):format(first, last)) end
    local stats = c:stats(queue)
    local left = stats.ready + stats.delayed + stats.unacked + stats.buried
    if left == 0 then return end
    if wait.left(deadline) == 0 then self:fail('%s: %d messages do not come', queue, left) end
  end
end

function Run:verify()
  local c = self.broker:connect()
  self.holder:close()
  assert(wait.poll(function() return c:request('PUB - d', 'probe'):find '^OK' end, 30), 'nothing can be published')
  self.records.probe = { queue = 'd', confirmed = true, drained = {} }
  self:expect_agreement(c)
  for _, queue in ipairs(QUEUES) do self:drain(c, queue) end
  for text, record in pairs(self.records) do
    if record.confirmed and not record.maybe and not next(record.drained) then self:fail('lost: %s', text) end
  end
  if self.is_deleted and not c:request('STATS x'):find '^ERR not%-found' then self:fail 'x was deleted and is there' end
  for _, queue in ipairs(QUEUES) do
    -- A killed broker may have been refused to remove what belongs to a message that is gone.
    local names = { 'msg', 'ready', 'delayed', 'unack', 'buried' }
    if not self.refusal then names = { 'tries', 'expiry', table.unpack(names) } end
    for _, name in ipairs(names) do
      if not wait.poll(function() return self.redis:cli('EXISTS', key(queue, name)) == '0' end) then
        self:fail('something is left in %s', key(queue, name))
      end
    end
  end
  self.broker:expect_clean_stop()
end

function Run:work(kill)
  self:boot()
  self:first_part()
  self:kill()
  self:boot()
  self:second_part()
  if kill == 'while it refuses' then
    self:kill()
    self:lift()
    self:boot()
  elseif kill == 'afterwards' then
    self:lift()
    self:kill()
    self:boot()
  else
    self:lift()
  end
  self:verify()
end

describe('what was confirmed is there, and what was acknowledged is not, seed ' .. seed .. ',', function()
  local redis, proxy, total

  setup(function()
    math.randomseed(seed)
    redis = Redis.start()
    proxy = Proxy.start(redis)
    local run = new_run(redis, proxy)
    local before = proxy:count()
    run:work 'none'
    total = proxy:count() - before
    run.broker:destroy()
  end)

  teardown(function()
    proxy:destroy()
    redis:destroy()
  end)

  local function try(refusal, at, commands, kill)
    local run = new_run(redis, proxy)
    local is_cut = math.random(3) == 1
    run:say('-- from command %d, for %s commands, kill %s%s', at, commands or 'all', kill, is_cut and ', cut' or '')
    run:arm(refusal, at, commands, is_cut)
    local ok, why = pcall(run.work, run, kill)
    run:lift()
    if run.broker then run.broker:destroy() end
    if not ok then error(('%s\n%s'):format(why, table.concat(run.said, '\n')), 0) end
  end

  for name, refusal in pairs(refusals) do
    it('though Redis was ' .. name, function()
      math.randomseed(seed)
      for i = 1, runs == 'all' and total or tonumber(runs) do
        local at = runs == 'all' and i or math.random(total)
        try(refusal, at, math.random(3) > 1 and math.random(20) or nil, kills[math.random(#kills)])
      end
    end)
  end
end)
