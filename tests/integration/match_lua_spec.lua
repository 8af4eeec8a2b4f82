-- match=lua:<expression>: wherever a request takes match=.
local Broker = require 'support.broker'
local Http = require 'support.http'

local function encode(text)
  return (text:gsub('[%c%% ]', function(c) return ('%%%02x'):format(c:byte()) end))
end

local function match(text) return ' match=lua:' .. encode(text) end

for _, kind in ipairs {
  { name = 'on Redis', args = { '--fsync', 'no', '--window-messages', 16 } },
  { name = 'in memory', args = { '--store', 'none' } },
} do
  describe('match=lua: ' .. kind.name, function()
    local broker, c

    setup(function() broker = Broker.start { args = kind.args, http = '127.0.0.1:0' } end)
    teardown(function()
      broker:expect_clean_stop()
      broker:destroy()
    end)
    before_each(function() c = broker:enter_vhost() end)
    after_each(function() c:close() end)

    --- Messages 1..n, with their number as priority, header and JSON.
    local function fill(queue, n)
      for i = 1, n do c:publish(('%s pri=%d h:n=%d'):format(queue, i, i), ('{"n":%d,"s":"x y"}'):format(i)) end
    end

    local function found(words)
      local text = {}
      for _, m in ipairs(c:document('PEEK ' .. words).messages) do text[#text + 1] = m.priority end
      return table.concat(text, ' ')
    end

    it('sees the message that rules see', function()
      c:ok 'DECLARE queue q'
      fill('q', 5)
      for expression, expected in pairs {
        ['msg.priority > 3'] = '4 5', ['msg.headers.n == "2" or msg.json.n == 3'] = '2 3',
        ['msg.json.s == "x y" and msg.payload:find("1", 1, true)'] = '1', ['msg.key == "q"'] = '1 2 3 4 5',
        ['msg.ts > tide.now() - tide.duration "1h" and msg.size < 100 and msg.priority == 1'] = '1',
        ['msg.headers.none'] = '', ['msg.attempt == 2'] = '', ['msg.exchange == "-" and msg.priority == 2'] = '2',
        ['(function() local t = {} for k in pairs(msg.headers) do t[#t + 1] = k end return #t > 1 end)()'] = '',
      } do
        assert.equal(expected, found('q 100' .. match(expression)), expression)
      end
      c:send('GET q' .. match 'msg.priority == 1' .. '\r\nNACK 1\r\n')
      c:expect_line 'OK 1'
      c:expect_msg()
      c:expect_line 'OK 1'
      assert.equal('1', found('q 100' .. match 'msg.attempt == 2'))
    end)

    it('is for every request that takes a match', function()
      local even = match 'msg.priority % 2 == 0'
      c:ok 'DECLARE queue q'
      fill('q', 30)
      assert.equal('{"n":16,"s":"x y"}', c.payload_text(c:get('q ack=auto' .. match 'msg.priority == 16')))
      c:expect_answer('PURGE q dry' .. even, 'OK 14')
      c:expect_answer('RESCHEDULE q delay=1h' .. match 'msg.priority <= 4', 'OK 4')
      c:expect_answer('REMOVE q' .. even, 'OK 14')
      assert.equal('1 3', found('q 100 state=delayed' .. match 'msg.priority < 10'))
      for _ = 1, 3 do assert.equal(1, #c:get('q' .. match 'msg.priority > 20')) end
      c:expect_answer('NACK 1-3 bury', 'OK 3')
      c:expect_answer('KICK q 10' .. match 'msg.priority == 23', 'OK 1')
      c:expect_answer('PURGE q' .. match 'true', 'OK 15')
      c:ok 'DECLARE topic t partitions=1'
      fill('t', 6)
      assert.equal('4 6', (function()
        local shown = {}
        for _, m in ipairs(c:document('PEEK t 10' .. match 'msg.json.n > 3 and msg.json.n % 2 == 0').messages) do
          shown[#shown + 1] = m.payload:match '%d'
        end
        return table.concat(shown, ' ')
      end)())
    end)

    it('serves a GET that waits', function()
      c:ok 'DECLARE queue q'
      fill('q', 3)
      c:send('GET q wait=1h' .. match 'msg.json.wanted' .. '\r\nPUB - q 2\r\n{}\r\nPUB - q 15\r\n{"wanted":true}\r\n')
      c:expect_line 'OK 1'
      assert.equal('{"wanted":true}', c:expect_msg().payload)
    end)

    it('is redriven by', function()
      c:ok 'DECLARE queue dead'
      c:ok 'DECLARE queue w dead-letter=-/dead'
      fill('w', 3)
      c:send 'GET w max=3\r\nNACK 1-3 dead\r\n'
      c:expect_line 'OK 3'
      for _ = 1, 3 do c:expect_msg() end
      c:expect_line 'OK 3'
      c:expect_answer('REDRIVE dead' .. match 'msg.json.n ~= 2', 'OK 2 0')
      assert.equal('2', found 'dead 10')
    end)

    it('ends the request that it fails in, and says why', function()
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE topic t partitions=1'
      fill('q', 20)
      fill('t', 2)
      for expression, said in pairs {
        ['msg.priority > nil'] = 'rule match=lua: attempt to compare nil with number',
        ['msg.priorty'] = "rule match=lua: there is no 'msg.priorty'; it has attempt",
        ['error "no"'] = 'rule match=lua: no',
        ['(function() while true do end end)()'] = 'rule match=lua: ran longer than its budget of 10 ms',
        ['pcall(function() while true do end end)'] = 'rule match=lua: ran longer than its budget of 10 ms',
        ['("x"):rep(1e6):find((".-"):rep(50) .. "y")'] = 'rule match=lua: ',
        ['(function() local t = {} for i = 1, 30 do t[i] = ("x"):rep(1e6) .. i end end)()'] = '',
        ['msg.'] = 'syntax match=lua: ', [''] = 'syntax match=lua: has no expression',
        ['true; x = 1'] = 'syntax match=lua: ',
        ['(function() x = 1 end)()'] = 'rule match=lua: this table is read-only',
      } do
        for _, request in ipairs {
          'PEEK q', 'PEEK t', 'GET q', 'GET q wait=1h', 'PURGE q', 'REMOVE q', 'RESCHEDULE q pri=1', 'REDRIVE q',
        } do
          c:send(request .. match(expression) .. '\r\n')
          local line = c:read_line()
          if said == '' then assert.matches('^ERR %a+ match=lua: [rt]', line) end -- no time, or no room
          assert.equal('ERR ' .. said, line:sub(1, 4 + #said), request .. ' ' .. expression)
        end
      end
      assert.equal(20, c:stats('q').ready)
      assert.equal(20, #c:get('q max=100' .. match 'true'))
    end)

    it('ends a GET that waits when a message fails it', function()
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE queue r'
      for _, queues in ipairs { 'q', 'q r' } do
        c:send('GET ' .. queues .. ' wait=1h' .. match 'msg.json.n > 1' .. '\r\nPUB - q quiet 4\r\nnone\r\n')
        c:expect_line 'ERR rule match=lua: attempt to index a nil value (field \'json\')'
        c:ok 'PURGE q'
      end
    end)

    it('keeps what it has found before it fails', function()
      c:ok 'DECLARE queue q'
      fill('q', 2)
      c:publish('q', 'none')
      assert.equal(2, #c:get('q max=10' .. match 'msg.json.n < 3'))
    end)

    it('leaves nothing for the next expression', function()
      c:ok 'DECLARE queue q'
      fill('q', 2)
      for _, expression in ipairs {
        'rawset(_G, "x", 1)', 'rawset(string, "x", 1)', 'setmetatable(_G, {})', 'table.insert(string, 1)',
        '(function() string.x = 1 end)()', '(function() msg.x = 1 end)()', '(function() math.pi = 3 end)()',
        '(function() getmetatable("").__index.x = 1 end)()', '(function() msg.headers.n = "x" end)()',
      } do
        c:send('PEEK q' .. match(expression) .. '\r\n')
        c:expect '^ERR rule match=lua: '
      end
      -- Nor from one message for the next.
      assert.equal('', found('q 10' .. match '(function() local was = seen; _ENV = { seen = true }; return was end)()'))
      assert.equal('', found('q 10' .. match 'x or string.x or require or load or seen'))
      c:send('PEEK q' .. match 'tide.shared' .. '\r\n')
      c:expect '^ERR rule match=lua: there is no'
    end)

    it('is written as any other value over HTTP and on the command line', function()
      c:ok 'DECLARE queue q'
      fill('q', 3)
      local http = Http.connect(broker)
      local answer = http:expect(200, 'GET',
        ('/api/vhosts/%s/queues/q/messages?match=lua:msg.priority%%20%%3E%%202'):format(broker.vhost))
      assert.equal(3, answer.messages[1].priority)
      answer = http:expect(200, 'POST', ('/api/vhosts/%s/queues/q/get'):format(broker.vhost),
        { match = 'lua:msg.json.n == 2', ack = 'auto' })
      assert.equal(1, #answer.messages)
      http:expect_error(422, 'rule', 'GET',
        ('/api/vhosts/%s/queues/q/messages?match=lua:nil%%2B1'):format(broker.vhost))
      http:close()
      local out, status = broker:cli('get', 'q', '--match', 'lua:msg.priority == 3 and msg.json.s == "x y"')
      assert.equal(0, status, out)
      assert.matches('{"n":3', out, 1, true)
    end)
  end)
end

describe('match=lua:', function()
  local broker
  after_each(function() broker:destroy() end)

  it('goes on for others while an expression is slow', function()
    broker = Broker.start { args = { '--store', 'none' } }
    local c, other = broker:connect(), broker:connect()
    c:ok 'DECLARE queue q'
    for _ = 1, 20 do c:publish('q', table.unpack(setmetatable({}, { __index = function() return 'x' end }), 1, 100)) end
    -- A few ms for each of 2,000 messages.
    local slow = match '(function() for i = 1, 5e4 do end end)()'
    for _, request in ipairs { 'PURGE q' .. slow, 'PEEK q' .. slow, 'GET q' .. slow } do
      c:send(request .. '\r\n')
      for _ = 1, 5 do other:ok 'PING' end
    end
    c:expect_line 'OK 0'
    c:expect_data()
    c:expect_line 'OK 0'
  end)

  it('has room for many that wait at a time', function()
    broker = Broker.start { args = { '--store', 'none' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    c:publish('q', 'a')
    for channel = 1, 200 do
      c:send(('@%d OPEN\r\n@%d GET q wait=1h%s\r\n'):format(channel, channel,
        match(('msg.headers.to == "%d"'):format(channel))))
      c:expect_line(('@%d OK'):format(channel))
    end
    for channel = 1, 200 do
      c:send(('PUB - q quiet h:to=%d 1\r\nx\r\n'):format(channel))
      c:expect_line(('@%d OK 1'):format(channel))
      c:expect_msg(nil, channel)
    end
  end)
end)
