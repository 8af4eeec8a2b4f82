-- Scripts that fill a stack, of Lua or of C, from every place where one calls the other.
local Broker = require 'support.broker'

describe('a script that fills the stack', function()
  local broker, c

  setup(function()
    broker = Broker.start { rules = {}, args = { '--store', 'none', '--rules-budget', '20' } }
    c = broker:connect()
    c:ok 'DECLARE queue q'
  end)
  teardown(function() broker:destroy() end)

  local function load(text)
    broker:write_rule('filter/10-x.lua', text)
    c:document 'RULES reload'
  end

  local function publish(key)
    c:send(('PUB - q h:case=%s 1\r\nx\r\n'):format(key))
    return (assert(c:read_line()))
  end

  it('is ended as often as it is called', function()
    load [[
      local function f() return 1 + f() end
      return { match = {}, publish = function(msg) return f() end }]]
    for _ = 1, 15 do
      assert.matches('^ERR rule filter/10%-x.lua:1: ', publish 'f')
    end
  end)

  it('is ended when the file that was called is not the one that recurses', function()
    broker:write_rule('deep.lua', 'local M = {}\nfunction M.f() return 1 + M.f() end\nreturn M')
    load [[
      local deep = require 'deep'
      return { match = {}, publish = function(msg) return deep.f() end }]]
    for _ = 1, 5 do
      assert.matches('^ERR rule deep.lua:2: ', publish 'f')
    end
  end)
end)
