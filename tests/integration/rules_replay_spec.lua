-- RULES replay tells of what the rules change, and of nothing else.
local Broker = require 'support.broker'
local json = require 'dkjson'

--- A filter for exchange x, with the body of `publish`.
local function filter(body)
  return 'return { match = { exchange = "x" }, publish = function(msg)\n' .. body .. '\nend }\n'
end

local broker, c

local function start(files, args)
  broker = Broker.start { rules = files, args = { '--store', 'none', table.unpack(args or {}) } }
  c = broker:connect()
  c:ok 'DECLARE exchange x fanout'
  c:ok 'DECLARE queue q'
  c:ok 'BIND q x -'
end

local function publish(payload, options)
  c:send(('PUB x k%s %d\r\n%s\r\n'):format(options and ' ' .. options or '', #payload, payload))
  return c:expect '^(.+)$'
end

local function replay(dir) return c:document('RULES replay ' .. (dir or broker.rules)) end

describe('a replay of the active rules', function()
  after_each(function() broker:destroy() end)

  --- The filter refuses some, and then nothing changes.
  local function assert_same(body, args, send)
    start({ ['filter/5.lua'] = filter(body) }, args)
    local refused = 0
    for i = 1, 60 do
      local reply = send and send(i) or publish(('x'):rep(i), 'h:n=' .. i)
      if reply:find '^ERR' then refused = refused + 1 end
    end
    assert.is_true(refused > 0)
    local result = replay()
    assert.equal(60, result.publishes)
    assert.equal(0, result.changed, json.encode(result.changes))
    assert.is_true(result.in_force)
    assert.equal(0, result.needs_payload)
    return result
  end

  it('changes nothing for a filter that goes by the time', function()
    assert_same [[
      local bucket = tide.bucket("b", { rate = 1, burst = 5 })
      if tide.now() - msg.ts > 1000 or not bucket:take() then return false, "rate" end]]
  end)

  it('changes nothing for a filter that goes by the size', function()
    assert_same 'if msg.size < 10 then return false, "too small" end'
  end)

  it('changes nothing for a filter that goes by chance', function()
    assert_same 'if tide.random() < 0.5 then return false, "chance" end'
  end)

  it('changes nothing for a filter that fails', function()
    assert_same 'if tonumber(msg.headers.n) % 3 == 0 then error "thirds" end'
  end)

  it('tells of what an open circuit refused, which no rule did', function()
    local result = assert_same('if tonumber(msg.headers.n) < 25 then local t = {} for i = 1, 1e6 do t[i] = i end end',
      { '--rules-memory', '4M' })
    assert.equal(60 - 10, result.not_called)
  end)

  it('changes nothing for a filter that reads payloads that are kept', function()
    assert_same('if #msg.payload > 30 then return false, "long" end', { '--replay-payloads' })
  end)
end)

describe('a replay', function()
  after_each(function() broker:destroy() end)

  it('calls a script that fails again and again each time, and logs nothing of it', function()
    start({}, { '--rules-memory', '4M', '--rules-budget', '2s' })
    for i = 1, 20 do publish('x', 'h:n=' .. i) end
    local dir = broker:copy_rules('next', { ['filter/1.lua'] = filter [[
      print('number ' .. msg.headers.n)
      if tonumber(msg.headers.n) <= 12 then local t = {} for i = 1, 1e6 do t[i] = i end end]] })
    local result = replay(dir)
    assert.equal(12, result.changed)
    assert.is_false(result.in_force)
    for _, change in ipairs(result.changes) do
      assert.matches("^filter/1.lua:3: over the rules' memory ceiling of 4096 KiB", change.after.error)
    end
    -- What its scripts log says where they are.
    broker:expect_log("rules of '.*/next' %(replay%): filter/1%.lua:2: number 1\n")
    assert.is_nil(broker:log():find 'too often')
    assert.is_nil(broker:log():find 'rules: filter/1')
  end)

  it('shows why a publish was refused', function()
    start { ['filter/s.lua'] = filter 'return false, "x of " .. msg.key' }
    assert.equal('ERR rejected x of k (filter/s.lua)', publish 'a')
    local result = replay(broker:copy_rules('next', { ['filter/s.lua'] = filter '' }))
    assert.equal('x of k (filter/s.lua)', result.changes[1].before.error)
    assert.equal('rejected', result.changes[1].before.code)
    assert.equal('x of k (filter/s.lua)', c:document('RULES recent')[1].decision.error)
  end)

  it('has the size of payloads that are not kept, and says when it needs them', function()
    start {}
    publish 'hello'
    publish ''
    local result = replay(broker:copy_rules('size', { ['filter/s.lua'] = filter 'return false, msg.size .. " bytes"' }))
    assert.equal('5 bytes (filter/s.lua)', result.changes[1].after.error)
    assert.equal('0 bytes (filter/s.lua)', result.changes[2].after.error)
    for name, body in pairs {
      plain = 'if #msg.payload < 9 then return false, "short" end',
      caught = 'if not pcall(function() return msg.payload end) then return false, "short" end',
      copied = 'msg:copy { exchange = "-", key = "q", payload = msg.payload .. "!" }',
    } do
      result = replay(broker:copy_rules(name, { ['filter/s.lua'] = filter(body) }))
      assert.equal(1, result.needs_payload, name)
      -- The second has none: there is nothing to miss.
      assert.equal(name == 'caught' and 0 or 1, result.changed, name)
    end
    local output = broker:cli('rules', 'replay', broker.dir .. '/plain')
    assert.is_truthy(output:find 'needs_payload +1', output)
  end)

  it('is given up when the scripts hold up the broker', function()
    start({}, { '--rules-budget', '50ms' })
    for _ = 1, 50 do publish 'x' end
    local result = replay(broker:copy_rules('slow', { ['filter/s.lua'] = filter 'while true do end' }))
    assert.is_true(result.stopped)
    assert.equal(10, result.publishes)
  end)
end)

describe('the shadow', function()
  after_each(function() broker:destroy() end)

  it('names its directory in the log', function()
    start({}, { '--rules-memory', '4M' })
    local dir = broker:copy_rules('next', { ['filter/1.lua'] = filter [[
      tide.log.warn("seen") local t = {} for i = 1, 1e6 do t[i] = i end]] })
    c:document('RULES shadow ' .. dir .. ' share=100%')
    for _ = 1, 30 do publish 'x' end
    broker:expect_log "rules of '.*/next' %(shadow%): filter/1%.lua:2: seen"
    broker:expect_log "rules of '.*/next' %(shadow%): filter/1%.lua uses up its time or memory too often"
    assert.is_nil(broker:log():find 'rules: filter/1')
  end)
end)
