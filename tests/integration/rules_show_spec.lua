-- RULES show: a script as it was loaded, with its figures and where its last error was.
local Broker = require 'support.broker'

local AMOUNTS = [[
local M = {}
function M.of(msg)
  return tonumber(msg.headers.amount) + 1
end
return M
]]
local ORDERS = [[
local amounts = require 'amounts'
local M = { match = { exchange = '-' }, doc = 'orders' }
function M.publish(msg)
  local amount = amounts.of(msg)
  msg.headers.amount = amount
end
return M
]]

describe('RULES show', function()
  local broker, c

  setup(function()
    broker = Broker.start { rules = { ['amounts.lua'] = AMOUNTS, ['filter/20-orders.lua'] = ORDERS },
                            args = { '--store', 'none', '--log', 'debug' } }
    c = broker:connect()
    c:ok 'DECLARE queue q'
    c:send 'PUB - q 1\r\nx\r\n'
    c:expect('^ERR rule amounts.lua:3: attempt to perform arithmetic on a nil value ' ..
      '%(called from filter/20%-orders.lua:4%)')
  end)
  teardown(function()
    c:close()
    broker:destroy()
  end)

  it('has the last error with the stack of Lua', function()
    local script = c:document 'RULES show filter/20-orders'[1]
    assert.equal('20-orders', script.name)
    assert.equal(1, script.errors)
    assert.matches('^amounts.lua:3: ', script.last_error)
    assert.same({ "amounts.lua:3: in function 'of'", 'filter/20-orders.lua:4: in the function of line 3' },
      script.traceback)
    assert.is_nil(script.source)
    for _, other in ipairs(c:document 'RULES status'.scripts) do
      if other.file == script.file then assert.same(script, other) end
    end
    broker:expect_log "debug rules: amounts.lua:3: .* stack: amounts.lua:3: in function 'of';filter/20"
  end)

  it('has the source of the active generation, not of the directory', function()
    broker:write_rule('filter/20-orders.lua', 'return {')
    broker:expect_log 'filter/20%-orders.lua:1: '
    assert.equal(ORDERS, c:document 'RULES show 20-orders source'[1].source)
    local text = broker:cli('rules', 'show', '20-orders', '--source')
    assert.matches("\nlast_error +amounts.lua:3", text)
    assert.matches("\nstack of the last error\n  amounts.lua:3: in function 'of'\n  filter/20", text)
    assert.matches('\nsource\n    1  local amounts = require \'amounts\'\n', text)
  end)

  it('names the scripts that there are', function()
    c:send 'RULES show orders\r\n'
    c:expect "^ERR not%-found there is no script 'orders', and modules are not shown; there are .*filter/20%-orders, "
    c:send 'RULES show 20-orders text\r\n'
    c:expect "^ERR syntax RULES show has no flag 'text'; it takes: source$"
  end)
end)
