-- Publishes to topics between BEGIN and COMMIT.
local Broker = require 'support.broker'
local wait = require 'support.wait'

describe('a transaction that publishes to a topic', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function queue(...)
    for _, payload in ipairs { ... } do assert.equal('queued', c:ok('PUB - t', payload)) end
  end

  --- The payloads of a partition, in order; their offsets are dense.
  local function log(partition)
    local payloads, at = {}, 0
    while true do
      local messages = c:get(('t partition=%d offset=%d max=1000'):format(partition or 0, at))
      if #messages == 0 then return payloads end
      for _, m in ipairs(messages) do
        assert.equal(at, tonumber(m.options.offset))
        payloads[#payloads + 1] = m.payload
        at = at + 1
      end
    end
  end

  it('takes from a queue and appends, at once', function()
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'order')
    c:get 'q'
    c:ok('PUB - t', 'a')
    c:ok 'BEGIN'
    queue('b', 'c')
    c:ok 'ACK 1'
    assert.equal(1, c:stats('t').messages)
    assert.equal('2 1', c:ok 'COMMIT')
    assert.matches(' 0:3$', c:ok('PUB - t', 'd'))
    assert.same({ 'a', 'b', 'c', 'd' }, log())
    assert.equal(0, c:stats('q').unacked)
    broker:kill9()
    broker:restart()
    c = broker:connect()
    assert.same({ 'a', 'b', 'c', 'd' }, log())
    assert.equal(0, c:stats('q').ready)
  end)

  it('leaves nothing behind a ROLLBACK or a refusal', function()
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'BEGIN'
    queue 'a'
    c:ok 'ROLLBACK'
    c:ok 'BEGIN'
    queue 'b'
    c:ok('PUB - nobody must', 'x')
    assert.matches('^ERR unroutable nothing was applied: request 2: ', c:request 'COMMIT')
    assert.matches(' 0:0$', c:ok('PUB - t', 'c'))
    assert.same({ 'c' }, log())
  end)

  it('has no publish ids for a topic that remembers them, nor for the copy that a filter makes', function()
    local other = Broker.start { args = { '--fsync', 'no' }, rules = { ['filter/80-record.lua'] =
      'return tide.use("record", { match = { exchange = "x" }, options = { to = "r" } })' } }
    local d = other:connect()
    for _, words in ipairs { 'topic t', 'topic off dedupe=0', 'queue q', 'exchange x fanout', 'exchange r fanout' } do
      d:ok('DECLARE ' .. words)
    end
    d:ok 'BIND q x -'
    d:ok 'BIND t r -'
    local function commit(words)
      d:ok 'BEGIN'
      assert.equal('queued', d:ok('PUB ' .. words, 'm'))
      return d:request 'COMMIT'
    end
    for _, words in ipairs { '- t id=1', 'x k id=1' } do
      assert.matches("^ERR denied nothing was applied: request 1: the message has an id=, and would go to topic 't'",
        commit(words))
    end
    assert.equal('OK 1 0', commit '- off id=1')
    assert.equal('OK 1 0', commit 'x k')
    assert.equal(1, d:stats('t').messages)
    assert.equal(1, d:stats('q').ready)
    d:close()
    other:expect_clean_stop()
  end)

  it('is one of many publishes of several connections', function()
    c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
    c:ok 'DECLARE queue q'
    local plain, other = broker:connect(), broker:connect()
    local lines = {}
    for i = 1, 500 do lines[i] = ('PUB - t 4\r\np%03d\r\n'):format(i) end
    local commits = {}
    for i = 1, 50 do
      local lines_of_one = 'BEGIN\r\nPUB - t 4\r\nc%03d\r\nPUB - q 1\r\nx\r\nPUB - t 4\r\nc%03d\r\nCOMMIT\r\n'
      commits[i] = lines_of_one:format(2 * i - 1, 2 * i)
    end
    local text, more = table.concat(lines), table.concat(commits)
    plain:send(text:sub(1, #text // 2))
    other:send(more)
    c:send(more)
    plain:send(text:sub(#text // 2 + 1))
    for _ = 1, 500 do plain:expect '^OK %x+ 1 [01]:%d+$' end
    for _, client in ipairs { c, other } do
      for _ = 1, 50 do
        client:expect_line 'OK'
        for _ = 1, 3 do client:expect_line 'OK queued' end
        client:expect_line 'OK 3 0'
      end
    end
    local seen, count = {}, 0
    for partition = 0, 1 do
      local last = ''
      for _, payload in ipairs(log(partition)) do
        seen[payload] = (seen[payload] or 0) + 1
        count = count + 1
        if payload:sub(1, 1) == 'p' then
          assert.is_true(payload > last) -- in the order of their connection
          last = payload
        end
      end
    end
    assert.equal(700, count)
    for i = 1, 500 do assert.equal(1, seen[('p%03d'):format(i)]) end
    for i = 1, 100 do assert.equal(2, seen[('c%03d'):format(i)]) end
    assert.equal(100, c:stats('q').ready)
    plain:close()
    other:close()
  end)

  it('may be large', function()
    c:ok 'DECLARE topic t partitions=1'
    c:ok('PUB - t', 'a')
    local part = ('x'):rep(1000000)
    c:ok 'BEGIN'
    for i = 1, 12 do queue(i .. part) end
    assert.equal('12 0', c:ok 'COMMIT')
    c:ok('PUB - t', 'b')
    local function check()
      local payloads = log()
      assert.equal(14, #payloads)
      for i = 1, 12 do assert.equal(i .. part, payloads[i + 1]) end
    end
    check()
    broker:kill9()
    broker:restart()
    c = broker:connect()
    check()
  end)

  it('reaches groups that wait, when it is committed', function()
    c:ok 'DECLARE topic t partitions=1'
    local sub, get = broker:connect(), broker:connect()
    sub:send 'SUB t s group=g\r\n'
    sub:expect_line 'OK'
    sub:expect_line 'EVT assigned s 0'
    get:send 'GET t group=h wait=1h max=9\r\n'
    c:ok 'BEGIN'
    queue('a', 'b')
    sub:expect_nothing()
    assert.equal('2 0', c:ok 'COMMIT')
    assert.equal('a', sub:expect_msg().payload)
    assert.equal('b', sub:expect_msg().payload)
    get:expect_line 'OK 2'
    sub:close()
    get:close()
  end)

  it('works in memory alone, and together with what is durable', function()
    c:ok 'DECLARE topic t partitions=1 durable=0'
    c:ok 'DECLARE queue q'
    c:ok 'BEGIN'
    queue('a', 'b')
    assert.equal('2 0', c:ok 'COMMIT')
    assert.same({ 'a', 'b' }, log())
    c:ok 'BEGIN'
    queue 'c'
    c:ok('PUB - q', 'x')
    assert.equal('2 0', c:ok 'COMMIT')
    assert(wait.poll(function() return #log() == 3 end))
    assert.equal(1, c:stats('q').ready)
  end)

  it('goes on without a topic that is deleted meanwhile', function()
    c:ok 'DECLARE topic t partitions=1'
    c:ok 'DECLARE queue q'
    local other = broker:connect()
    for _ = 1, 20 do
      other:send 'PUB - t 1\r\nx\r\n'
      c:send 'BEGIN\r\nPUB - t 1\r\na\r\nPUB - q 1\r\nb\r\nCOMMIT\r\nDELETE topic t\r\nDECLARE topic t partitions=1\r\n'
      c:expect_line 'OK'
      c:expect_line 'OK queued'
      c:expect_line 'OK queued'
      c:expect_line 'OK 2 0'
      c:expect_line 'OK'
      c:expect_line 'OK'
      other:expect '^'
    end
    assert.equal(20, c:stats('q').ready)
    other:close()
  end)

  it('changes nothing when Redis refuses what is before it', function()
    c:ok 'DECLARE topic t partitions=3 sharding=round_robin'
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'm')
    for _, payload in ipairs { 'a', 'b', 'c' } do c:ok('PUB - t', payload) end
    c:get 'q'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', 1)
    local function line(payload) return ('PUB - t 1\r\n%s\r\n'):format(payload) end
    -- In one turn: the first is refused. Its partition is one of the transaction.
    c:send(line 'x' .. 'BEGIN\r\n' .. line 'y' .. line 'y' .. line 'y' .. 'ACK 1\r\nCOMMIT\r\n' .. line 'z' .. line 'z')
    c:expect '^ERR store '
    c:expect_line 'OK'
    for _ = 1, 4 do c:expect_line 'OK queued' end
    c:expect '^ERR store nothing was applied: '
    c:expect '^ERR store '
    c:expect '^ERR store '
    assert.equal(1, c:stats('q').unacked)
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', 0)
    local seen = {}
    assert(wait.poll(function()
      local partition, offset = c:request('PUB - t', 'e'):match '^OK %x+ 1 (%d):(%d+)$'
      if not partition then return false end
      -- As if nothing else had been published.
      assert.equal(seen[partition] or 1, tonumber(offset))
      seen[partition] = offset + 1
      return seen['0'] and seen['1'] and seen['2']
    end))
    for i = 0, 2 do assert.is_nil(table.concat(log(i)):find '[xyz]') end
  end)

  it('changes nothing when Redis refuses, and fails what waits behind it', function()
    c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'm')
    c:ok('PUB - t', 'a')
    c:get 'q'
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', 1)
    c:send 'BEGIN\r\nPUB - t 1\r\nb\r\nPUB - t 1\r\nc\r\nACK 1\r\nCOMMIT\r\nPUB - t 1\r\nd\r\n'
    c:expect_line 'OK'
    for _ = 1, 3 do c:expect_line 'OK queued' end
    c:expect '^ERR store nothing was applied: '
    c:expect '^ERR store '
    assert.equal(1, c:stats('q').unacked)
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', 0)
    c:ok 'BEGIN'
    queue('e', 'f')
    c:ok 'ACK 1'
    assert(wait.poll(function()
      local answer = c:request 'COMMIT'
      if answer == 'OK 2 1' then return true end
      c:ok 'BEGIN'
      queue('e', 'f')
      c:ok 'ACK 1'
    end))
    local function check()
      local payloads = table.concat(log(0)) .. table.concat(log(1))
      assert.equal(3, #payloads)
      for _, payload in ipairs { 'a', 'e', 'f' } do assert.is_truthy(payloads:find(payload, 1, true)) end
    end
    check()
    broker:kill9()
    broker:restart()
    c = broker:connect()
    check()
  end)
end)
