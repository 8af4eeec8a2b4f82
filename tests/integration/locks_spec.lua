-- LOCK, UNLOCK, CHECK, LIST locks and `tidemq lock`.
local Broker = require 'support.broker'
local Client = require 'support.client'
local shell = require 'support.shell'
local wait = require 'support.wait'

describe('a lock', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function locks() return c:document 'LIST locks' end
  local function lock(client, words)
    local token = client:ok('LOCK ' .. words)
    return math.tointeger(token)
  end
  local function waiting(n)
    assert(wait.poll(function() return locks()[1] and locks()[1].waiting == n end))
  end
  local function lost(name, token) return ('ERR lease-lost lock \'%s\' is held with token %d'):format(name, token) end

  it('is held by one channel at a time', function()
    local peer = broker:connect()
    local token = lock(c, 'a')
    assert.equal('ERR busy lock \'a\' is held', peer:request 'LOCK a')
    assert.matches('^ERR exists this channel holds lock \'a\' already, with token ' .. token, c:request 'LOCK a')
    c:expect_answer('@1 OPEN', '@1 OK')
    assert.equal('@1 ERR busy lock \'a\' is held', c:request '@1 LOCK a')
    c:expect_answer(('CHECK a %d'):format(token), 'OK')
    peer:expect_answer(('CHECK a %d'):format(token), 'OK')
    c:expect_answer(('UNLOCK a %d'):format(token), 'OK')
    assert.matches('^ERR lease%-lost lock \'a\' is free', c:request('CHECK a ' .. token))
    assert.matches('^ERR lease%-lost lock \'a\' is free', c:request('UNLOCK a ' .. token))
    local second = lock(peer, 'a')
    assert.is_true(second > token)
    assert.equal(lost('a', second), c:request('UNLOCK a ' .. token):match '^(.-),')
    peer:close()
  end)

  it('is another one in another vhost', function()
    local peer = Client.connect(broker.address)
    lock(c, 'a')
    peer:enter_vhost 'elsewhere'
    lock(peer, 'a')
    assert.equal(1, #locks())
    peer:close()
  end)

  it('is given to those who wait in turn, each with a greater token', function()
    local token, peers = lock(c, 'a'), {}
    for i = 1, 5 do
      peers[i] = broker:connect()
      peers[i]:send 'LOCK a wait=1h\r\n'
      waiting(i)
    end
    for i = 1, 5 do
      (i == 1 and c or peers[i - 1]):ok('UNLOCK a ' .. token)
      local next_token = math.tointeger(peers[i]:expect '^OK (%d+)$')
      assert.is_true(next_token > token)
      token = next_token
      assert.equal(5 - i, locks()[1].waiting)
    end
    for _, peer in ipairs(peers) do peer:close() end
  end)

  it('is not given to one who waits no more', function()
    local token = lock(c, 'a')
    local gone, patient = broker:connect(), broker:connect()
    gone:send 'LOCK a wait=1h\r\n'
    waiting(1)
    patient:send 'LOCK a wait=1h\r\n'
    waiting(2)
    gone:close()
    waiting(1)
    c:ok('UNLOCK a ' .. token)
    patient:expect '^OK %d+$'
    patient:close()
  end)

  it('is waited for as long as the request says', function()
    local peer = broker:connect()
    lock(c, 'a')
    peer:expect_answer('LOCK a wait=20ms', 'ERR busy the lock was held for all of the time')
    assert.equal(0, locks()[1].waiting)
    peer:expect_answer('@1 OPEN', '@1 OK')
    peer:send '@1 LOCK a wait=1h\r\n@1 CLOSE\r\n'
    peer:expect '^@1 ERR busy the lock is held, and nobody waits any more$'
    peer:expect_line '@1 OK'
    peer:close()
  end)

  it('does not lapse while its channel lives, and lapses after its ttl when that ends', function()
    local holder, peer = broker:connect(), broker:connect()
    local token = lock(holder, 'a ttl=100ms')
    peer:expect_answer('LOCK a wait=300ms', 'ERR busy the lock was held for all of the time')
    holder:expect_answer('CHECK a ' .. token, 'OK')
    holder:close()
    assert(wait.poll(function() return #locks() == 0 or locks()[1].lapses end))
    assert.is_true(lock(peer, 'a wait=10s') > token)
    assert.matches('^ERR lease%-lost', peer:request('CHECK a ' .. token))
    peer:close()
  end)

  it('can be taken back after a reconnect, by its token alone', function()
    local holder = broker:connect()
    local token = lock(holder, 'a ttl=1h')
    holder:close()
    assert(wait.poll(function() return locks()[1].lapses end))
    local peer = broker:connect()
    assert.equal('ERR busy lock \'a\' is held until it lapses: its holder has gone', peer:request 'LOCK a')
    assert.equal(lost('a', token), peer:request 'LOCK a token=1':match '^(.-),')
    assert.equal(token, lock(peer, 'a token=' .. token))
    assert.is_nil(locks()[1].lapses)
    assert.equal(3600000, locks()[1].ttl_ms)
    assert.equal(token, lock(peer, 'a ttl=30s token=' .. token))
    assert.equal(30000, locks()[1].ttl_ms)
    peer:ok('UNLOCK a ' .. token)
    assert.matches('^ERR lease%-lost lock \'a\' is free', peer:request('LOCK a token=' .. token))
    peer:close()
  end)

  it('is freed when the killed connection\'s time is over', function()
    local holder = broker:connect()
    lock(holder, 'a ttl=100ms')
    c:ok('KILL connection ' .. locks()[1].connection)
    lock(c, 'a wait=10s')
    holder:close()
  end)

  it('is refused with what is wrong', function()
    assert.matches('^ERR syntax .*100ms', c:request 'LOCK a ttl=1ms')
    assert.matches('^ERR syntax ', c:request 'LOCK')
    assert.matches('^ERR syntax .*the token of a LOCK', c:request 'UNLOCK a 1x')
    assert.matches('^ERR syntax .*the token of a LOCK', c:request 'CHECK a xyz')
    assert.matches('^ERR syntax .*the token of a LOCK', c:request 'LOCK a token=')
    assert.matches('^ERR too%-long ', c:request('LOCK ' .. ('x'):rep(256)))
    lock(c, ('x'):rep(255))
  end)

  it('is in Redis while it is held, and only then', function()
    local function stored()
      return broker:redis_cli('HGETALL', ('{tide}:%s:locks'):format(broker.vhost))
    end
    local token = lock(c, 'a ttl=5s')
    assert.equal(('a\n%d 5000'):format(token), stored())
    c:ok('UNLOCK a ' .. token)
    assert.equal('', stored())
  end)

  for name, kill in pairs { ['kill -9 of the broker'] = 'kill9', ['kill -9 of broker and Redis'] = 'kill9_all' } do
    it('outlives ' .. name .. ' for its ttl', function()
      local token = lock(c, 'kept ttl=1h')
      lock(c, 'short ttl=100ms')
      broker[kill](broker)
      c:close()
      broker:run()
      c = broker:connect()
      assert.equal('ERR busy lock \'kept\' is held until it lapses: its holder has gone', c:request 'LOCK kept')
      assert.is_true(lock(c, 'short wait=10s') > token)
      assert.equal(token, lock(c, 'kept token=' .. token))
      c:ok('UNLOCK kept ' .. token)
      assert.is_true(lock(c, 'kept') > token)
    end)
  end

  it('outlives kill -9 of Redis, and who waits for it is answered then', function()
    local token = lock(c, 'a')
    local peer = broker:connect()
    peer:send 'LOCK a wait=1h\r\n'
    waiting(1)
    broker:kill9_redis()
    c:ok('UNLOCK a ' .. token)
    assert.is_true(math.tointeger(peer:expect '^OK (%d+)$') > token)
    peer:close()
  end)

  it('that Redis does not take is held by nobody', function()
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
    assert.matches('^ERR store .*OOM', c:request 'LOCK a')
    broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
    assert.same({}, locks())
    lock(c, 'a')
  end)

  it('has never two holders, whatever they do', function()
    local holders, latest = 0, 0
    local peers = {}
    for i = 1, 8 do peers[i] = broker:connect() end
    for round = 1, 40 do
      local i = 1 + round * 5 % 8
      local token = lock(peers[i], 'a wait=30s ttl=100ms')
      assert.is_true(token > latest)
      latest, holders = token, holders + 1
      for k, peer in ipairs(peers) do
        if k ~= i then assert.matches('^ERR busy', peer:request 'LOCK a') end
      end
      if round % 3 == 0 then
        peers[i]:close()
        peers[i] = broker:connect()
      else
        peers[i]:ok('UNLOCK a ' .. token)
      end
    end
    assert.equal(40, holders)
    for _, peer in ipairs(peers) do peer:close() end
  end)

  describe('that is shared', function()
    it('has many holders, each with a token of its own, and no exclusive one', function()
      local peer = broker:connect()
      local one, two = lock(c, 'a shared'), lock(peer, 'a shared')
      assert.is_true(two > one)
      assert.matches("^ERR busy lock 'a' is shared by 2 holders", peer:request 'LOCK a')
      c:expect_answer('CHECK a ' .. one, 'OK')
      c:expect_answer('CHECK a ' .. two, 'OK')
      assert.matches("^ERR lease%-lost lock 'a' is shared by 2 holders, none with token 1", c:request 'CHECK a 1')
      local l = locks()[1]
      assert.same({ 2, 2, 0, one, two }, { l.shared, #l.holders, l.waiting, l.holders[1].token, l.holders[2].token })
      assert.is_truthy(l.holders[1].connection)
      c:ok('UNLOCK a ' .. one)
      assert.matches('^ERR busy', c:request 'LOCK a')
      assert.matches("^ERR exists this channel shares lock 'a', with token " .. two, peer:request 'LOCK a wait=1h')
      peer:ok('UNLOCK a ' .. two)
      local alone = lock(c, 'a')
      assert.is_nil(locks()[1].shared)
      assert.equal("ERR busy lock 'a' is held", peer:request 'LOCK a shared')
      c:ok('UNLOCK a ' .. alone)
      peer:close()
    end)

    it('is not given to more readers while a writer waits, who are next', function()
      local writer, reader, last = broker:connect(), broker:connect(), broker:connect()
      local token = lock(c, 'a shared')
      writer:send 'LOCK a wait=1h\r\n'
      waiting(1)
      assert.matches('^ERR busy', reader:request 'LOCK a shared')
      reader:send 'LOCK a shared wait=1h\r\n'
      waiting(2)
      last:send 'LOCK a shared wait=1h\r\n'
      waiting(3)
      c:ok('UNLOCK a ' .. token)
      token = writer:expect '^OK (%d+)$'
      assert.equal(2, locks()[1].waiting)
      writer:ok('UNLOCK a ' .. token)
      reader:expect '^OK %d+$'
      last:expect '^OK %d+$'
      assert.equal(2, locks()[1].shared)
      for _, peer in ipairs { writer, reader, last } do peer:close() end
    end)

    it('is given to the readers behind a writer who waits no more', function()
      local writer, reader = broker:connect(), broker:connect()
      lock(c, 'a shared')
      writer:send 'LOCK a wait=1h\r\n'
      waiting(1)
      reader:send 'LOCK a shared wait=1h\r\n'
      waiting(2)
      writer:close()
      reader:expect '^OK %d+$'
      local other = broker:connect()
      other:send 'LOCK a wait=20ms\r\n'
      other:expect '^ERR busy the lock was held for all of the time$'
      lock(other, 'a shared')
      assert.equal(3, locks()[1].shared)
      other:close()
      reader:close()
    end)

    it('lapses for each holder that has gone, and is taken back by its token', function()
      local short, long = broker:connect(), broker:connect()
      lock(short, 'a shared ttl=100ms')
      local token = lock(long, 'a shared ttl=1h')
      short:close()
      long:close()
      assert(wait.poll(function() return locks()[1].shared == 1 and locks()[1].holders[1].lapses end))
      assert.matches('^ERR busy', c:request 'LOCK a')
      assert.equal(token, lock(c, 'a token=' .. token))
      assert.is_truthy(locks()[1].holders[1].connection)
      c:ok('UNLOCK a ' .. token)
      assert.same({}, locks())
    end)

    for name, kill in pairs { ['kill -9 of the broker'] = 'kill9', ['kill -9 of broker and Redis'] = 'kill9_all' } do
      it('outlives ' .. name, function()
        local peer = broker:connect()
        local one, two = lock(c, 'kept shared ttl=1h'), lock(peer, 'kept shared ttl=1h')
        assert.equal(('%d 3600000'):format(two), broker:redis_cli('HGET', ('{tide}:%s:locks'):format(broker.vhost),
          'kept ' .. two))
        broker[kill](broker)
        c:close()
        peer:close()
        broker:run()
        c = broker:connect()
        assert.equal(2, locks()[1].shared)
        assert.matches('^ERR busy', c:request 'LOCK kept')
        assert.equal(one, lock(c, 'kept token=' .. one))
        c:ok('UNLOCK kept ' .. one)
        c:ok('UNLOCK kept ' .. two)
        assert.is_true(lock(c, 'kept') > two)
        assert.equal('1', broker:redis_cli('HLEN', ('{tide}:%s:locks'):format(broker.vhost)))
      end)
    end

    it('that Redis does not take is held by nobody', function()
      lock(c, 'a shared')
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1')
      assert.matches('^ERR store .*OOM', c:request 'LOCK a shared')
      broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0')
      assert.equal(1, locks()[1].shared)
    end)

    it('never has a writer beside a reader, whatever they do', function()
      local peers, held = {}, {}
      for i = 1, 8 do peers[i] = broker:connect() end
      for round = 1, 200 do
        local i = 1 + round * 5 % 8
        local wants = round % 3 == 0 and 'LOCK a' or 'LOCK a shared'
        local readers, writers = 0, 0
        for _, h in pairs(held) do
          if h.shared then readers = readers + 1 else writers = writers + 1 end
        end
        if held[i] then
          peers[i]:ok('UNLOCK a ' .. held[i].token)
          held[i] = nil
        else
          local token = peers[i]:request(wants):match '^OK (%d+)$'
          local may = writers == 0 and (wants == 'LOCK a shared' or readers == 0)
          assert.equal(may, token ~= nil, wants)
          held[i] = token and { token = token, shared = wants == 'LOCK a shared' }
        end
      end
      for _, peer in ipairs(peers) do peer:close() end
    end)
  end)

  it('ends its waits when the broker stops', function()
    local own = Broker.start { args = { '--fsync', 'no' } }
    local holder, peer = own:connect(), own:connect()
    lock(holder, 'a')
    peer:send 'LOCK a wait=1h\r\n'
    assert(wait.poll(function() return holder:document 'LIST locks'[1].waiting == 1 end))
    own:signal 'TERM'
    peer:expect_line 'ERR shutdown the broker is stopping'
    peer:expect '^EVT closed shutdown'
    own:expect_clean_stop()
  end)

  it('is one of at most --max-locks', function()
    local own = Broker.start { args = { '--store', 'none', '--max-locks', '2' } }
    local peer = own:connect()
    lock(peer, 'a')
    local token = lock(peer, 'b')
    peer:expect_answer('LOCK c', 'ERR limit the limit of 2 locks is reached')
    peer:ok('UNLOCK b ' .. token)
    lock(peer, 'c')
    own:expect_clean_stop()
  end)

  describe('on the command line', function()
    local function tide(words)
      return shell.run(('%s lock --url %s %s 2>&1'):format(Broker.binary(), shell.quote(broker:url()), words))
    end

    it('guards a command, and ends with its status', function()
      local output, status = tide [[job -- sh -c 'echo token $TIDEMQ_LOCK_TOKEN; exit 7']]
      assert.matches('^token %d+\n$', output)
      assert.equal(7, status)
      assert.same({}, locks())
    end)

    it('shares it', function()
      local token = lock(c, 'job shared')
      local output, status = tide [[job --shared --wait 0 -- sh -c 'echo $TIDEMQ_LOCK_TOKEN']]
      assert.equal(0, status, output)
      assert.is_true(math.tointeger(output) > token)
      assert.equal(1, (select(2, tide 'job --wait 0 -- true')))
    end)

    it('fails when the lock is held', function()
      lock(c, 'job')
      local output, status = tide 'job --wait 0 -- true'
      assert.matches('lock \'job\' is held', output)
      assert.equal(1, status)
    end)

    it('says what it cannot run, and holds nothing', function()
      local output, status = tide 'job -- /no/such/program'
      assert.matches('cannot run /no/such/program', output)
      assert.equal(1, status)
      assert.same({}, locks())
    end)

    it('takes the lock back when its connection is cut', function()
      local pipe = io.popen(('%s lock --url %s job -- sh -c \'read line; echo done\' 2>&1; echo status $?'):format(
        Broker.binary(), shell.quote(broker:url())), 'w')
      assert(wait.poll(function() return locks()[1] and locks()[1].connection end))
      local token, connection = locks()[1].token, locks()[1].connection
      c:ok('KILL connection ' .. connection)
      assert(wait.poll(function()
        local l = locks()[1]
        return l.connection and l.connection ~= connection
      end))
      assert.equal(token, locks()[1].token)
      pipe:write 'go\n'
      pipe:close()
      assert(wait.poll(function() return #locks() == 0 end))
    end)
  end)
end)
