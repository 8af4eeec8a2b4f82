-- Redis dies, stops, or refuses, while a broker is at work.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

describe('a broker', function()
  local broker, redis, c

  after_each(function()
    if broker then broker:destroy() end
    broker = nil
  end)

  local function start_with_redis(args)
    broker = Broker.start { redis = {}, args = args }
    redis = broker.redis
    c = broker:connect()
  end

  it('restarts its Redis, and what waited is confirmed late', function()
    broker = Broker.start { args = { '--window-messages', '16' } }
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    local sent = 0
    for _ = 1, 3 do
      local lines = {}
      for i = 1, 400 do
        local text = tostring(sent + i)
        lines[i] = ('PUB - jobs %d\r\n%s\r\n'):format(#text, text)
      end
      c:send(table.concat(lines, '', 1, 200))
      broker:kill9_redis()
      c:send(table.concat(lines, '', 201))
      for _ = 1, 400 do c:expect('^OK %x+ 1$', 30) end
      sent = sent + 400
    end
    broker:expect_log 'is back after'
    local payloads = traffic.take(c, 'jobs', sent)
    for i = 1, sent do assert.equal(tostring(i), payloads[i]) end
    traffic.expect_counts(c, 'jobs', { ready = 0, unacked = 0 })
  end)

  it('delivers and takes acknowledgements while Redis is gone', function()
    start_with_redis { '--window-messages', '16' }
    c:ok 'DECLARE queue jobs'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    c:ok 'SUB jobs s ack=auto'
    local publisher = broker:connect()
    -- What the window has no room for is Redis's once a batch with it has left, which is sooner on a busy machine.
    for _ = 1, 50 do
      publisher:send(('PUB - jobs 1\r\na\r\n'):rep(10))
      for _ = 1, 10 do c:expect_msg() end
    end
    redis:signal('CONT', pid)
    for _ = 1, 500 do publisher:expect '^OK %x+ 1$' end
  end)

  -- Each message of the chain waits for its copy, and the last copy ends them all.
  it('survives a message that was dead-lettered very often while Redis was gone', function()
    broker = Broker.start { redis = {}, stack_kib = 512 }
    redis = broker.redis
    c = broker:connect()
    c:ok 'DECLARE queue loop dead-letter=-/loop death-limit=1000000'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    broker:connect():send 'PUB - loop 1\r\na\r\n'
    traffic.expect_counts(c, 'loop', { ready = 1 })
    local hops, step = 10000, 500
    for first = 1, hops, step do
      local lines = {}
      for tag = first, first + step - 1 do lines[#lines + 1] = ('GET loop\r\nNACK %d dead\r\n'):format(tag) end
      c:send(table.concat(lines))
      for _ = 1, step do
        c:expect '^OK 1$'
        c:expect_msg()
        c:expect '^OK 1$'
      end
    end
    c:send 'GET loop ack=auto\r\n'
    c:expect '^OK 1$'
    c:expect_msg()
    redis:signal('CONT', pid)
    traffic.expect_counts(c, 'loop', { ready = 0, unacked = 0, buried = 0 })
  end)

  local DEFINITIONS = 'DECLARE exchange e topic\r\nDECLARE queue q\r\nBIND q e a.*\r\n'

  it('says OK to whoever declares a thing, first or again, when Redis has it', function()
    start_with_redis()
    local pid = redis:pid()
    redis:signal('STOP', pid)
    local clients = { c, broker:connect() }
    for _, client in ipairs(clients) do
      client:send(DEFINITIONS .. '@1 OPEN\r\n')
      client:expect_line '@1 OK'
    end
    redis:signal('CONT', pid)
    for _, client in ipairs(clients) do
      for _ = 1, 3 do client:expect_line 'OK' end
    end
    c:ok 'DELETE queue q'
    redis:signal('STOP', pid)
    -- What the first has asked for is deleted, and made anew by the second.
    c:send('DECLARE queue q\r\n@1 PING\r\n')
    c:expect_line '@1 OK'
    clients[2]:send 'DELETE queue q\r\nDECLARE queue q\r\n@1 PING\r\n'
    clients[2]:expect_line '@1 OK'
    redis:signal('CONT', pid)
    c:expect_line 'OK'
    for _ = 1, 2 do clients[2]:expect_line 'OK' end
    assert.equal('1', redis:cli('HEXISTS', '{tide}:/:queues', 'q'))
    c:ok 'DECLARE queue q'
  end)

  it('has no definition that Redis would not take', function()
    start_with_redis()
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    for _ = 1, 2 do
      c:send 'DECLARE queue q\r\nDECLARE queue q\r\nDECLARE exchange e topic\r\n'
      for _ = 1, 3 do c:expect '^ERR store .*OOM' end
      c:send 'LIST queues\r\nLIST exchanges\r\n'
      assert.same({}, c:expect_json())
      for _, exchange in ipairs(c:expect_json()) do assert.not_equal('e', exchange.name) end
    end
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    c:send(DEFINITIONS)
    for _ = 1, 3 do c:expect_line 'OK' end
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    c:send 'BIND q e b.*\r\n'
    c:expect '^ERR store .*OOM'
    assert.equal(1, #c:document 'LIST bindings')
  end)

  it('holds publishers back while Redis is stopped, and resumes', function()
    start_with_redis { '--max-unstored', '1M' }
    c:ok 'DECLARE queue jobs'
    local pid = redis:pid()
    redis:signal('STOP', pid)
    local publisher = broker:connect()
    local one = ('PUB - jobs 1000\r\n%s\r\n'):format(('x'):rep(1000))
    publisher:send(one:rep(1500))
    publisher:expect '^EVT blocked'
    c:expect_nothing()
    redis:signal('CONT', pid)
    local confirmed, is_unblocked = 0, false
    while confirmed < 1500 or not is_unblocked do
      local line = publisher:read_line(20)
      if line and line:find '^EVT unblocked' then is_unblocked = true
      elseif line and line:find '^OK %x+ 1$' then confirmed = confirmed + 1
      elseif not (line and line:find '^EVT blocked') then error('got ' .. tostring(line)) end
    end
    traffic.expect_counts(c, 'jobs', { ready = 1500 })
    assert.equal('1500', redis:cli('ZCARD', broker:key('jobs', 'ready')))
  end)

  it('tells publishers that Redis is out of memory, and acknowledges all the same', function()
    start_with_redis { '--window-messages', '16' }
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 400)
    assert.equal('OK', redis:cli('CONFIG', 'SET', 'maxmemory', '1'))
    for _ = 1, 3 do
      assert.matches('^ERR store .*OOM', c:request('PUB - jobs', 'refused'))
    end
    traffic.expect_counts(c, 'jobs', { ready = 400 })
    -- The backlog beyond the window is read, delivered and removed.
    local payloads = traffic.take(c, 'jobs', 300)
    for i = 1, 300 do assert.equal(tostring(i), payloads[i]) end
    assert.equal('100', redis:cli('ZCARD', broker:key('jobs', 'ready')))
    assert.equal('50', tostring(c:stats('jobs').ready - 50))
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:request('PUB - jobs', 'taken'):find '^OK' end))
    traffic.take(c, 'jobs', 101)
    assert.equal('0', redis:cli('EXISTS', broker:key('jobs', 'ready'), broker:key('jobs', 'msg')))
  end)

  it('purges a queue while Redis is out of memory', function()
    start_with_redis { '--window-messages', '16' }
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 400)
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    assert.matches('^ERR store', c:request('PUB - jobs', 'refused'))
    c:send(('PUB - jobs 1\r\na\r\n'):rep(20) .. 'PURGE jobs\r\n')
    for _ = 1, 20 do c:expect '^[OE]' end
    c:expect '^OK %d+$'
    traffic.expect_counts(c, 'jobs', { ready = 0 })
    assert(wait.poll(function()
      return redis:cli('EXISTS', broker:key('jobs', 'ready'), broker:key('jobs', 'msg')) == '0'
    end))
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function() return c:request('PUB - jobs', 'taken'):find '^OK' end))
  end)

  it('keeps trying what was refused, so that nothing held is lost', function()
    start_with_redis()
    c:ok 'DECLARE queue jobs ack-timeout=1h'
    traffic.publish(c, 'jobs', 10)
    assert.equal(10, #c:get 'jobs max=10')
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    c:ok 'NACK 1-5 delay=1h'
    c:ok 'NACK 6-10 dead'
    c:document 'STATS'
    assert.equal('0', redis:cli('ZCARD', broker:key('jobs', 'delayed')))
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    assert(wait.poll(function()
      return redis:cli('ZCARD', broker:key('jobs', 'delayed')) == '5'
        and redis:cli('ZCARD', broker:key('jobs', 'buried')) == '5'
    end))
    broker:kill9()
    broker:restart()
    c = broker:connect()
    traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 5, buried = 5 })
  end)

  it('tells publishers that its Redis has become a replica', function()
    start_with_redis()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 5)
    redis:cli('REPLICAOF', '127.0.0.1', '1')
    local answer = c:request('PUB - jobs', 'refused')
    assert.matches('^ERR store .*READONLY', answer)
    redis:cli('REPLICAOF', 'NO', 'ONE')
    assert(wait.poll(function() return c:request('PUB - jobs', 'taken'):find '^OK' end))
    assert.equal(6, #traffic.take(c, 'jobs', 6))
  end)

  it('makes a message ready again whose removal was cut in half', function()
    start_with_redis()
    c:ok 'DECLARE queue jobs priority=strict'
    traffic.publish(c, 'jobs', 200, function(i) return nil, 'pri=' .. i % 3 end)
    local ids = {}
    for i, msg in ipairs(c:peek 'jobs 3') do ids[i] = msg.id end
    broker:kill9()
    -- HDEL was refused, ZREM was not.
    redis:cli('ZREM', broker:key('jobs', 'ready'), table.unpack(ids))
    broker:run()
    c = broker:connect()
    broker:expect_log '3 messages were in no state'
    for i, msg in ipairs(c:peek 'jobs 3') do assert.equal(ids[i], msg.id) end
    assert.equal(200, #traffic.take(c, 'jobs', 200))
    traffic.expect_counts(c, 'jobs', { ready = 0 })
  end)

  it('forgets the tries of a message whose removal was cut short', function()
    start_with_redis()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 2)
    c:ok 'GET jobs max=2'
    local gone, left = c:expect_msg(), c:expect_msg()
    c:ok(('NACK %s %s'):format(gone.tag, left.tag))
    broker:kill9()
    -- HDEL of the tries was not carried out: its key was being moved.
    redis:cli('HDEL', broker:key('jobs', 'msg'), gone.options.id)
    redis:cli('ZREM', broker:key('jobs', 'ready'), gone.options.id)
    broker:run()
    broker:expect_log 'removed the tries of 1 messages'
    assert.equal(left.options.id, redis:cli('HKEYS', broker:key('jobs', 'tries')))
    c = broker:connect()
    c:ok 'GET jobs'
    assert.equal(2, c:expect_msg().attempt)
  end)

  it('deletes what Redis refuses to delete as soon as Redis does', function()
    start_with_redis()
    c:send(DEFINITIONS .. 'DECLARE queue other\r\nDECLARE exchange x fanout\r\nBIND other x -\r\n')
    for _ = 1, 6 do c:expect_line 'OK' end
    traffic.publish(c, 'q', 5)
    redis:cli('REPLICAOF', '127.0.0.1', '1')
    local deleter = broker:connect()
    deleter:send 'DELETE queue q\r\nUNBIND other x -\r\nDELETE exchange x\r\n@1 OPEN\r\n'
    deleter:expect_line '@1 OK'
    broker:expect_log "Redis refused to delete 'q', trying again: "
    -- For clients it is gone, and not to be had again yet: the old messages would come back.
    assert.matches('^ERR not%-found', c:request 'STATS q')
    assert.matches("^ERR store queue 'q' was deleted, and Redis refuses", c:request 'DECLARE queue q')
    redis:cli('REPLICAOF', 'NO', 'ONE')
    for _ = 1, 3 do deleter:expect_line('OK', 20) end
    broker:expect_log 'nothing is left that Redis refused to delete'
    c:ok 'DECLARE queue q'
    assert.equal(0, c:stats('q').ready)
    assert.equal('0', redis:cli('EXISTS', broker:key('q', 'msg'), broker:key('q', 'ready')))
    broker:kill9()
    broker:restart()
    c = broker:connect()
    assert.equal(2, #c:document 'LIST queues')
    assert.same({}, c:document 'LIST bindings')
    traffic.expect_counts(c, 'q', { ready = 0 })
  end)

  it('fails a PURGE that Redis refuses, and still has every message', function()
    start_with_redis { '--window-messages', '16' }
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 200)
    redis:cli('REPLICAOF', '127.0.0.1', '1')
    c:send 'PURGE jobs\r\n'
    broker:expect_log 'purge: READONLY'
    redis:cli('REPLICAOF', 'NO', 'ONE')
    c:expect '^ERR store'
    local left = c:stats('jobs').ready
    assert(wait.poll(function() return redis:cli('ZCARD', broker:key('jobs', 'ready')) == tostring(left) end))
    assert.equal(left, #traffic.take(c, 'jobs', left))
    assert.equal('0', redis:cli('EXISTS', broker:key('jobs', 'ready'), broker:key('jobs', 'msg')))
  end)
end)

