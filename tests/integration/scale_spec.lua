-- What grows with what a peer chooses: sizes that took minutes, or most of a turn.
local Broker = require 'support.broker'

describe('a broker of many', function()
  local broker, c

  setup(function()
    broker = Broker.start { args = { '--store', 'none' } }
    c = broker:connect()
  end)
  teardown(function() broker:destroy() end)

  --- Requests 1 to n, each answered `OK`, on channel 1.
  local function all_ok(n, format)
    local parts = {}
    for i = 1, n do parts[i] = format:format(i) end
    c:send(table.concat(parts))
    for _ = 1, n do c:expect_line '@1 OK' end
  end

  it('subscriptions that end while each holds a message', function()
    local N = 5000
    c:ok 'DECLARE queue q'
    c:send '@1 OPEN\r\n'
    c:expect_line '@1 OK'
    c:send(('PUB - q quiet 1\r\nx\r\n'):rep(N))
    local parts, tags = {}, {}
    for i = 1, N do parts[i] = ('@1 SUB q s%d prefetch=1\r\n'):format(i) end
    c:send(table.concat(parts))
    local oks = 0
    while oks < N or #tags < N do
      local line = c:expect '^(@1 .*)$'
      if line == '@1 OK' then
        oks = oks + 1
      else
        tags[#tags + 1] = line:match '^@1 MSG %S+ (%d+)'
        c:expect_line 'x'
      end
    end
    all_ok(N, '@1 UNSUB s%d\r\n')
    -- The channel holds them still; half are settled, half go back as it is closed.
    c:send(('@1 ACK 2-%d\r\n'):format(N // 2))
    c:expect_line('@1 OK ' .. N // 2 - 1)
    c:send(('@1 NACK %d requeue\r\n@1 ACK %d\r\n'):format(N, N))
    c:expect_line '@1 OK 1'
    c:expect '^@1 ERR lease'
    c:send '@1 CLOSE\r\n'
    c:expect_line '@1 OK'
    local stats = c:document 'STATS q'
    assert.same({ N // 2 + 1, 0 }, { stats.ready, stats.unacked })
    c:ok 'DELETE queue q'
  end)
end)
