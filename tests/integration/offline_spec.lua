--- `tidemq check` and `tidemq test`: rules before they go live.
local Broker = require 'support.broker'

local function run(words)
  local pipe = io.popen(("%s %s 2>&1; echo \"status $?\""):format(Broker.binary(), words))
  local output = pipe:read 'a'
  pipe:close()
  local text, status = output:match '^(.*)status (%d+)\n$'
  return text, tonumber(status)
end

describe('the offline verbs', function()
  local broker

  setup(function() broker = Broker.start { rules = {}, args = { '--store', 'none' } } end)
  teardown(function() broker:stop() end)
  before_each(function() os.execute(('rm -rf %s/r && cp -R rules %s/r'):format(broker.dir, broker.dir)) end)

  local function dir() return broker.dir .. '/r' end
  local function write(path, text)
    local file = assert(io.open(dir() .. '/' .. path, 'w'))
    assert(file:write(text))
    file:close()
  end

  it('find nothing wrong with the shipped rules', function()
    local text, status = run('check ' .. dir())
    assert.equal(0, status, text)
    assert.truthy(text:find('nothing is wrong', 1, true))
  end)

  it('check says file and line of a script that does not load', function()
    write('retry/broken.lua', 'return {\n  decide = \n}\n')
    local text, status = run('check ' .. dir())
    assert.equal(1, status)
    assert.truthy(text:find 'error: retry/broken.lua:3: ', text)
    assert.truthy(text:find('not fit to go live', 1, true))
  end)

  it('check holds a directory against what a broker has', function()
    local c = broker:connect()
    c:ok 'DECLARE exchange a topic'
    c:ok 'DECLARE exchange b fanout'
    c:ok 'BIND b a # dest=exchange'
    c:ok 'BIND a b - dest=exchange'
    c:ok 'DECLARE queue q retry=fixed dead-letter=-/dead'
    c:ok 'DECLARE queue r dead-letter=nowhere/x'
    c:ok 'DECLARE queue s dead-letter=-/s'
    os.remove(dir() .. '/retry/fixed.lua')
    os.remove(dir() .. '/routing/fanout.lua')
    write('filter/late.lua', 'return { match = { exchange = "gone" }, publish = function() end }')
    local text, status = run(('check --url tide://%s/ %s'):format(broker.address, dir()))
    assert.equal(1, status)
    for _, line in ipairs {
      "exchange 'b' is of type fanout, and there is no routing/fanout.lua",
      "queue 'q' has retry=fixed, and there is no retry/fixed.lua",
      "queue 'q' dead-letters to queue 'dead', which does not exist",
      "queue 'r' dead-letters to exchange 'nowhere', which does not exist",
      "queue 's' dead-letters to itself in the end",
      "exchange 'a' is bound to itself by way of other exchanges",
      "filter/late.lua matches exchange 'gone', which does not exist",
    } do
      assert.truthy(text:find(line, 1, true), line .. ' is not in\n' .. text)
    end
  end)

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
    assert.truthy(text:find('2 successes / 0 failures', 1, true), text)
    write('bad_spec.lua', 'it("fails", function() assert.equal(1, 2) end)')
    text, status = run('test ' .. dir())
    assert.equal(1, status, text)
  end)

  it('test runs the spec that the manual shows', function()
    local file = assert(io.open 'docs/rules.md')
    local block = file:read('a'):match '### Check and test.-```lua\n(.-)```'
    file:close()
    write('manual_spec.lua', assert(block))
    local text, status = run('test ' .. dir())
    assert.equal(0, status, text)
    assert.truthy(text:find('2 successes / 0 failures', 1, true), text)
  end)

  it('say what they take', function()
    for _, words in ipairs { 'check', 'test', 'check --nonsense x', 'test /nonexistent' } do
      local text, status = run(words)
      assert.equal(2, status, text)
      assert.equal(1, select(2, text:gsub('\n', '')), text)
    end
  end)
end)
