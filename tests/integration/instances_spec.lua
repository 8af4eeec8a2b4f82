-- tide.use and tide.setting in a running broker; what a match rules out costs no call.
local Broker = require 'support.broker'
local shell = require 'support.shell'

local LIMIT = [[
return {
  options = { rate = { required = true }, by = { default = "tenant" } },
  new = function(opts, name)
    return { name = name, limit = { rate = opts.rate, burst = 1 } }
  end,
  publish = function(msg, opts, state)
    local by = msg.headers[opts.by] or ""
    if not tide.bucket(state.name .. " " .. by, state.limit):take() then
      return false, "faster than " .. opts.rate
    end
  end,
}
]]

local broker

local function script(c, file)
  for _, s in ipairs(c:document('RULES status').scripts) do
    if s.file == file then return s end
  end
end

describe('a script that is used again', function()
  after_each(function() if broker then broker:destroy() end end)

  it('has its own settings, from the command line and the environment too', function()
    broker = Broker.start {
      rules = {
        ['filter/limit.lua'] = LIMIT,
        ['filter/10-eu.lua'] = 'return tide.use("limit", { match = { exchange = "-", key = "eu.#" },\n'
          .. '  options = { rate = tide.setting("eu.rate", "1000/s") } })',
        ['filter/20-us.lua'] = 'return tide.use("limit", { match = { exchange = "-", key = "us.#" },\n'
          .. '  options = { rate = tide.setting "US_RATE" } })',
      },
      env = { US_RATE = '1/h' },
      args = { '--rules-set', 'eu.rate=1/d', '--rules-set', 'US_RATE' },
    }
    local c = broker:connect()
    c:ok 'DECLARE queue eu.jobs'
    c:ok 'DECLARE queue us.jobs'
    c:send 'PUB - eu.jobs 2\r\nhi\r\n'
    c:expect '^OK'
    c:send 'PUB - eu.jobs 2\r\nhi\r\n'
    c:expect '^ERR rejected faster than 1/d %(filter/10%-eu.lua%)'
    for _ = 1, 2 do
      c:send 'PUB - us.jobs 2\r\nhi\r\n'
    end
    c:expect '^OK'
    c:expect '^ERR rejected faster than 1/h %(filter/20%-us.lua%)'
    assert.same({ ['eu.rate'] = '1/d', US_RATE = '1/h' }, c:document('RULES status').settings)
    local us = script(c, 'filter/20-us.lua')
    assert.same({ 'filter/limit.lua', { rate = '1/h' } }, { us.model, us.given })
    assert.same({ false, true }, { script(c, 'filter/limit.lua').active, us.active })
    local f = c:document('EXPLAIN - us.jobs').filters[1]
    assert.same({ 'filter/20-us.lua', 'filter/limit.lua', 9 }, { f.script, f.model, f.line })
  end)

  it('is loaded again when its model changes, and is refused when that breaks it', function()
    broker = Broker.start { rules = {
      ['filter/limit.lua'] = LIMIT,
      ['filter/10-eu.lua'] = 'return tide.use("limit", { match = {}, options = { rate = "1000/s" } })',
    } }
    local c = broker:connect()
    local before = script(c, 'filter/10-eu.lua').hash
    broker:write_rule('filter/limit.lua', LIMIT .. '-- changed\n')
    c:document 'RULES reload'
    assert.not_equal(before, script(c, 'filter/10-eu.lua').hash)
    broker:write_rule('filter/limit.lua', (LIMIT:gsub('rate = {', 'limit = {', 1)))
    c:send 'RULES reload\r\n'
    c:expect("^ERR rule filter/10%-eu.lua:1: filter/limit.lua has no option 'rate'; it has by limit")
    broker:remove_rule 'filter/limit.lua'
    c:send 'RULES reload\r\n'
    c:expect '^ERR rule filter/10%-eu.lua:1: tide.use: there is no filter/limit.lua'
  end)

  it('is not called for messages that its match rules out', function()
    local function counts(match)
      return ('return { match = %s, publish = function() end }'):format(match)
    end
    broker = Broker.start { rules = {
      ['filter/10-vhost.lua'] = counts '{ vhost = "other" }',
      ['filter/20-header.lua'] = counts '{ headers = { tier = { "gold", "silver" } } }',
      ['filter/30-size.lua'] = counts '{ min_size = 3 }',
      ['filter/40-except.lua'] = counts '{ except = { headers = { tier = true } } }',
      ['filter/50-user.lua'] = counts '{ user = "bob" }',
    } }
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:send 'PUB - jobs 2\r\nhi\r\n'
    c:expect '^OK'
    c:send 'PUB - jobs h:tier=gold 5\r\nhello\r\n'
    c:expect '^OK'
    local calls = {}
    for _, name in ipairs { '10-vhost', '20-header', '30-size', '40-except', '50-user' } do
      calls[#calls + 1] = script(c, 'filter/' .. name .. '.lua').calls
    end
    assert.same({ 0, 1, 1, 1, 0 }, calls)
  end)

  it('is checked and tested with the same settings', function()
    broker = Broker.start { rules = {
      ['filter/limit.lua'] = LIMIT,
      ['filter/10-eu.lua'] = 'return tide.use("limit", { match = {}, options = { rate = tide.setting "rate" } })',
      ['mine_spec.lua'] = [[
        local tidemq = require "tidemq"
        it("passes", function() assert(tidemq.open()):close() end)
        it("may have its own", function()
          local engine, message = tidemq.open { settings = {} }
          assert.is_nil(engine)
          assert.matches("needs the option 'rate'", message)
        end)]],
    }, args = { '--rules-set', 'rate=5/s', '--rules-gate', 'test' } }
    local c = broker:connect()
    c:document 'RULES reload'
    local check = ('%s check %%s %s'):format(shell.quote(Broker.binary()), shell.quote(broker.rules))
    local out, status = shell.run(check:format '')
    assert.equal(1, status)
    assert.matches("10%-eu.lua:1: filter/limit.lua needs the option 'rate'", out)
    out, status = shell.run(check:format '--rules-set rate=6/s')
    assert.same({ 0, broker.rules .. ': nothing is wrong\n' }, { status, out })
    out, status = shell.run(check:format '--rules-set no_such_variable' .. ' 2>&1')
    assert.equal(2, status)
    assert.matches('there is no environment variable of that name; write no_such_variable=VALUE', out)
  end)
end)
