-- Rules that would hurt the broker which runs them, and what they get instead: an
-- error with file and line, in bounded time, from the real binary.
local Broker = require 'support.broker'

describe('the sandbox', function()
  local broker, c

  setup(function() broker = Broker.start { rules = {}, args = { '--store', 'none' } } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:connect() end)
  after_each(function() c:close() end)

  local function refuses(path, text, pattern)
    broker:write_rule(path, text)
    c:send 'RULES reload\r\n'
    c:expect('^ERR rule ' .. pattern)
    broker:remove_rule(path)
    c:document 'RULES reload'
  end

  -- A filter for one call; gives what a PUB gets.
  local function publish_through(body, head)
    broker:write_rule('filter/10-x.lua',
      (head or '') .. 'return { match = {}, publish = function(msg)\n' .. body .. '\nend }')
    c:document 'RULES reload'
    c:ok 'DECLARE queue q'
    c:send 'PUB - q h:a=b 1\r\nx\r\n'
    local answer = c:read_line()
    broker:remove_rule 'filter/10-x.lua'
    c:document 'RULES reload'
    return answer
  end

  it('stops what C calls from C', function()
    local answer = publish_through [[
      local o = {} for _ = 1, 1900 do o = setmetatable({}, { __index = o }) end
      table.move(o, 1, 262144, 1, setmetatable({}, { __newindex = rawequal }))]]
    assert.matches('^ERR rule filter/10%-x.lua:3: ran longer than its budget of 50 ms', answer)
  end)

  it('lets nothing catch the budget of a pattern', function()
    assert.matches('^ERR rule filter/10%-x.lua:2: string.find: the pattern needs more than its budget',
      (publish_through [[pcall(string.find, ("a"):rep(39), ("a?"):rep(40) .. ("a"):rep(40))]]))
  end)

  it('survives what it gives away', function()
    assert.matches('^ERR rule filter/10%-x.lua:2: bad argument', (publish_through 'pairs(msg.headers)(5)'))
    assert.matches('^ERR rule filter/10%-x.lua:3: a script\'s metatable cannot have __concat', (publish_through [[
      local m, o = {}
      m.__concat = function() return o end o = setmetatable({}, m) return o .. o .. o]]))
  end)

  it('keeps modules from being changed, at all depths', function()
    broker:write_rule('common.lua', [[
      local M = { list = { 1, { 2 } }, deep = { er = { n = 1 } }, keys = {} }
      M.keys[M.deep] = 'deep'
      M.Class = { __index = {}, __tostring = function() return 'an object' end }
      function M.Class.__index.name() return 'x' end
      function M.later() M.deep.er.late = { n = 2 } end
      M.headers = { of = 'common' }
      return M]])
    local head = 'local c = require "common" '
    local function check(body)
      assert.equal('ERR rejected fine (filter/10-x.lua)', (publish_through(body .. '\nreturn false, "fine"', head)))
    end
    for _, write in ipairs { 'c.x = 1', 'c.deep.x = 1', 'c.deep.er.n = 2', 'c.list[2][1] = 3', 'c.list[3] = 3',
      'table.insert(c.list, 3)', 'table.sort(c.list)', 'table.move({ 1 }, 1, 1, 1, c.list)',
      'for _, v in pairs(c) do if type(v) == "table" then v.x = 1 end end',
      'for _, v in ipairs(c.list) do v[1] = 1 end', 'local _, v = next(c.list, 1) v[1] = 1',
      'for k in pairs(c.keys) do k.x = 1 end', 'select(2, table.unpack(c.list))[1] = 1',
      'c.later() c.deep.er.late.n = 1', 'setmetatable(c.deep, {})', 'getmetatable(c.deep).__index = {}',
      'setmetatable({}, c.Class).name = nil c.Class.__index.name = nil',
      'getmetatable(setmetatable({}, c.Class)).x = 1', 'tide.log.x = 1', 'tide.shared.x = 1' } do
      assert.matches('^ERR rule filter/10%-x.lua:2: ', (publish_through(write, head)), write)
    end
    check [[assert(c.list[2][1] == 2 and #c.list == 2 and c.deep.er.n == 1 and c.deep == c.deep)
      assert(not rawequal(c.list, c.deep) and table.concat(c.list[2], ',') == '2' and next(c.list) == 1)
      c.later() assert(c.deep.er.late.n == 2)
      local n = 0 for k, v in pairs(c) do n = n + 1 assert(c[k] == v) end assert(n == 6, n)
      for k, v in pairs(c.keys) do assert(k.er.n == 1 and v == 'deep' and c.keys[k] == v) end
      local o = setmetatable({}, c.Class) assert(o.name() == 'x' and tostring(o) == 'an object')
      assert(getmetatable(o) == c.Class)
      msg:copy { headers = c.headers, exchange = '-', key = 'q' }]]
    broker:remove_rule 'common.lua'
  end)

  it('shows no address', function()
    assert.equal('ERR rejected table function msg msg.headers (filter/10-x.lua)', (publish_through [[
      return false, ("%s %s %s "):format({}, print, msg) .. tostring(msg.headers)]]))
    publish_through 'print({}, print, msg)'
    broker:expect_log 'rules: filter/10%-x.lua:2: table function msg\n'
    assert.is_nil(broker:log():find('0x', 1, true))
  end)

  it('says something where a filter does not say why', function()
    assert.equal('ERR rejected a filter refused the message (filter/10-x.lua)',
      (publish_through "return false, ''"))
    assert.equal('ERR rejected a filter refused the message (filter/10-x.lua)',
      (publish_through "return false, ' \\n'"))
  end)

  it('compiles no file for longer than a call may take', function()
    refuses('retry/slow.lua', 'local x\nlocal y = x' .. ('\nor x'):rep(50000), 'retry/slow.lua:%d+: ran longer')
    refuses('retry/slow.lua', 'do ' .. ('goto a\n'):rep(30000) .. '::a:: end', 'retry/slow.lua:4097: more than 4096')
    refuses('retry/slow.lua', (' '):rep(256 * 1024 + 1), 'retry/slow.lua:1: is larger than 262144 bytes')
  end)

  it('names no chain of indexes without end in an error', function()
    local chain = 'return a' .. ('.b'):rep(120000)
    local refusal = "x.lua:2: more than 200 '.' and '%[' in one expression"
    refuses('retry/x.lua', 'local a = {} a.b = a\n' .. chain, 'retry/' .. refusal)
    refuses('filter/x.lua', 'local a = {} a.b = a\nreturn { match = {}, publish = function() ' .. chain .. ' end }',
      'filter/' .. refusal)
    local dir = broker:copy_rules('chained', { ['retry/x.lua'] = 'local a = {} a.b = a\n' .. chain })
    local output, status = broker:cli('check', dir)
    assert.matches(refusal, output)
    assert.equal(1, status)
  end)

  it('keeps no long texts beside the scripts', function()
    local before = broker:memory()
    refuses('retry/big.lua', [[
      local options = {}
      local text = ('x'):rep(1 << 16)
      for i = 1, 16 do options['o' .. i] = { default = text .. i } end
      return { options = options, decide = function() return 1 end }]],
      "retry/big.lua:4: option 'o%d+': the value has more than 1024 bytes")
    broker:expect_memory_below(before + (64 << 20))
  end)

  it('counts no counter to infinity', function()
    publish_through [[tide.counter("n"):incr(3)]]
    assert.matches("^ERR rule filter/10%-x.lua:2: bad argument #1 to 'incr' %(a counter grows",
      (publish_through [[tide.counter("n"):incr(0 / 0)]]))
    assert.matches("^ERR rule filter/10%-x.lua:2: 'n' plus this is not a finite number",
      (publish_through [[tide.counter("n"):incr(math.huge)]]))
    assert.equal(3, c:document('RULES status').counters.n)
  end)

  it('takes no delay without an end', function()
    broker:write_rule('retry/long.lua', 'return { options = { d = { type = "number" } },\n'
      .. 'decide = function(_, _, opts) return opts.d or 1 / 0 end }')
    c:document 'RULES reload'
    local document = c:document 'RULES simulate retry long'
    assert.equal('error', document['end'])
    assert.equal('retry/long.lua:2: decide must return a finite delay of 0 or more milliseconds, tide.BURY, '
      .. 'tide.DEAD_LETTER, tide.dead_letter(exchange, key) or tide.DROP, not inf', document.attempts[1].error)
    assert.equal(3660 * 86400000, c:document('RULES simulate retry long d=1e300').attempts[1].delay_ms)
    local output = broker:cli('rules', 'simulate', 'retry', 'fixed', 'delay=3650d')
    assert.matches('3650d', output)
    assert.is_nil(output:find('19%d%d%-'), output)
  end)
end)
