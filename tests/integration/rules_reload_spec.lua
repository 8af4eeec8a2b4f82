-- Rules that change, break and fail while messages flow.
local Broker = require 'support.broker'
local wait = require 'support.wait'

-- A routing script that gives every message to the bindings of one pattern.
local function chosen(pattern, extra)
  return ([[
    local M = { doc = "the bindings of one pattern", pure = true }
    function M.new() return {} end
    function M.bind(index, pattern, dest) index[dest] = pattern end
    function M.unbind(index, pattern, dest) index[dest] = nil end
    function M.route(index, msg, to)
      %s
      for dest, pattern in pairs(index) do
        if pattern == "%s" then to(dest) end
      end
    end
    return M
  ]]):format(extra or '', pattern)
end

describe('the rules of a running broker', function()
  local broker, c

  before_each(function()
    broker = Broker.start {
      args = { '--store', 'none', '--rules-budget', '20ms' },
      rules = { ['routing/chosen.lua'] = chosen 'left' },
    }
    c = broker:connect()
  end)
  after_each(function()
    c:ok 'PING'
    broker:expect_clean_stop()
  end)

  local function refused(line, pattern)
    c:send(line .. '\r\n')
    return c:expect(pattern)
  end
  local function declare()
    c:ok 'DECLARE exchange x chosen'
    for _, queue in ipairs { 'left', 'right' } do
      c:ok('DECLARE queue ' .. queue)
      c:ok(('BIND %s x %s'):format(queue, queue))
    end
  end
  local function count(queue)
    return c:document(('STATS %s'):format(queue)).ready
  end
  local function script(name)
    for _, s in ipairs(c:document('RULES status').scripts) do
      if s.file == name then return s end
    end
  end

  it('decide the next message as soon as their file has changed', function()
    declare()
    local before = c:document('RULES status').generation
    c:ok('PUB x k', '1')
    assert.same({ 1, 0 }, { count 'left', count 'right' })
    broker:write_rule('routing/chosen.lua', chosen 'right')
    assert.is_truthy(wait.poll(function() return c:document('RULES status').generation > before end))
    c:ok('PUB x k', '2')
    assert.same({ 1, 1 }, { count 'left', count 'right' })
    broker:expect_log 'rules: generation %d+ is active'
  end)

  it('are read again by RULES reload at once', function()
    declare()
    c:ok('PUB x k', '1')
    broker:write_rule('routing/chosen.lua', chosen 'right')
    local before = c:document 'RULES status'
    local after = c:document 'RULES reload'
    assert.is_true(after.generation > before.generation or before.generation > 1)
    c:ok('PUB x k', '2')
    assert.same({ 1, 1 }, { count 'left', count 'right' })
    assert.is_nil(after.refusal and after.refusal.error)
    refused('RULES restart', '^ERR syntax RULES takes reload, status')
  end)

  it('that are broken are refused with file and line, and the old ones go on', function()
    declare()
    broker:write_rule('routing/chosen.lua', 'return {\n  pure = true,\n  route = function( }\n}\n')
    refused('RULES reload', '^ERR rule routing/chosen%.lua:3: .+$')
    c:ok('PUB x k', '1')
    assert.same({ 1, 0 }, { count 'left', count 'right' })
    local s = c:document 'RULES status'
    assert.is_true(s.refused >= 1)
    assert.is_truthy(s.refusal.error:find('routing/chosen.lua:3:', 1, true))
    broker:write_rule('routing/chosen.lua', chosen 'right')
    c:document 'RULES reload'
    c:ok('PUB x k', '2')
    assert.same({ 1, 1 }, { count 'left', count 'right' })
    assert.equal(require('dkjson').null, c:document('RULES status').refusal or require('dkjson').null)
  end)

  it('warn of files that nothing loads, once', function()
    -- Those that it sees at once are in one warning, whatever the machine does in between.
    broker:signal 'STOP'
    for _, path in ipairs { 'filters/x.lua', 'retries/y.lua', 'Priority/z.lua', 'filter/eu/w.lua', 'lib/v.lua' } do
      broker:write_rule(path, 'return {}')
    end
    broker:signal 'CONT'
    c:document 'RULES reload'
    broker:expect_log 'warn  rules: .*filters/x%.lua is not loaded: filter scripts belong in filter/, not in filters/'
    for _, path in ipairs { 'retries/y', 'Priority/z', 'filter/eu/w' } do
      broker:expect_log('warn  rules: .*' .. path .. '%.lua is not loaded')
    end
    c:document 'RULES reload'
    assert.equal(1, select(2, broker:log():gsub('filters/x%.lua is not', '')))
    assert.is_nil(broker:log():find 'lib/v')
  end)

  it('that lack a function or fail while they load are refused', function()
    for path, case in pairs {
      ['routing/a.lua'] = { 'return { bind = function() end }', 'route' },
      ['retry/b.lua'] = { 'return {}', 'decide' },
      ['priority/c.lua'] = { 'return 7', 'table' },
      ['sharding/d.lua'] = { 'error "no thanks"', 'no thanks' },
      ['routing/e.lua'] = { 'while true do end', '' },
      ['routing/f.lua'] = { 'return io.open("x")', '' },
      ['routing/g.lua'] = { '\27Lua', '' },
    } do
      broker:write_rule(path, case[1])
      local text = refused('RULES reload', '^ERR rule (.+)$')
      assert.is_truthy(text:find(path, 1, true), text)
      assert.is_truthy(text:find(case[2], 1, true), text)
      broker:remove_rule(path)
    end
    c:document 'RULES reload'
  end)

  it('may gain an exchange type by a file', function()
    refused('DECLARE exchange y mirror', "^ERR not%-found there is no routing script 'mirror'; there are: .*$")
    broker:write_rule('routing/mirror.lua', chosen 'left')
    assert.is_truthy(wait.poll(function()
      return c:request 'DECLARE exchange y mirror' == 'OK'
    end))
    c:ok 'DECLARE queue left'
    c:ok 'BIND left y left'
    c:ok('PUB y k', '1')
    assert.equal(1, count 'left')
  end)

  it('may not lose what is in use, and the user is named', function()
    declare()
    broker:write_rule('retry/mine.lua', 'return { decide = function() return 1 end }\n')
    c:document 'RULES reload'
    c:ok 'DECLARE queue q retry=mine'
    broker:remove_rule 'routing/chosen.lua'
    assert.is_truthy(refused('RULES reload', '^ERR rule (.+)$'):find("exchange 'x'", 1, true))
    c:ok('PUB x k', '1')
    assert.equal(1, count 'left')
    broker:write_rule('routing/chosen.lua', chosen 'right')
    broker:remove_rule 'retry/mine.lua'
    assert.is_truthy(refused('RULES reload', '^ERR rule (.+)$'):find("queue 'q'", 1, true))
    c:ok 'DELETE queue q'
    c:document 'RULES reload'
    c:ok('PUB x k', '2')
    assert.same({ 1, 1 }, { count 'left', count 'right' })
    refused('DECLARE queue q retry=mine', "^ERR not%-found .*there is no retry script 'mine'")
  end)

  it('that loop without end are stopped, and the broker goes on', function()
    declare()
    broker:write_rule('routing/chosen.lua', chosen('left', 'if msg.key == "loop" then while true do end end'))
    c:document 'RULES reload'
    c:send 'PUB x loop 1\r\nx\r\n'
    c:expect '^ERR rule routing/chosen%.lua:%d+: .+$'
    c:ok('PUB x k', '1')
    assert.same({ 1, 0 }, { count 'left', count 'right' })
    local s = script 'routing/chosen.lua'
    assert.equal(1, s.overruns)
    assert.equal(1, s.errors)
    assert.is_truthy(c:document('EXPLAIN x loop').error:find '^routing/chosen%.lua:%d+: ')
  end)

  it('that raise errors refuse the publish, and nothing is stored', function()
    declare()
    broker:write_rule('routing/chosen.lua',
      chosen('left', 'if msg.key == "bad" then error("not this one\\nnor that") end'))
    c:document 'RULES reload'
    c:send 'PUB x bad 1\r\nx\r\nPUB x bad quiet 1\r\nx\r\nPING\r\n'
    c:expect '^ERR rule routing/chosen%.lua:%d+: not this one nor that$'
    c:expect '^ERR rule routing/chosen%.lua:%d+: not this one nor that$'
    c:expect_line 'OK'
    assert.same({ 0, 0 }, { count 'left', count 'right' })
  end)

  it('that refuse a pattern refuse the binding', function()
    broker:write_rule('routing/strict.lua', [[
      local M = {}
      function M.new() return {} end
      function M.bind(_, pattern) if pattern ~= "good" then error("only good patterns", 0) end end
      function M.unbind() end
      function M.route() end
      return M
    ]])
    c:document 'RULES reload'
    c:ok 'DECLARE exchange y strict'
    c:ok 'DECLARE queue q'
    refused('BIND q y bad', '^ERR rule .*only good patterns')
    c:ok 'BIND q y good'
    assert.equal(1, #c:document 'LIST bindings')
  end)

  it('of retry and priority that fail keep the message', function()
    broker:write_rule('retry/bad.lua', 'return { decide = function() error("no idea") end }')
    broker:write_rule('priority/bad.lua', 'return { rank = function() return "high" end }')
    broker:write_rule('sharding/bad.lua', 'return { pick = function() return {} end }')
    c:document 'RULES reload'
    c:ok 'DECLARE queue q retry=bad priority=bad'
    c:ok('PUB - q', '1')
    c:ok('PUB - q', '2')
    assert.equal('1', c:get('q')[1].payload)
    c:ok 'NACK 1'
    local m = c:peek('q state=delayed')[1]
    assert.equal('1', m.payload)
    assert.is_true(m.due - m.ts >= 5000)
    broker:expect_log "queue 'q': retry/bad%.lua:1: no idea; keeping the message, next attempt in 5 s"
    assert.equal(1, script('retry/bad.lua').errors)
    assert.is_true(script('priority/bad.lua').errors >= 2)
    c:ok 'DECLARE queue s sharding=bad shards=3'
    c:send 'PUB - s 1\r\nx\r\n'
    c:expect '^ERR rule sharding/bad%.lua.*$'
    assert.is_truthy(c:document('EXPLAIN - s').error:find '^sharding/bad%.lua')
  end)

  it('of retry may bury, drop and dead-letter', function()
    broker:write_rule('retry/choose.lua', [[
      local answers = { bury = tide.BURY, drop = tide.DROP, dead = tide.DEAD_LETTER, later = 3600000 }
      return { decide = function(msg) return answers[msg.payload] end }
    ]])
    c:document 'RULES reload'
    c:ok 'DECLARE queue dead'
    c:ok 'DECLARE queue q retry=choose dead-letter=-/dead'
    for _, payload in ipairs { 'bury', 'drop', 'dead', 'later' } do c:ok('PUB - q', payload) end
    assert.equal(4, #c:get 'q max=4')
    c:ok 'NACK 1-4'
    local m = c:get('dead wait=10s')[1]
    assert.equal('dead', m.payload)
    assert.equal('retry/choose.lua', m.headers['x-death-rule'])
    local s = c:document 'STATS q'
    assert.same({ 0, 1, 1, 0 }, { s.ready, s.delayed, s.buried, s.unacked })
  end)

  it('change while messages flow, and none is lost', function()
    declare()
    local flow = broker:connect()
    local n = 0
    for i = 1, 20 do
      broker:write_rule('routing/chosen.lua', chosen(i % 2 == 0 and 'left' or 'right'))
      flow:send(('PUB x k quiet 1\r\nx\r\n'):rep(200))
      n = n + 200
      c:document 'RULES reload'
    end
    flow:expect_nothing()
    assert.equal(n, count 'left' + count 'right')
  end)
end)
