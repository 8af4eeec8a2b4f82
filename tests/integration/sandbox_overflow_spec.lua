-- Scripts that fill a stack, of Lua or of C, run out of memory or of time: at every place
-- where one of Lua and C calls the other. After each the broker answers, and the next call
-- works.
local Broker = require 'support.broker'

-- Each calls `g` by way of C, with anything.
local boundaries = [[
  pcall = function(g) pcall(g) end,
  xpcall = function(g) xpcall(g, tostring) end,
  handler = function(g) xpcall(error, g, 'x') end,
  both = function(g) xpcall(g, g) end,
  tostring = function(g) return tostring(with('__tostring', g)) end,
  format = function(g) return ('%s'):format(with('__tostring', g)) end,
  print = function(g) print(with('__tostring', g)) end,
  error = function(g) error(with('__tostring', g)) end,
  error_name = function(g) error(setmetatable({}, { __name = ('n'):rep(70000) })) end,
  index = function(g) return with('__index', g).x end,
  newindex = function(g) with('__newindex', g).x = 1 end,
  call = function(g) return with('__call', g)() end,
  calls = function(g) local o = g for _ = 1, 300 do o = with('__call', o) end return o() end,
  eq = function(g) return with('__eq', g) == with('__eq', g) end,
  lt = function(g) return with('__lt', g) < 1 end,
  le = function(g) return 1 <= with('__le', g) end,
  len = function(g) return #with('__len', g) end,
  add = function(g) return 1 + with('__add', g) end,
  unm = function(g) return -with('__unm', g) end,
  bnot = function(g) return ~with('__bnot', g) end,
  iterator = function(g) for _ in g do break end end,
  pairs = function(g) for _ in pairs(with('__pairs', g)) do break end end,
  ipairs = function(g) for _ in ipairs(with('__index', g)) do break end end,
  gsub = function(g) return (('x'):gsub('x', g)) end,
  gsub_table = function(g) return (('x'):gsub('x', with('__index', g))) end,
  sort = function(g) table.sort({ 3, 1, 2 }, g) end,
  sort_lt = function(g) table.sort { with('__lt', g), with('__lt', g) } end,
  insert = function(g) table.insert(with('__len', g), 1, 1) end,
  remove = function(g) table.remove(with('__len', g), 1) end,
  concat = function(g) return table.concat(with('__index', g), ',', 1, 2) end,
  concat_box = function(g) return table.concat(setmetatable({ ('x'):rep(5000) }, { __index = g }), ',', 1, 2) end,
  unpack = function(g) return (table.unpack(with('__index', g), 1, 2)) end,
  move = function(g) table.move(with('__index', g), 1, 2, 1, {}) end,
  move_to = function(g) table.move({ 1, 2 }, 1, 2, 1, with('__newindex', g)) end,
  field = function(g) return msg[with('__tostring', g)] end,
  write = function(g) msg.key = with('__tostring', g) end,
  header = function(g) msg.headers[with('__tostring', g)] = 'x' end,
  copy = function(g) msg:copy(with('__index', g)) end,
  shared = function(g) tide.shared.set(with('__tostring', g), 1) end,
  bucket = function(g) tide.bucket('b', with('__index', g)) end,
  chain = function(g) local o = with('__index', g) for _ = 1, 1990 do o = with('__index', o) end return o.x end,
]]

-- What each boundary is made to call; `B` is the boundary.
local ends = [[
  recurse = function() local function f() return 1 + f() end return f end,
  again = function(B) local function f() B(f) end return f end,
  again_grown = function(B) local function f() B(f) return select('#', table.unpack({}, 1, 200)) end return f end,
  raise = function() return function() error(setmetatable({}, { __tostring = error })) end end,
  long_error = function() local s = ('x'):rep(1 << 20) return function() error(s .. s .. s .. s) end end,
  memory = function() return function() local t = {} for i = 1, 1e9 do t[i] = i end end end,
  caught_time = function() return function() while true do pcall(function() while true do end end) end end end,
]]

local script = [[
local function with(name, g) return setmetatable({}, { [name] = g }) end
local msg
local boundaries = {]] .. boundaries .. [[}
local ends = {]] .. ends .. [[}
return {
  match = {},
  publish = function(m)
    msg = m
    local case = m.headers.case
    if case == 'none/none' then return end
    local boundary, last = case:match '^(%S+)/(%S+)$'
    local B = boundaries[boundary]
    return B(ends[last](B))
  end,
}
]]

local function names(text)
  local list = {}
  for name in text:gmatch '\n?  ([%a_]+) = function' do list[#list + 1] = name end
  return list
end

describe('a script that fills the stack', function()
  local broker, c

  setup(function()
    broker = Broker.start {
      rules = { ['filter/10-x.lua'] = script },
      args = { '--store', 'none', '--rules-budget', '25', '--rules-memory', '33554432', '--max-vhosts', '1000' },
    }
    c = broker:connect()
    c:ok 'DECLARE queue q'
  end)
  teardown(function() broker:destroy() end)

  local function publish(on, case)
    on:send(('PUB - q h:case=%s 1\r\nx\r\n'):format(case))
    return (assert(on:read_line(60), case))
  end

  for _, boundary in ipairs(names(boundaries)) do
    it('ends what is called through ' .. boundary, function()
      for _, last in ipairs(names(ends)) do
        -- Of each vhost its own circuit.
        local hurt = broker:enter_vhost()
        hurt:ok 'DECLARE queue q'
        assert.matches('^%u+ %S+', publish(hurt, boundary .. '/' .. last))
        assert.matches('^OK', publish(hurt, 'none/none'))
        hurt:ok 'DELETE queue q'
        hurt:close()
        c:send 'PING\r\n'
        c:expect_line('OK', 60)
      end
    end)
  end

  it('is ended as often as it is called', function()
    c:send(('PUB - q h:case=call/recurse 1\r\nx\r\n'):rep(15))
    for _ = 1, 15 do
      assert.matches('^ERR rule filter/10%-x.lua:', (c:read_line(60)))
    end
  end)

  it('is ended when the file that was called is not the one that recurses', function()
    broker:write_rule('deep.lua', 'local M = {}\nfunction M.f() return 1 + M.f() end\nreturn M')
    broker:write_rule('filter/10-x.lua', [[
      local deep = require 'deep'
      return { match = {}, publish = function(msg) return deep.f() end }]])
    c:document 'RULES reload'
    for _ = 1, 5 do
      assert.matches('^ERR rule [%w/%-]+.lua', publish(c, 'any'))
    end
  end)
end)
