--- A backlog behind the window that has expired.
local Broker = require 'support.broker'

describe('a GET on a queue whose backlog has expired', function()
  it('is answered as soon as Redis has been read', function()
    local broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    for _ = 1, 300 do c:send 'PUB - q ttl=1ms 1\r\nx\r\n' end
    for _ = 1, 300 do c:expect '^OK %x+ 1$' end
    -- Without an answer of its own the GET would be answered after 5 s.
    c:ok 'DECLARE queue empty'
    local other = broker:connect()
    other:send 'GET empty wait=4s\r\n'
    c:send 'GET q\r\nGET q wait=10ms\r\n'
    c:expect_line 'OK 0'
    c:expect_line 'OK 0'
    assert.is_nil(other:read_line(0))
    local stats = c:document 'STATS q'
    assert.equal(0, stats.ready)
    assert.equal(300, stats.expired)
    broker:expect_clean_stop()
  end)

  it('is answered among many who wait on, and so is the next', function()
    local broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } }
    local c, others = broker:connect(), broker:connect()
    c:ok 'DECLARE queue q'
    for _ = 1, 300 do c:send 'PUB - q ttl=1ms 1\r\nx\r\n' end
    for _ = 1, 300 do c:expect '^OK %x+ 1$' end
    for i = 1, 2000 do others:send(('SUB q s%d\r\n'):format(i)) end
    c:send(('GET q wait=1ms\r\n'):rep(100) .. 'GET q wait=1h\r\n')
    for _ = 1, 2000 do others:expect_line 'OK' end
    for _ = 1, 100 do c:expect_line 'OK 0' end
    -- Those who wait are in line still, the GET behind the subscriptions.
    others:send(('PUB - q quiet 1\r\nx\r\n'):rep(2001))
    c:expect_line 'OK 1'
    c:expect_msg()
    broker:expect_clean_stop()
  end)
end)
