--- `tidemq test`, and what the offline verbs take. `tidemq check` is in check_spec.lua.
local Broker = require 'support.broker'
local shell = require 'support.shell'

local function run(words)
  return shell.run(('%s %s 2>&1'):format(Broker.binary(), words))
end

describe('the offline verbs', function()
  local broker

  setup(function() broker = Broker.start { rules = {}, args = { '--store', 'none' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() broker:copy_rules('r', {}) end)

  local function dir() return broker.dir .. '/r' end
  local function write(path, text) shell.write_file(dir() .. '/' .. path, text) end

  it('test runs the specs of a directory in the real engine', function()
    write('retry_spec.lua', [[
      local tidemq = require "tidemq"
      it("doubles", function()
        local engine = assert(tidemq.open())
        local retry = assert(engine:strategy("retry", "exponential", { base = "1s" }))
        assert.equal(2000, retry:decide({}, { failures = 2 }))
      end)
      it("has no network", function() assert.has_error(function() require "socket" end) end)
    ]])
    local text, status = run('test ' .. dir())
    assert.equal(0, status, text)
    assert.truthy(text:find('1 spec, 2 passed, 0 failed in ', 1, true), text)
    write('bad_spec.lua', 'it("fails", function() assert.equal(1, 2) end)')
    text, status = run('test ' .. dir())
    assert.equal(1, status, text)
  end)

  it('test runs the spec that the manual shows', function()
    local file = assert(io.open 'docs/rules.md')
    local block = file:read('a'):match '## Check and test.-```lua\n(.-)```'
    file:close()
    write('manual_spec.lua', assert(block))
    local text, status = run('test ' .. dir())
    assert.equal(0, status, text)
    assert.truthy(text:find('1 spec, 2 passed, 0 failed in ', 1, true), text)
  end)

  it('take ./rules without a directory', function()
    write('rules/x_spec.lua', 'it("passes", function() end)')
    local function run_in(place, words) -- in a directory that the test may enter
      -- A sanitized binary does not find its own.
      assert(os.execute(('ln -s "$(pwd)/lua" %s/lua'):format(place)))
      local text, status = shell.run(('binary=$(realpath %s); cd %s; $binary %s 2>&1'):format(
        Broker.binary(), place, words))
      assert(os.remove(place .. '/lua'))
      return text, status
    end
    assert.equal('./rules: nothing is wrong\n', (run_in(dir(), 'check')))
    assert.matches('^ok    ./rules/x_spec.lua  1 passed\n', (run_in(dir(), 'test')))
    assert.matches("^tidemq: there is no rules directory './rules': make it, or name another\n$",
      (run_in(dir() .. '/rules', 'test')))
    local text = run('test ' .. dir() .. '/rules/x_spec.lua')
    assert.matches("x_spec.lua' is not a directory; name the rules directory", text)
  end)

  it('say what they take', function()
    for _, words in ipairs {
      'check --nonsense x', 'test /nonexistent', 'check --url', 'check rules rules',
      'check --definitions /nonexistent rules', 'test --definitions x rules',
    } do
      local text, status = run(words)
      assert.equal(2, status, text)
      assert.equal(1, select(2, text:gsub('\n', '')), text)
    end
  end)
end)
