-- One way to decide: the active rules and candidate rules visit the same exchanges in the
-- same order, however many there are, and EXPLAIN shows it.
local Broker = require 'support.broker'
local wait = require 'support.wait'

-- Each decision depends on how many there were before: another order is another decision.
local WANDER = [[
local calls = 0
local M = {}
function M.new() return {} end
function M.bind(index, _, dest)
  table.insert(index, dest)
  table.sort(index)
end
function M.unbind(index, _, dest)
  for i, other in ipairs(index) do
    if other == dest then table.remove(index, i) return end
  end
end
function M.route(index, _, to)
  calls = calls + 1
  for i, dest in ipairs(index) do
    if (calls * 7 + i) % 4 > 0 then to(dest) end
  end
end
return M
]]

local COUNTING = {
  ['routing/wander.lua'] = WANDER,
  ['sharding/turn.lua'] = [[
local calls = 0
return { pick = function(msg, n) calls = calls + 1 return calls + tide.random(n) end }
]],
  ['priority/turn.lua'] = [[
local calls = 0
return { rank = function() calls = calls + 1 return calls + tide.now() % 1000 end }
]],
  ['filter/10-copy.lua'] = [[
local calls = 0
local M = { match = { exchange = '*', key = 'copy' } }
function M.publish(msg)
  calls = calls + 1
  msg.headers.number = calls
  if msg.headers.copied then return end
  msg:copy { exchange = 'x1', headers = { copied = 1 } }
  if calls % 3 == 0 then msg.exchange = 'x2' end
end
return M
]],
}

-- The same rules, but other scripts: differences in shards and ranks then mean something.
local function with_comments(files)
  local others = {}
  for path, text in pairs(files) do others[path] = '-- another file\n' .. text end
  return others
end

local function publish(c, exchange, key)
  c:send(('PUB %s %s 5\r\nhello\r\n'):format(exchange, key))
  c:expect '^OK'
end

-- Loops, diamonds, several ways to one queue, dead ends.
local function declare_topology(c, random)
  local exchanges, queues = random(2, 7), random(1, 5)
  for i = 1, exchanges do
    local alternate = random(2) == 1 and (' alternate=x%d'):format(random(exchanges)) or ''
    c:ok(('DECLARE exchange x%d wander%s'):format(i, alternate))
  end
  for i = 1, queues do
    c:ok(('DECLARE queue q%d shards=%d sharding=turn priority=turn'):format(i, random(1, 4)))
  end
  local words = {}
  for i = 1, random(exchanges, 4 * exchanges) do
    local to_queue = random(2) == 1
    words[i] = ('%s%d x%d p%d%s'):format(to_queue and 'q' or 'x', random(to_queue and queues or exchanges),
      random(exchanges), random(2), to_queue and '' or ' dest=exchange')
    c:ok('BIND ' .. words[i])
  end
  for _ = 1, 2 do
    local i = random(#words)
    if c:request('UNBIND ' .. words[i]) == 'OK' and random(2) == 1 then c:ok('BIND ' .. words[i]) end
  end
  return exchanges, queues
end

describe('decisions by several rules', function()
  local broker, c

  after_each(function()
    c:close()
    broker:destroy()
  end)

  it('are the same on topologies of any shape', function()
    local seed = require 'support.seed'
    local state = seed
    local function random(low, high)
      state = (state * 1103515245 + 12345) % 2147483648
      if not high then low, high = 1, low end
      return low + state // 65536 % (high - low + 1)
    end
    broker = Broker.start { rules = COUNTING, args = { '--fsync', 'no', '--rules-budget', '1s' } }
    local dir = broker:copy_rules('next', with_comments(COUNTING))
    c = broker:connect()
    c:document('RULES shadow ' .. dir .. ' share=100%')
    local published = 0
    for round = 1, 40 do
      c:close()
      c = broker:enter_vhost()
      local exchanges, queues = declare_topology(c, random)
      for _ = 1, 12 do
        local n = random(10)
        if n == 1 then
          publish(c, '-', 'q' .. random(queues))
        else
          publish(c, 'x' .. random(exchanges), n < 4 and 'copy' or 'plain')
        end
        published = published + 1
      end
      local status = c:document 'RULES shadow status'
      assert.equal(0, status.differing, ('TIDE_TEST_SEED=%d, round %d'):format(seed, round))
      assert.is_true(status.stopped or status.compared == published)
    end
  end)

  it('visit exchanges in the order that EXPLAIN shows', function()
    -- A script that reports the order in which a publish went through exchanges.
    broker = Broker.start {
      rules = { ['routing/trail.lua'] = [[
local M = { options = { name = { type = 'string', doc = 'of the exchange' } } }
function M.new(options) return { name = options.name } end
function M.bind(index, _, dest) table.insert(index, dest) end
function M.unbind() end
function M.route(index, msg, to)
  local way = (tide.shared.get 'way' or '') .. ' ' .. index.name
  tide.shared.set('way', way)
  if msg.key == 'tell' then error('way:' .. way, 0) end
  for _, dest in ipairs(index) do to(dest) end
end
return M
]] },
      args = { '--fsync', 'no' },
    }
    c = broker:connect()
    for _, name in ipairs { 'a', 'b', 'c', 'd', 'e' } do
      c:ok(('DECLARE exchange %s trail name=%s'):format(name, name))
    end
    c:ok 'DECLARE queue q'
    for _, words in ipairs { 'b a', 'c a', 'd b', 'd c', 'a d', 'e d', 'b e' } do
      c:ok(('BIND %s - dest=exchange'):format(words))
    end
    c:ok 'BIND q e -'
    local explained = {}
    for i, visited in ipairs(c:document('EXPLAIN a k').exchanges) do explained[i] = visited.exchange end
    publish(c, 'a', 'k')
    c:send 'PUB a tell 5\r\nhello\r\n'
    local way = c:expect '^ERR rule .*way:(.-)$'
    assert.equal(5, #explained)
    assert.equal(' ' .. table.concat(explained, ' ') .. ' a', (way:gsub(' %(.*$', '')))
  end)

  it('go through a chain of exchanges that is longer than the stack', function()
    local length = 10000
    broker = Broker.start { rules = {}, args = { '--fsync', 'no' }, stack_kib = 256 }
    c = broker:connect()
    local dir = broker:copy_rules('next', {})
    c:document('RULES shadow ' .. dir .. ' share=100%')
    local lines = { 'DECLARE queue q durable=0\r\n' }
    for i = 1, length do
      lines[#lines + 1] = ('DECLARE exchange x%d fanout durable=0 quiet\r\n'):format(i)
      if i > 1 then lines[#lines + 1] = ('BIND x%d x%d - dest=exchange quiet\r\n'):format(i, i - 1) end
    end
    lines[#lines + 1] = ('BIND q x%d -\r\n'):format(length)
    c:send(table.concat(lines))
    c:expect '^OK$'
    c:expect '^OK$'
    local status
    wait.poll(function()
      c:send 'PUB x1 k 5\r\nhello\r\n'
      c:expect '^OK %x+ 1$'
      status = c:document 'RULES shadow status'
      return status.compared > 0
    end)
    assert.equal(0, status.differing)
    assert.is_true(status.compared > 0)
  end)
end)
