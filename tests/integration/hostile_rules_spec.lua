-- Scripts of each kind that never end, keep all the memory, or fail: clients get answers, others go on.
local Broker = require 'support.broker'
local socket = require 'socket'
local wait = require 'support.wait'

local BODIES = {
  { name = 'never end', body = 'while true do pcall(function() while true do end end) end', opens = true },
  { name = 'raise what never ends', opens = true,
    body = 'error(setmetatable({}, { __tostring = function() while true do end end }))' },
  { name = 'keep all memory',
    body = 'kept = kept or {} while true do kept[#kept + 1] = ("x"):rep(10000) .. #kept end' },
  { name = 'return nonsense', body = 'return { {} }, function() end' },
}

local KINDS = {
  ['deliver/10-bad.lua'] = 'return { match = { queue = "d" }, deliver = function() %s end }',
  ['settled/10-bad.lua'] = 'return { match = { queue = "s" }, settled = function() %s end }',
  ['declare/10-bad.lua'] = 'return { match = { queue = "p.#" }, declare = function() %s end }',
  ['connect/10-bad.lua'] = 'return { match = { user = "bad" }, connect = function() %s end }',
  ['filter/10-bad.lua'] =
    'return { match = { key = "f" }, new = function() return {} end, publish = function() %s end }',
  ['retry/bad.lua'] = 'return { decide = function() %s end }',
  ['schedule/bad.lua'] = 'return { every = "500ms", run = function() %s end }',
}

for _, bad in ipairs(BODIES) do
  it('rules of every kind that ' .. bad.name .. ' leave the others alone', function()
    local rules, began = {}, socket.gettime()
    for path, text in pairs(KINDS) do rules[path] = text:format(bad.body) end
    local broker = Broker.start {
      rules = rules, args = { '--fsync', 'no', '--rules-budget', '20ms', '--rules-memory', '32M' },
    }
    local c = broker:connect()
    for _, queue in ipairs { 'd', 's', 'f', 'ok', 'r retry=bad' } do c:ok('DECLARE queue ' .. queue) end
    for i = 1, 12 do
      assert.matches('^ERR rule ', c:request('PUB - f', 'x'))
      c:ok('PUB - d', 'x')
      assert.same({}, c:get 'd')
      c:ok('PUB - s', 'x')
      assert.equal(1, #c:get 's ack=auto')
      assert.matches('^ERR rule ', c:request('DECLARE queue p.' .. i))
      c:ok('PUB - r', 'x')
      c:ok('NACK ' .. c:get('r')[1].tag)
      local other = broker:connect()
      assert.equal('ERR denied a script failed', other:request 'HELLO user=bad')
      other:close()
      c:ok('PUB - ok', 'x')
      assert.equal(1, #c:get 'ok ack=auto')
    end
    local function circuits()
      local all = {}
      for _, script in ipairs(c:document('RULES status').scripts) do
        if script.name:find 'bad' and script.calls >= 10 then all[script.file] = script.circuit end
      end
      return all
    end
    if bad.opens then
      -- Ten failures count that lie within five seconds; after five more it is tried again.
      local seen = circuits()
      local is_quick = socket.gettime() - began < 5
      for file, circuit in pairs(seen) do
        if is_quick then assert.not_equal('closed', circuit, file) end
      end
      assert(wait.poll(function()
        for _ = 1, 12 do c:request('PUB - f', 'x') end
        return circuits()['filter/10-bad.lua'] ~= 'closed'
      end))
    end
    -- Nothing is lost, and good rules take over.
    assert.same({ 0, 12 }, { c:stats('s').unacked, c:stats('d').delayed + c:stats('d').ready })
    assert.equal(12, c:stats('r').delayed + c:stats('r').ready)
    for path in pairs(KINDS) do
      if path ~= 'retry/bad.lua' then os.remove(broker.rules .. '/' .. path) end
    end
    c:document 'RULES reload'
    c:ok('PUB - f', 'x')
    c:ok 'DECLARE queue p.1'
    broker:expect_clean_stop()
    broker:destroy()
  end)
end
