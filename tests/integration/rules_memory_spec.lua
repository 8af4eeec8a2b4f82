-- What scripts keep comes near --rules-memory.
local Broker = require 'support.broker'
local wait = require 'support.wait'

local refusal = "^ERR limit .*the scripts' memory is nearly full: %S+ for vhost '/' holds %d+ KiB, "
  .. 'its share is %d+ of 4096 KiB; raise %-%-rules%-memory'

describe('the memory of the rules', function()
  local broker, c

  before_each(function()
    broker = Broker.start { args = { '--store', 'none', '--rules-memory', '4M', '--rules-budget', '2s' }, rules = {} }
    c = broker:connect()
    c:ok 'DECLARE exchange x topic'
    for n = 1, 50 do c:ok('DECLARE queue q' .. n) end
  end)
  after_each(function() broker:destroy() end)

  local function bind(n)
    return c:request(('BIND q%d x w%d.x%d.*'):format(n % 50 + 1, n % 100, n // 100))
  end
  local function bind_until_refused(n)
    local line
    repeat
      line = bind(n)
      n = n + 1
    until line ~= 'OK'
    return n - 1, line
  end
  it('has a limit at which bindings are refused, and messages are not', function()
    local n, line = 0
    -- What is collected after a refusal may make room for a few more.
    for _ = 1, 20 do
      n, line = bind_until_refused(n)
      assert.is_truthy(line:find(refusal), line)
    end
    assert.is_true(n > 1000, n)
    n = 0
    repeat
      n = n + 1
      line = c:request('DECLARE queue late' .. n .. ' priority=fair')
    until line ~= 'OK'
    assert.is_truthy(line:find(refusal), line)
    for i = 1, 500 do c:ok(('PUB x w%d.x3.y%d'):format(i % 100, i), '1') end
    for _, script in ipairs(c:document('RULES status').scripts) do assert.equal(0, script.overruns, script.file) end
    assert.is_true(c:document('RULES status').memory_bytes < 4 * 1024 * 1024)
    assert.equal('reload', c:document('RULES reload').origin)
    c:ok('PUB x w7.x3.y', '1')
  end)

  it('has room again for what takes the place of what is gone', function()
    local n = bind_until_refused(0)
    for i = 0, n // 2 do c:ok(('UNBIND q%d x w%d.x%d.*'):format(i % 50 + 1, i % 100, i // 100)) end
    assert.is_truthy(wait.poll(function() return bind(0) == 'OK' end))
    for i = 1, n // 3 do assert.equal('OK', bind(i)) end
  end)

  it('that one filter keeps fails no other script, and the errors name it', function()
    broker:write_rule('filter/10-leak.lua', [[
      local kept = {}
      return { match = { exchange = "leak" }, publish = function(msg) kept[#kept + 1] = msg.payload .. #kept end }]])
    broker:write_rule('filter/20-works.lua', [[
      return { match = { exchange = "x" }, publish = function(msg)
        local t = {}
        for i = 1, 200 do t[i] = { tostring(i) .. "some text" } end
        msg.headers.n = #t
      end }]])
    assert.equal('reload', c:document('RULES reload').origin)
    c:ok 'DECLARE exchange leak fanout'
    c:ok 'BIND q1 x #'
    local line
    for _ = 1, 600 do
      line = c:request('PUB leak k', ('x'):rep(8192))
      c:ok('PUB x w1', '1')
      if line:find '^ERR' then break end
    end
    assert.matches("filter/10%-leak.lua:2: over the rules' memory ceiling of 4096 KiB %(%-%-rules%-memory%); "
      .. "filter/10%-leak.lua for vhost '/' holds %d+ KiB, and its share is %d+ KiB", line)
    broker:expect_log "of which filter/10%-leak.lua for vhost '/' holds %d+ KiB; reloading them"
    for _ = 1, 100 do c:ok('PUB x w1', '1') end
    for _, script in ipairs(c:document('RULES status').scripts) do
      assert.equal(script.file == 'filter/10-leak.lua', script.errors > 0, script.file)
      assert.is_true(script.memory_bytes > 0 or script.calls == 0)
    end
  end)

  it('that the bindings of one vhost fill leaves some to another', function()
    local n = bind_until_refused(0)
    local other = broker:connect()
    other:enter_vhost 'other'
    other:ok 'DECLARE exchange x topic'
    other:ok 'DECLARE queue q priority=fair'
    for i = 1, n // 5 do other:ok(('BIND q x w%d.%d.*'):format(i % 100, i)) end
    other:ok('PUB x w1.1.y', '1')
    c:ok('PUB x w7.x3.y', '1')
    local line = bind(n)
    assert.matches("routing/topic.lua for vhost '/' holds", line)
  end)

  it('is 256 MiB unless it is said otherwise', function()
    broker:destroy()
    broker = Broker.start { args = { '--store', 'none' } }
    c = broker:connect()
    assert.equal(256 * 1024 * 1024, c:document('RULES status').memory_max_bytes)
  end)
end)
