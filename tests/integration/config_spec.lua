--- `serve --config FILE.lua`.
local Broker = require 'support.broker'

local function with_config(text, args, may_fail)
  return Broker.start { config = text, args = args, may_fail = may_fail }
end

describe('a configuration file', function()
  it('gives options, which the command line overrides', function()
    local broker = assert(with_config([[
      local kib = 1024
      return { ["max-payload"] = 2 * kib, listen = { "127.0.0.1:1" }, store = "none", node = 7 }
    ]], { '--node', '9' }))
    local client = broker:connect()
    client:send 'HELLO\n'
    local hello = client:expect_json()
    assert.equal(2048, hello.limits.payload)
    assert.equal(9, hello.node)
    broker:expect_clean_stop()
  end)

  for _, case in ipairs {
    { 'return { colour = "red" }', "no option 'colour'" },
    { 'return { node = {} , store = {{}} }', 'expected a text' },
    { 'return { node = 5000 }', "--node must be 0-1023, not '5000'" },
    { 'return 5', 'must return a table' },
    { 'return {', 'line 1' or ':1:' },
    { 'os.execute("true") return {}', ":1: " },
    { 'while true do end', 'ran' },
  } do
    it(('is refused in one line: %s'):format(case[1]), function()
      local broker, log, status = with_config(case[1], {}, true)
      assert.is_nil(broker)
      assert.equal(2, status)
      local lines = select(2, log:gsub('[^\n]+', ''))
      assert.equal(1, lines, log)
      assert.truthy(log:find(case[2], 1, true) or log:find ':1:', log)
    end)
  end

  it('that is not there is said so', function()
    local broker, log, status = Broker.start { args = { '--config', '/nonexistent/x.lua' }, may_fail = true }
    assert.is_nil(broker)
    assert.equal(2, status)
    assert.truthy(log:find('/nonexistent/x.lua', 1, true), log)
  end)
end)
