-- What a connection, a vhost and a broker may have at most.
local Broker = require 'support.broker'
local wait = require 'support.wait'

-- AddressSanitizer keeps what was freed: its memory says nothing of ours.

describe('a broker whose messages are in Redis', function()
  it('takes more than fits the memory, in one queue or in many', function()
    local broker = Broker.start { args = { '--fsync', 'no', '--max-memory', '8M' } }
    local c, text = broker:connect(), ('PUB - %%s 20000\r\n%s\r\n'):format(('x'):rep(20000))
    for i = 1, 24 do
      local count = i == 1 and 500 or 20
      c:ok('DECLARE queue q' .. i)
      c:send(text:format('q' .. i):rep(count))
      for _ = 1, count do c:drain_until '^OK %x+ 1$' end
    end
    local got = 0
    assert(wait.poll(function()
      got = got + #c:get 'q1 max=500 ack=auto'
      return got == 500
    end), got .. ' came')
    broker:expect_clean_stop()
  end)
end)

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

  it('gives a connection so many subscriptions, over all its channels', function()
    start('--max-consumers', '3')
    c:ok 'DECLARE queue q'
    c:expect_answer('@1 OPEN', '@1 OK')
    c:expect_answer('SUB q a', 'OK')
    c:expect_answer('SUB q b', 'OK')
    c:expect_answer('@1 SUB q a', '@1 OK')
    c:expect_answer('@1 SUB q b', '@1 ERR limit the limit of 3 subscriptions per connection is reached')
    c:expect_answer('SUB q a', "ERR exists this channel has a subscription 'a' already")
    -- A GET that waits is none, and others have their own.
    c:send 'GET q wait=1s\r\n'
    local other = broker:connect()
    other:ok 'SUB q a'
    c:expect_line 'OK 0'
    c:expect_answer('UNSUB b', 'OK')
    c:expect_answer('@1 SUB q b', '@1 OK')
    c:expect_answer('@1 CLOSE', '@1 OK')
    c:expect_answer('SUB q b', 'OK')
    c:expect_answer('SUB q c', 'OK')
    c:expect_answer('SUB q d', 'ERR limit the limit of 3 subscriptions per connection is reached')
  end)

  -- What a PEEK makes of a message is up to six times as long.
  for _, place in ipairs { 'memory', 'Redis' } do
    it('shows no more than 8 MiB of messages in ' .. place, function()
      local args = place == 'Redis' and { '--window-bytes', '64K', '--fsync', 'no' } or { '--store', 'none' }
      broker = Broker.start { args = args }
      c = broker:connect()
      c:ok 'DECLARE queue q'
      for i = 1, 10 do c:ok('PUB - q h:i=' .. i, ('x'):rep(1 << 20)) end
      assert.equal(3, #c:peek 'q 3')
      local shown = c:peek 'q 100'
      for i, m in ipairs(shown) do assert.equal(tostring(i), m.headers.i) end
      assert.is_true(#shown == 7 or #shown == 8, #shown)
      assert.equal(1 << 20, #shown[7].payload)
    end)
  end

  it('remembers routes in a sixteenth of the memory for messages', function()
    start('--max-memory', '16M')
    local QUEUES, KEYS = 500, 100
    c:ok 'DECLARE exchange x fanout'
    for i = 1, QUEUES do
      c:ok('DECLARE queue q' .. i)
      c:ok(('BIND q%d x -'):format(i))
    end
    local function publish(from, to)
      for i = from, to do c:send(('PUB x k%d 1\r\nx\r\n'):format(i)) end
      for _ = from, to do c:expect('^OK %x+ ' .. QUEUES .. '$') end
      for i = 1, 500 do c:send(('PURGE q%d\r\n'):format(i)) end
      for _ = 1, 500 do c:expect '^OK' end
      return c:document('STATS').routes_bytes
    end
    local one = publish(1, 1)
    assert.is_true(one > QUEUES * 16, one)
    assert.equal(one, publish(1, 1))
    local full = publish(1, KEYS)
    assert.is_true(full <= 1 << 20 and full > (1 << 20) - 2 * one, full)
    assert.is_true(publish(KEYS, KEYS) == full)
    c:ok 'UNBIND q1 x -'
    QUEUES = QUEUES - 1
    assert.is_true(publish(1, KEYS) <= 1 << 20)
    c:ok 'DELETE exchange x'
    assert.equal(0, c:document('STATS').routes_bytes)
  end)

  --- The answer to HELLO on a new connection; "DATA" for a document.
  local function hello(vhost)
    local client = broker:connect()
    client:send(('HELLO vhost=%s\r\n'):format(vhost))
    local word, what = client:expect '^(%u+) (%w+)'
    if word == 'DATA' then client:expect_payload(what) end
    return word == 'DATA' and word or word .. ' ' .. what, client
  end

  it('forgets a vhost that nothing is in, so that there is room for another', function()
    -- What a script names is made, and goes when it is empty.
    broker = Broker.start { args = { '--store', 'none', '--max-vhosts', '3' }, rules = { ['connect/10-any.lua'] = [[
      return { match = {}, connect = function(client) return { vhost = client.vhost } end }]] } }
    for i = 1, 50 do
      local answer, client
      wait.poll(function()
        answer, client = hello('v' .. i)
        return answer == 'DATA'
      end)
      client:ok 'DECLARE queue q'
      client:ok('PUB - q', 'x')
      client:ok 'DELETE queue q'
      client:close()
    end
    -- What was published there is still known when one of its name is there again.
    local answer, again
    wait.poll(function()
      answer, again = hello 'v50'
      return answer == 'DATA'
    end)
    assert.equal('v50', again:document('RULES recent 5')[1].vhost)
    again:close()
    local _, one = hello 'one'
    one:ok 'DECLARE queue q'
    one:ok 'DECLARE queue gone auto-delete=1'
    one:close()
    local _, two = hello 'two'
    assert.equal('ERR limit', (hello 'three'))
    two:ok 'DECLARE exchange x fanout'
    two:close()
    assert.equal('ERR limit', (hello 'three'))
    _, two = hello 'two'
    two:ok 'DELETE exchange x'
    assert.equal('ERR limit', (hello 'three'))
    two:close()
    assert(wait.poll(function() return hello 'three' == 'DATA' end))
  end)

  it('finds again what is in Redis, whatever the limit, and nothing else', function()
    broker = Broker.start { args = { '--fsync', 'no' } }
    for _, name in ipairs { 'a', 'b', 'c' } do
      local client = broker:connect()
      client:enter_vhost(name)
      client:ok 'DECLARE queue q'
      if name == 'b' then client:ok 'DELETE queue q' end
      client:close()
    end
    broker:connect():ok 'DELETE vhost b'
    assert.is_nil(broker:redis_cli('SMEMBERS', '{tide}:vhosts'):find 'b')
    broker:redis_cli('SADD', '{tide}:vhosts', 'odd')
    broker:redis_cli('HSET', '{tide}:odd:queues', 'q', 'shards=none')
    broker.options.args = { '--fsync', 'no', '--max-vhosts', '2' }
    broker:restart()
    local _, client = hello 'c'
    assert.equal('q', client:document('STATS q').queue)
    client:expect_answer('DECLARE vhost d', 'ERR limit the limit of 4 vhosts is reached')
    assert.equal('ERR not', (hello 'b'))
    -- What this version cannot use is left alone, and is found by another.
    assert.matches('odd', broker:redis_cli('SMEMBERS', '{tide}:vhosts'))
  end)

  it('has memory for many shards that nothing is sent to', function()
    start()
    local before, lines = broker:memory(), {}
    for i = 1, 1000 do lines[i] = ('DECLARE queue many-%d shards=64 sharding=round_robin\r\n'):format(i) end
    c:send(table.concat(lines))
    for _ = 1, 1000 do c:expect_line('OK', 30) end
    -- 60 MB if each shard were there.
    broker:expect_memory_below(before + (16 << 20))
    for i = 1, 100 do c:ok('PUB - many-1', tostring(i)) end
    assert.equal(100, #c:get 'many-1 max=100')
    assert.equal(64, c:stats('many-1').shards)
  end)

  it('has so many queues, exchanges and bindings, in all vhosts together', function()
    start('--max-queues', '2', '--max-exchanges', '2', '--max-bindings', '2')
    local other = broker:connect()
    other:enter_vhost 'other'
    for _, what in ipairs { 'queue %s', 'exchange %s fanout' } do
      local kind = what:match '%a+'
      local declare = 'DECLARE ' .. what
      c:ok(declare:format 'one')
      other:ok(declare:format 'one')
      c:expect_answer(declare:format 'two', ('ERR limit the limit of 2 %ss is reached'):format(kind))
      c:ok(declare:format 'one') -- again is no more
      other:ok('DELETE ' .. kind .. ' one')
      c:ok(declare:format 'two')
    end
    c:ok 'BIND one one -'
    c:ok 'BIND one two -'
    c:expect_answer('BIND two two -', 'ERR limit the limit of 2 bindings is reached')
    c:ok 'BIND one two -'
    c:ok 'DELETE exchange two'
    c:ok 'BIND two one -'
    c:ok 'DELETE queue one'
    c:ok 'BIND two one a'
  end)

  it('gives a topic so many groups', function()
    start('--max-groups', '2')
    local full = "ERR limit the limit of 2 groups is reached in topic 't' (--max-groups); "
      .. 'DELETE group removes one that is not needed'
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE topic other partitions=1'
    c:ok 'SUB t s1 group=a'
    c:expect_line 'EVT assigned s1 0'
    c:expect_answer('GET t group=b', 'OK 0')
    c:expect_answer('SUB t s2 group=c', full)
    c:expect_answer('GET t group=c', full)
    c:ok 'SUB t s2' -- a reader is none
    c:expect_answer('GET t group=b', 'OK 0')
    c:expect_answer('GET other group=c', 'OK 0')
    c:ok 'DELETE group t b'
    c:expect_answer('GET t group=c', 'OK 0')
    c:expect_answer('GET t group=b', full)
  end)
end)
