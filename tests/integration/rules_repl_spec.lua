-- `tidemq rules repl`: lines of Lua in an engine of its own. RULES eval: one in a broker's.
local Broker = require 'support.broker'
local shell = require 'support.shell'

describe('tidemq rules repl', function()
  local dir

  before_each(function()
    dir = shell.make_dir 'tidemq-test'
    shell.write_file(dir .. '/filter/10-x.lua', [[
      return { match = {}, publish = function(msg)
        if msg.key == "bad" then return false, "bad key" end
        tide.shared.incr "n"
        msg.headers.amount = msg.headers.amount + 1
      end }]])
    shell.write_file(dir .. '/lib/double.lua', 'local two = require "lib.two"\nreturn function(n) return n * two end')
    shell.write_file(dir .. '/lib/two.lua', 'return 2')
  end)
  after_each(function() assert(os.execute(("rm -r '%s'"):format(dir))) end)

  -- What the lines print, without the lines of the log.
  local function play(lines)
    shell.write_file(dir .. '/input', lines)
    return shell.run(("%s rules repl --rules '%s' <'%s/input' 2>/dev/null"):format(Broker.binary(), dir, dir))
  end

  for lines, printed in pairs {
    ['tide.duration "5m"\n=1 + 1, nil, "a\\"b"'] = '300000\n2, nil, "a\\"b"\n',
    ['x = { 1, 2, y = { true } }\nx'] = '{ 1, 2, ["y"] = { true } }\n',
    ['local y = 5\ny'] = 'nil\n',
    ['function f(n)\nreturn n * 2\nend\nf(\n21)'] = '42\n',
    [':msg { key = "k", headers = { a = "1" } }\nmsg.headers.a, msg.key'] = '"1", "k"\n',
    [':msg { payload = \'{"a":[1,{"b":2}]}\' }\nmsg.json'] = '{ ["a"] = { 1, { ["b"] = 2 } } }\n',
    ['table.unpack({}, 1, 200000)'] = ('nil, '):rep(100) .. '...\n',
    [':filter { key = "bad" }'] = 'nil, "bad key (filter/10-x.lua)", "rejected"\n',
    [':strategy("retry", "fixed", { delay = "5s" }):decide({}, { failures = 1 })'] = '5000\n',
    [':set_now(1000)\n:advance "1s"\ntide.now()'] = '2000\n2000\n',
    ['require "lib.double"(4)'] = '8\n',
    [':next_run("x", 5)'] =
      'nil, "there is no schedule script \'x\'; there are: heartbeat nightly_report", "not-found"\n',
    ['os.time()'] = "error: prompt.lua:1: attempt to call a nil value (field 'time'); scripts have no 'os.time': "
      .. 'use tide.now() for the time, tide.time for dates\n  prompt.lua:1: in the file\n',
    ['while true do end\n1'] = 'error: prompt.lua:1: ran longer than its budget of 1000 ms\n'
      .. '  prompt.lua:1: in the file\n1\n',
    [':nonsense\n:quit\n1'] = "error: there is no ':nonsense'; see :help\n",
    ['f(\n\n1'] = 'error: the line is not complete\n1\n',
    ['tide.shared.set("n", 5)\n:filter { headers = { amount = "1" } }\ntide.shared.get "n"\n:reload'] =
      '{ copies = {}, delay = 0, due = 0, exchange = "-", expires = 0, headers = { amount = "2" }, '
      .. 'hops = 0, id = 1, key = "", passed = { "filter/10-x.lua" }, payload = "", priority = 0 }\n6\ntrue\n',
  } do
    it('plays ' .. lines:gsub('\n', ' | '), function()
      local output, status = play(lines .. '\n')
      assert.equal(0, status, output)
      assert.equal(printed, output)
    end)
  end

  it('shows where a script failed', function()
    local output = play ':filter { key = "k" }\n'
    assert.matches('^nil, "filter/10%-x.lua:4: attempt to perform arithmetic .-", "rule"\n', output)
    assert.matches('\n  filter/10%-x.lua:4: in ', output)
  end)

  it('says what keeps the directory from being loaded', function()
    shell.write_file(dir .. '/filter/20-y.lua', 'return 5')
    local command = "%s rules repl --rules '%s' 2>&1 </dev/null"
    local output, status = shell.run(command:format(Broker.binary(), dir))
    assert.equal(1, status)
    assert.matches('^tidemq: filter/20%-y.lua:1: a script must return a table', output)
  end)
end)

describe('RULES eval', function()
  local broker, c

  setup(function()
    broker = Broker.start { rules = {}, args = { '--store', 'none' } }
    c = broker:connect()
  end)
  teardown(function()
    c:close()
    broker:destroy()
  end)

  it('runs a line as a dry run, of which nothing remains', function()
    assert.same({ values = '6, true' },
      c:document "RULES eval code=tide.shared.incr('n',6),tide.is_dry_run()")
    assert.same({ values = 'nil' }, c:document "RULES eval code=(tide.shared.get('n'))")
    assert.same({ values = '' }, c:document 'RULES eval code=x%20=%205')
    assert.same({ values = 'nil, nil' }, c:document 'RULES eval code=x,%20require')
    assert.equal('"a.b"\n', (broker:cli('rules', 'eval', '("a b"):gsub("%s", ".")')):gsub(', 1\n', '\n'))
  end)

  it('refuses what is not Lua, and what takes too long', function()
    c:send 'RULES eval code=while%20true%20do%20end\r\n'
    c:expect '^ERR rule prompt.lua:1: ran longer than its budget of 50 ms'
    c:send 'RULES eval code=1%201\r\n'
    c:expect '^ERR rule prompt.lua:1: '
    c:send 'RULES eval\r\n'
    c:expect '^ERR syntax code= is missing: expected a line of Lua$'
  end)
end)