describe('a broker whose disk is full', function()
  it('confirms nothing that is not written, and goes on when there is room', function()
    local broker = Broker.start()
    local dir = broker.dir .. '/small'
    finally(function()
      broker:kill9_all()
      os.execute(('umount -l %s 2>/dev/null'):format(dir))
      broker:destroy()
    end)
    if not os.execute(('mkdir %s && mount -t tmpfs -o size=6m tmpfs %s 2>/dev/null'):format(dir, dir)) then
      pending 'needs root, for a small file system'
      return
    end
    broker:expect_clean_stop()
    broker.data = dir
    broker:run()
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    local fill = ('dd if=/dev/zero of=%s/fill bs=1k count=5400 2>/dev/null'):format(dir)
    os.execute(fill)
    local payload = ('x'):rep(4000)
    local confirmed, request = 0, ('PUB - jobs %d\r\n%s\r\n'):format(#payload, payload)
    c:send(request:rep(400))
    broker:expect_log 'AOF write error'
    local answered = 0
    local function count(line)
      answered = answered + 1
      if line:find '^OK' then confirmed = confirmed + 1 end
    end
    for line in function() return c:read_line(0) end do count(line) end
    assert.is_true(confirmed < 400)
    os.remove(dir .. '/fill')
    while answered < 400 do count(assert(c:read_line(30))) end
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    assert.is_true(c:stats('jobs').ready >= confirmed)
  end)
end)
