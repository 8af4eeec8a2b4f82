-- Channels: conversations of their own inside a connection.
local Broker = require 'support.broker'
local wait = require 'support.wait'

describe('a channel', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no', '--max-channels', '8' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:connect()
    c:ok 'DECLARE queue q'
  end)
  after_each(function()
    c:close()
    c = broker:connect()
    c:ok 'DELETE queue q'
    c:close()
  end)

  local function says(text, ...)
    c:send(text)
    for _, line in ipairs { ... } do c:expect_line(line) end
  end

  it('is opened and closed', function()
    says('@7 PING\r\n', '@7 ERR not-found channel 7 is not open: send @7 OPEN first')
    says('@7 OPEN\r\n', '@7 OK')
    says('@7 OPEN\r\n', '@7 ERR exists channel 7 is open already')
    says('@7 PING\r\n', '@7 OK')
    says('@7 CLOSE\r\n', '@7 OK')
    says('@7 CLOSE\r\n', '@7 ERR not-found channel 7 is not open')
    says('@7 PING\r\n', '@7 ERR not-found channel 7 is not open: send @7 OPEN first')
    says('@7 OPEN\r\n@7 CLOSE\r\n@7 OPEN\r\n@7 PING\r\n', '@7 OK', '@7 OK', '@7 OK', '@7 OK')
  end)

  it('0 is always open', function()
    says('@0 PING\r\n', 'OK')
    says('OPEN\r\n', 'ERR exists channel 0 is open already')
    says('@0 CLOSE\r\n', 'ERR denied channel 0 ends with the connection; send QUIT')
  end)

  it('has a number from 0 to 65535', function()
    says('@65535 OPEN\r\n', '@65535 OK')
    for _, word in ipairs { '@65536', '@', '@-1', '@1x', '@99999999999999999999' } do
      says(word .. ' PING\r\n', ("ERR syntax '%s' is not a channel: expected @0 to @65535 and a space"):format(word))
    end
    says('@5\r\n', '@5 ERR syntax a verb is missing after the channel')
    says('@65535 FROB\r\n', "@65535 ERR unknown-verb there is no verb 'FROB'")
    c:expect_nothing()
  end)

  it('is one of a limited number', function()
    for i = 1, 8 do says(('@%d OPEN\r\n'):format(i), ('@%d OK'):format(i)) end
    says('@9 OPEN\r\n', '@9 ERR limit the limit of 8 channels per connection is reached')
    says('@3 CLOSE\r\n', '@3 OK')
    says('@9 OPEN\r\n', '@9 OK')
  end)

  it('has tags and subscriptions of its own', function()
    says('@1 OPEN\r\n@2 OPEN\r\n', '@1 OK', '@2 OK')
    for i = 1, 2 do
      c:ok('PUB - q', tostring(i))
      says(('@%d GET q\r\n'):format(i), ('@%d OK 1'):format(i))
      assert.equal('1', c:expect_msg(nil, i).tag)
    end
    says('ACK 1\r\n', 'ERR not-found tag 1 was never given out on this channel')
    says('@2 ACK 1\r\n', '@2 OK 1')
    says('@1 ACK 1\r\n', '@1 OK 1')
    says('@1 SUB q s\r\n@2 SUB q s\r\n@2 UNSUB s\r\n', '@1 OK', '@2 OK', '@2 OK')
    says('@2 UNSUB s\r\n', "@2 ERR not-found this channel has no subscription 's'")
    c:send 'PUB - q quiet 1\r\nx\r\n'
    assert.equal('x', c:expect_msg(nil, 1).payload)
  end)

  it('prefixes all that it says', function()
    says('@3 OPEN\r\n', '@3 OK')
    c:send '@3 PUB - q 2\r\nhi\r\n'
    c:expect '^@3 OK %x+ 1$'
    c:send '@3 PEEK q\r\n'
    local text = c:expect_data()
    assert.is_truthy(text:find('"payload":"hi"', 1, true))
    says('@3 PUB nowhere k 2\r\nhi\r\n', "@3 ERR not-found there is no exchange 'nowhere' in vhost '/'")
  end)

  it('answers in its order, and waits for no other', function()
    says('@1 OPEN\r\n@2 OPEN\r\n', '@1 OK', '@2 OK')
    -- @1 waits for a message; @2 goes on; each keeps its order.
    c:send '@1 GET q wait=1h\r\n@1 PING\r\n@1 FROB\r\n@1 OPEN\r\n@2 PING\r\n@2 PUB - nobody 1\r\nx\r\nPING\r\n'
    c:expect_line '@2 OK'
    c:expect '^@2 OK %x+ 0$'
    c:expect_line 'OK'
    c:send 'PUB - q quiet 1\r\nx\r\n'
    c:expect_line '@1 OK 1'
    c:expect_msg(nil, 1)
    c:expect_line '@1 OK'
    c:expect_line "@1 ERR unknown-verb there is no verb 'FROB'"
    c:expect_line '@1 ERR exists channel 1 is open already'
  end)

  it('answers an error after what it was asked before', function()
    local parts, n = {}, 200
    for _ = 1, n do parts[#parts + 1] = 'PUB - q 1\r\nx\r\nFROB\r\nPUB nowhere k 1\r\nx\r\nOPEN\r\n' end
    c:send(table.concat(parts))
    for _ = 1, n do
      c:expect '^OK %x+ 1$'
      c:expect_line "ERR unknown-verb there is no verb 'FROB'"
      c:expect_line "ERR not-found there is no exchange 'nowhere' in vhost '/'"
      c:expect_line 'ERR exists channel 0 is open already'
    end
  end)

  it('owes its answers even when it is closed', function()
    says('@1 OPEN\r\n', '@1 OK')
    for _ = 1, 50 do
      c:send '@1 PUB - q 1\r\nx\r\n@1 CLOSE\r\n@1 PING\r\n@1 OPEN\r\n@1 PING\r\n'
      c:expect '^@1 OK %x+ 1$'
      c:expect_line '@1 OK'
      c:expect_line '@1 ERR not-found channel 1 is not open: send @1 OPEN first'
      c:expect_line '@1 OK'
      c:expect_line '@1 OK'
    end
  end)

  it('that is closed answers a GET that waits with nothing', function()
    says('@1 OPEN\r\n', '@1 OK')
    c:send '@1 GET q wait=1h\r\n@1 CLOSE\r\n'
    c:expect_line '@1 OK 0'
    c:expect_line '@1 OK'
    c:ok('PUB - q', 'x')
    says('GET q\r\n', 'OK 1')
    assert.equal(1, c:expect_msg().attempt)
  end)

  it('that is closed returns what it holds, and its tags begin anew', function()
    c:ok('PUB - q', 'a')
    c:ok('PUB - q', 'b')
    says('@1 OPEN\r\n@1 SUB q s\r\n', '@1 OK', '@1 OK')
    c:expect_msg(nil, 1)
    c:expect_msg(nil, 1)
    says('@1 CLOSE\r\n@1 OPEN\r\n', '@1 OK', '@1 OK')
    says('@1 ACK 1\r\n', '@1 ERR not-found tag 1 was never given out on this channel')
    says('@1 GET q max=2\r\n', '@1 OK 2')
    local m = c:expect_msg(nil, 1)
    assert.same({ '1', 1, true, 'a' }, { m.tag, m.attempt, m.redelivered, m.payload })
    assert.equal('2', c:expect_msg(nil, 1).tag)
    says('@1 ACK 1-2\r\n', '@1 OK 2')
  end)

  it('that ends with its connection leaves nothing behind', function()
    local other = broker:connect()
    other:send '@1 OPEN\r\n@1 GET q wait=1h\r\nSUB q s\r\n@2 OPEN\r\n@2 GET q wait=1h\r\n'
    for _, line in ipairs { '@1 OK', 'OK', '@2 OK' } do other:expect_line(line) end
    other:close()
    assert.is_truthy(wait.poll(function()
      return #c:document 'LIST consumers' == 0
    end))
    c:ok('PUB - q', 'x')
    says('GET q\r\n', 'OK 1')
    assert.equal('x', c:expect_msg().payload)
  end)

  it('is counted by LIST connections', function()
    says('@1 OPEN\r\n@2 OPEN\r\n@2 CLOSE\r\n', '@1 OK', '@2 OK', '@2 OK')
    local list = c:document 'LIST connections'
    local mine = list[#list]
    assert.equal(2, mine.channels)
    assert.equal('line', mine.protocol)
    assert.is_truthy(mine.peer:find '^127%.0%.0%.1:%d+$')
  end)

  it('ends with QUIT, after all other answers', function()
    local other = broker:connect()
    other:send '@1 OPEN\r\n@1 PUB - q 1\r\nx\r\nPUB - q 1\r\ny\r\nQUIT\r\nPING\r\n'
    local lines = {}
    for i = 1, 4 do lines[i] = other:read_line():gsub('%x%x%x%x%x%x%x%x+', 'ID') end
    table.sort(lines)
    assert.same({ '@1 OK', '@1 OK ID 1', 'OK', 'OK ID 1' }, lines)
    other:expect_closed()
  end)
end)
