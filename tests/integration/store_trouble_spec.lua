-- Redis that is connected and refuses something, or does not answer: who is told what, and that it goes on by itself.
local Broker = require 'support.broker'
local Http = require 'support.http'
local wait = require 'support.wait'

describe('a Redis', function()
  local broker, redis, http, c

  after_each(function() broker:destroy() end)

  local function start(...)
    broker = Broker.start { redis = { ... }, http = '127.0.0.1:0' }
    redis = broker.redis
    http = Http.connect(broker)
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE topic events partitions=1'
  end

  local function becomes(probe)
    assert(wait.poll(probe), http:get('/health/ready').body .. broker:log())
  end

  local function metric(kind)
    return http:get('/metrics').body:match('tidemq_store_trouble{kind="' .. kind .. '"} (%d)')
  end

  --- Everybody is told, before anybody has published.
  local function expect_trouble(kind, state, sentence)
    broker:expect_log('error store: Redis at %S+: ' .. sentence)
    local health = http:get '/health/ready'
    assert.equal(503, health.status)
    assert.equal('store', health.json.reasons[1].code)
    assert.matches('^' .. sentence .. '$', health.json.reasons[1].text)
    local stats = c:document 'STATS'
    assert.equal(state, stats.store.state)
    assert.matches('^' .. sentence .. '$', stats.store.trouble)
    assert.same(health.json.reasons, stats.health.reasons)
    assert.equal('1', metric(kind))
  end

  local function expect_over(kind)
    broker:expect_log('info  store: Redis at %S+: the trouble that was logged %d+ ms ago is over: ' .. kind)
    becomes(function()
      local answer = http:get '/health/ready'
      return answer.status == 200 and #answer.json.warnings == 0
    end)
    local store = c:document('STATS').store
    assert.same({ 'up', '' }, { store.state, store.trouble })
    assert.equal('0', metric(kind))
  end

  local refusals = {
    memory = { 'OOM', 'Redis is out of memory and refuses writes: raise its maxmemory, or consume what is stored',
      { 'CONFIG', 'SET', 'maxmemory', '1' }, { 'CONFIG', 'SET', 'maxmemory', '0' } },
    readonly = { 'READONLY', 'Redis is a replica and refuses writes: promote it %(REPLICAOF NO ONE%), or start the '
      .. 'broker with the %-%-store of the primary', { 'REPLICAOF', '127.0.0.1', '1' }, { 'REPLICAOF', 'NO', 'ONE' } },
    denied = { 'NOPERM', 'Redis does not permit the broker what it needs: give its user the permissions of '
      .. 'docs/redis.md %(ACL SETUSER%)', { 'ACL', 'SETUSER', 'default', '-@write' },
      { 'ACL', 'SETUSER', 'default', '+@all' } },
  }

  --- Publishes are refused, and what is stored can be worked off by then.
  local function expect_refusals(word)
    assert.matches('^ERR store ' .. word, c:request('PUB - jobs', 'refused'))
    assert.matches('^ERR store ' .. word, c:request('PUB - events', 'refused'))
  end

  local function expect_messages()
    c:ok('PUB - jobs', 'b')
    c:ok('PUB - events', 'b')
    broker:restart_after 'kill9'
    c = broker:connect()
    assert.equal('b', c:get('jobs max=9 ack=auto')[1].payload)
    local texts = {}
    for i, msg in ipairs(c:get 'events partition=0 offset=0 max=9') do texts[i] = msg.payload end
    assert.same({ 'a', 'b' }, texts)
  end

  for kind, refusal in pairs(refusals) do
    local word, sentence, break_it, mend_it = table.unpack(refusal)

    it('that refuses writes with ' .. word .. ' is told of though nobody publishes', function()
      start()
      c:ok('PUB - jobs', 'a')
      c:ok('PUB - events', 'a')
      c:ok 'GET jobs'
      local held = c:expect_msg()
      assert.equal('OK', redis:cli(table.unpack(break_it)))
      expect_trouble(kind, 'refusing', sentence)
      expect_refusals(word)
      c:send('ACK ' .. held.tag .. '\r\n')
      -- Its words once, and the sentence once: not for each request.
      local _, count = broker:log():gsub('error store:', '')
      assert.equal(1, count)
      assert.equal('OK', redis:cli(table.unpack(mend_it)))
      assert.equal('OK 1', c:read_line(30))
      expect_over(kind)
      expect_messages()
    end)
  end

  it('that cannot save is told of', function()
    start()
    assert(os.execute('mkdir ' .. redis.dir .. '/dump.rdb'))
    redis:cli('CONFIG', 'SET', 'save', '900 1')
    redis:cli 'BGSAVE'
    expect_trouble('disk', 'refusing',
      'Redis cannot write to its disk and refuses writes: make room there, and see the log of Redis')
    expect_refusals 'MISCONF'
    assert(os.execute('rmdir ' .. redis.dir .. '/dump.rdb'))
    redis:cli 'BGSAVE'
    expect_over 'disk'
  end)

  it('that does not answer is told of before the connection is given up', function()
    start()
    local pid = redis:pid()
    redis:signal('STOP', pid)
    local other = broker:connect()
    other:send 'PUB - jobs 1\r\na\r\n'
    expect_trouble('silent', 'silent', 'Redis is connected and does not answer: see whether it is stopped, runs a '
      .. 'long command, or waits for its disk')
    assert.matches('tidemq_store_up 0', http:get('/metrics').body)
    redis:signal('CONT', pid)
    other:expect '^OK %x+ 1$'
    expect_over 'silent'
    assert.is_nil(broker:log():find('lost Redis', 1, true))
  end)

  it('that comes back and cannot be used is told of', function()
    start()
    redis:cli('REPLICAOF', '127.0.0.1', '1')
    redis:cli('CLIENT', 'KILL', 'TYPE', 'normal')
    local why = 'this Redis is a replica and does not accept writes'
    broker:expect_log('error store: Redis at %S+: ' .. why .. '; trying again')
    -- At each try nothing is known for a moment.
    becomes(function()
      local reasons = http:get('/health/ready').json.reasons
      return reasons[1] and reasons[#reasons].text == 'Redis cannot be used now: ' .. why
    end)
    becomes(function()
      local store = c:document('STATS').store
      return store.state == 'down' and store.trouble == why
    end)
    redis:cli('REPLICAOF', 'NO', 'ONE')
    broker:expect_log 'is back after'
    c:ok('PUB - jobs', 'a')
    becomes(function() return http:get('/health/ready').status == 200 end)
  end)

  local READY, LOG = 'tide:{//jobs#0}:ready', 'tide:{//events#0}:log'

  local function expect_wrong_key(key, is, should)
    local sentence = ("the key '%s' in Redis is a %s and has to be a %s, so something else has written it: RENAME "
      .. 'it, and run tidemq check-store when the broker has stopped'):format(key, is, should)
    becomes(function() return broker:log():find(sentence, 1, true) end)
    local store = c:document('STATS').store
    assert.same({ 'up', sentence }, { store.state, store.trouble })
    local health = http:get '/health/ready'
    assert.equal(200, health.status)
    assert.equal('store', health.json.warnings[1].code)
    -- Whoever asks without a login sees no names.
    assert.is_nil(health.body:find('jobs', 1, true))
    assert.matches('the log names the key', health.json.warnings[1].text)
    assert.equal('1', metric 'type')
    return sentence
  end

  it('with a key of another type names the key, and an ack waits until it is right', function()
    start()
    c:ok('PUB - jobs', 'a')
    c:ok 'GET jobs'
    redis:cli('RENAME', READY, 'ready')
    redis:cli('SET', READY, 'x')
    local other = c
    other:send('ACK ' .. c:expect_msg().tag .. '\r\n')
    c = broker:connect()
    expect_wrong_key(READY, 'string', 'sorted set')
    redis:cli('RENAME', 'ready', READY)
    assert.equal('OK 1', other:read_line(30))
    expect_over 'type'
    assert.equal('0', redis:cli('EXISTS', READY, 'tide:{//jobs#0}:msg', 'tide:{//jobs#0}:unack'))
  end)

  it('with a key of another type names the one of a topic', function()
    start()
    c:ok('PUB - events', 'a')
    redis:cli('RENAME', LOG, 'log')
    redis:cli('LPUSH', LOG, 'x')
    -- The next day, or the first of a batch that is larger, is written there.
    c:request('PUB - events', ('x'):rep(200000))
    expect_wrong_key(LOG, 'list', 'hash')
    redis:cli('RENAME', 'log', LOG)
    expect_over 'type'
  end)

  it('with a key of another type is named by a start that fails', function()
    start()
    c:ok('PUB - jobs', 'a')
    broker:expect_clean_stop()
    for _, key in ipairs { READY, '{tide}:/:queues', '{tide}:rules:shared' } do
      local had = redis:cli('EXISTS', key) == '1'
      if had then redis:cli('RENAME', key, 'kept') end
      redis:cli('SET', key, 'x')
      local before = #broker:log()
      broker:launch()
      assert.equal(1, wait.poll(function() return broker:exit_status() end, 60))
      local line = broker:log():sub(before + 1):match '\ntidemq: ([^\n]*)'
      assert.is_truthy(line and line:find(("the key '%s' in Redis is a string and has to be a "):format(key), 1, true),
        broker:log():sub(before + 1))
      redis:cli('DEL', key)
      if had then redis:cli('RENAME', 'kept', key) end
    end
    broker:run()
    c = broker:connect()
    assert.equal('a', c:get('jobs ack=auto')[1].payload)
  end)
end)
