--- A day of ordinary work: one broker with its defaults, and workers that come by every door.
---
---   local field = Field.fixture()
---   local queue = field.queue 'ack-timeout=2s'
---   field.publish(queue, 30)
---   ...
---   field.expect_done(queue, 30)
---
--- Jobs are the numbers from 1 on. Work takes time of the broker: a worker waits until its clock has moved on.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local busted = require 'busted'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

local Field = {}

--- Of a queue whose worker is to need far longer than that for all jobs. A busy machine may stop a
--- test for most of it.
Field.LEASE_MS = wait.limit(2000)

---@return string[] "1", "2", … as payloads are
function Field.numbers(first, last)
  local list = {}
  for i = first, last do list[#list + 1] = tostring(i) end
  return list
end

---@class FieldFixture
---@field broker Broker set while tests run, and `admin` with it
---@field admin Client
---@field queue fun(options: string?): string a new queue
---@field publish fun(queue: string, last: integer, first: integer?)
---@field work fun(ms: number) until the broker's clock has moved on so far
---@field expect_done fun(queue: string, n: integer, more: table?) each job was acknowledged once, and none failed
---@field start fun(program: string, ...): file* a worker: `c` or `python`, with its arguments
---@field stomp fun(): Stomp
---@field http fun(): Http

local program = {}

function program.python(_, words)
  return ('PYTHONPATH=examples/python exec timeout %d python3 -B -W error tests/field/worker.py %s'):format(
    wait.limit(300), words)
end

function program.c(broker, words)
  local build, path = Broker.binary():match '^(.*)/', broker.dir .. '/worker'
  if not shell.read_file(path) then
    -- A library that was built with sanitizers needs their run-time.
    local output, status = shell.run(([[
      flags=$(nm '%s/libtidemq.a' | grep -q __asan_ && echo -fsanitize=address,undefined)
      cc -Wall -Wextra -Werror -Iinclude $flags tests/field/worker.c '%s/libtidemq.a' \
        $(pkg-config --libs libuv openssl) -o '%s' 2>&1]]):format(build, build, path))
    assert(status == 0, output)
  end
  return ("exec timeout %d '%s' %s"):format(wait.limit(300), path, words)
end

---@param options BrokerOptions? more of them
---@return FieldFixture
function Field.fixture(options)
  local field, count = {}, 0

  busted.setup(function()
    local all = { args = { '--fsync', 'no' }, http = '127.0.0.1:0' }
    for name, value in pairs(options or {}) do all[name] = value end
    field.broker = Broker.start(all)
    field.admin = field.broker:connect()
  end)
  busted.teardown(function()
    if field.admin then field.admin:close() end
    if field.broker then field.broker:expect_clean_stop() end
  end)

  function field.queue(more)
    count = count + 1
    local name = 'jobs' .. count
    field.admin:ok(('DECLARE queue %s %s'):format(name, more or 'shards=1'))
    return name
  end

  function field.publish(queue, last, first)
    local requests = {}
    for _, n in ipairs(Field.numbers(first or 1, last)) do
      requests[#requests + 1] = ('PUB - %s %d\r\n%s\r\n'):format(queue, #n, n)
    end
    field.admin:send(table.concat(requests))
    for _ = 1, #requests do field.admin:expect '^OK %x+ 1$' end
  end

  function field.work(ms)
    local function now() return field.admin:document 'STATS'.uptime_ms end
    local done = now() + ms
    while now() < done do socket.sleep(0.002) end
  end

  --- `more` has other figures of STATS that are expected.
  function field.expect_done(queue, n, more)
    local expected = { ready = 0, delayed = 0, unacked = 0, buried = 0, acked = n, nacked = 0, timed_out = 0,
      dead_lettered = 0, paced = 0 }
    for name, value in pairs(more or {}) do expected[name] = value end
    local seen
    wait.poll(function()
      seen = {}
      local stats = field.admin:stats(queue)
      for name in pairs(expected) do seen[name] = stats[name] end
      return seen.ready + seen.delayed + seen.unacked == 0 and seen.acked == expected.acked
    end)
    busted.assert.same(expected, seen, queue)
  end

  --- MODE, URL and QUEUE go first; the rest is as tests/field/worker.py says.
  function field.start(kind, mode, queue, ...)
    local words = { mode, shell.quote(field.broker:url()), queue, ... }
    return assert(io.popen(program[kind](field.broker, table.concat(words, ' ')) .. ' 2>&1 </dev/null'))
  end

  function field.stomp() return Stomp.connect(field.broker) end

  function field.http() return Http.connect(field.broker) end

  return field
end

--- The lines that a worker prints until its end, which must be a good one.
---@param pipe file*
---@return string[]
function Field.lines(pipe)
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  local ok = pipe:close()
  assert(ok, 'the worker failed:\n' .. table.concat(lines, '\n'))
  return lines
end

--- A consumer of the line protocol, with what it has received and not taken.
---@class FieldConsumer
---@field c Client
---@field waiting Delivery[]
local Consumer = {}
Consumer.__index = Consumer

---@return FieldConsumer
function Field.consumer(broker, queue, options)
  local self = setmetatable({ c = broker:connect(), waiting = {} }, Consumer)
  if queue then self:ask(('SUB %s worker%s'):format(queue, options and ' ' .. options or '')) end
  return self
end

--- A request that must be answered OK; messages may come before.
function Consumer:ask(line)
  self.c:send(line .. '\r\n')
  while true do
    local answer = self.c:expect '^.*$'
    if answer:find '^OK' then return answer:sub(4) end
    if not answer:find '^MSG ' then error(('%q was answered %q'):format(line, answer), 2) end
    self.waiting[#self.waiting + 1] = self.c:delivery(answer)
  end
end

---@return Delivery
function Consumer:next()
  return table.remove(self.waiting, 1) or self.c:expect_msg()
end

--- Leave in order, and wait until the broker has let go.
function Consumer:quit()
  self.c:send 'QUIT\r\n'
  self.c:drain_to_end()
  self.c:close()
end

--- "7 1": the job and the attempt.
function Field.line(m) return ('%s %d'):format(m.payload, m.attempt) end

--- The lines for jobs that were done at the first attempt.
function Field.firsts(first, last)
  local list = {}
  for i, n in ipairs(Field.numbers(first, last)) do list[i] = n .. ' 1' end
  return list
end

return Field
