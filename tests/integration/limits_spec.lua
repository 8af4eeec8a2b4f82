-- What a connection, a vhost and a broker may have at most.
local Broker = require 'support.broker'

describe('a broker with low limits', function()
  local broker, c

  local function start(...)
    broker = Broker.start { args = { '--store', 'none', ... } }
    c = broker:connect()
  end

  after_each(function()
    if broker then broker:destroy() end
    broker = nil
  end)

  local function says(text, line)
    c:send(text .. '\r\n')
    c:expect_line(line)
  end

  it('gives a connection so many subscriptions, over all its channels', function()
    start('--max-consumers', '3')
    c:ok 'DECLARE queue q'
    says('@1 OPEN', '@1 OK')
    says('SUB q a', 'OK')
    says('SUB q b', 'OK')
    says('@1 SUB q a', '@1 OK')
    says('@1 SUB q b', '@1 ERR limit this connection has 3 subscriptions, which is the limit')
    says('SUB q a', "ERR exists this channel has a subscription 'a' already")
    -- A GET that waits is none, and others have their own.
    c:send 'GET q wait=1s\r\n'
    local other = broker:connect()
    other:ok 'SUB q a'
    c:expect_line 'OK 0'
    says('UNSUB b', 'OK')
    says('@1 SUB q b', '@1 OK')
    says('@1 CLOSE', '@1 OK')
    says('SUB q b', 'OK')
    says('SUB q c', 'OK')
    says('SUB q d', 'ERR limit this connection has 3 subscriptions, which is the limit')
  end)
end)
