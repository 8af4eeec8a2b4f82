-- Layout 1 of the keys in Redis: a start renames them, once and as a whole, and older brokers stay out.
local Broker = require 'support.broker'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local users = require 'support.users'
local wait = require 'support.wait'

--- All keys but those of shards, as layout 1 named them.
local BACK = [[
  redis.call('DEL', 'tide:holder', 'tide:ids', '{tide}:cluster')
  for _, key in ipairs(redis.call('KEYS', '{tide}:*')) do
    redis.call('RENAME', key, 'tide:' .. string.sub(key, 8))
  end
  return redis.call('DBSIZE')]]

local HASH_OF_ALL = [[
  local out = {}
  for _, key in ipairs(redis.call('KEYS', '*')) do
    if not string.find(key, 'holder$') and not string.find(key, ':ids$') then
      out[#out + 1] = key .. ' ' .. redis.sha1hex(redis.call('DUMP', key))
    end
  end
  table.sort(out)
  return table.concat(out, '\n')]]

describe('a store of layout 1', function()
  local redis, before

  local function serve(url, options)
    options = options or {}
    options.args = { '--store', url or redis.url }
    return Broker.start(options)
  end

  --- Something of each table, and messages in each state.
  local function fill()
    local broker = serve()
    local c = broker:connect()
    for _, vhost in ipairs { 'shop', 'rules', '{a' } do redis:cli('SADD', '{tide}:vhosts', vhost) end
    c:ok 'DECLARE queue jobs shards=2 dedupe=1h'
    c:ok 'DECLARE queue a:queues'
    c:ok 'DECLARE exchange orders topic'
    c:ok 'BIND jobs orders a.*'
    c:ok 'PAUSE a:queues in'
    c:ok 'DECLARE topic events partitions=2'
    c:ok 'DECLARE topic b/c#0}:msg partitions=1'
    c:ok('PUB - jobs id=once', 'x')
    c:ok('PUB orders a.b', 'y')
    c:ok('PUB - jobs delay=1h', 'z')
    c:ok('PUB - jobs ttl=1h', 'z')
    c:ok('PUB - events', 'e')
    c:ok 'LOCK lease ttl=1h'
    c:send 'GET jobs\r\n'
    broker:expect_clean_stop()
    redis:cli('SADD', '{tide}:vhosts', 'shop', 'rules', '{a')
    redis:cli('HSET', '{tide}:shop:queues', 'q', 'durable=1')
    redis:cli('HSET', '{tide}:rules:queues', 'q', 'durable=1')
    redis:cli('HSET', '{tide}:{a:queues', 'q', 'durable=1')
    redis:cli('HSET', 'tide:{{a/q#0}:size', 'before', '0 0')
    redis:cli('HSET', '{tide}:rules:shared', 'k:n', '0 n1', 'c:picks', '0 i2')
    redis:cli('HSET', '{tide}:rules:schedule', 'gone', '1790000000000')
    redis:cli('EVAL', BACK, 0)
    redis:cli('BGREWRITEAOF')
  end

  before_each(function()
    redis = Redis.start {}
    fill()
    before = redis:cli('EVAL', HASH_OF_ALL, 0)
    assert.matches('\ntide:/:topic:b/c#0}:msg ', before)
  end)

  after_each(function() redis:destroy() end)

  --- All is there, and nothing else.
  local function expect_layout_2()
    assert.equal('2', redis:cli('HGET', '{tide}:cluster', 'layout'))
    assert.equal('layout 2', redis:cli('GET', 'tide:ids'))
    assert.equal('layout 2', redis:cli('GET', 'tide:holder'))
    assert.equal('', (redis:cli('KEYS', 'tide:[^{]*'):gsub('tide:ids', ''):gsub('tide:holder', ''):gsub('%s', '')))
  end

  it('is renamed by a start, with all that it has', function()
    local broker = serve(nil, { stopped = true })
    broker:launch()
    assert.is_true(broker:wait_ready())
    broker:expect_log 'written by an older version, which cannot use it any more: %d+ keys have other names now'
    expect_layout_2()
    local c = broker:connect()
    assert.equal(3, c:stats('jobs').ready)
    assert.equal(1, c:stats('jobs').delayed)
    c:send 'PUB - jobs id=once 1\r\nx\r\n'
    c:expect 'duplicate'
    c:ok('PUB orders a.b', 'y')
    assert.equal(4, c:stats('jobs').ready)
    c:send 'PUB - a:queues 1\r\nx\r\n'
    c:expect '^ERR .*paused'
    c:send 'LOCK lease ttl=1h\r\n'
    c:expect '^ERR '
    assert.equal(3, #c:document 'LIST vhosts' - 1)
    assert.equal(1, c:document('STATS events').messages)
    broker:expect_clean_stop()
    local text, status = shell.run(('%s check-store --store %s 2>&1'):format(shell.quote(Broker.binary()),
      shell.quote(redis.url)))
    assert.equal(0, status, text)
    -- A second start finds nothing to rename.
    broker = serve()
    assert.is_nil(broker:log():find 'older version')
    broker:expect_clean_stop()
  end)

  it('is renamed whole or not at all, whatever ends at the script', function()
    local function start_at(n, when, run)
      local proxy = Proxy.start(redis)
      if n then proxy:arm(n, when, 'cut', run and run()) else proxy:trace() end
      local broker = serve(proxy.url, { may_fail = true })
      if broker then broker:kill9() end
      local at
      for i, line in ipairs(n and {} or proxy:trace()) do
        if line:find('local TABLES', 1, true) then at = i end
      end
      proxy:destroy()
      return at
    end
    local n = assert(start_at())
    expect_layout_2()
    local count = redis:cli 'DBSIZE'
    for _, when in ipairs { 'before', 'after' } do
      for _, kills_redis in ipairs { false, true } do
        redis:cli('EVAL', BACK, 0)
        start_at(n, when, kills_redis and function() return 'kill -9 ' .. redis:pid() end)
        if kills_redis then redis:run() end
        local is_new = redis:cli('EXISTS', '{tide}:cluster') == '1'
        if not kills_redis then assert.equal(when == 'after', is_new) end
        if is_new then expect_layout_2() else assert.equal('0', redis:cli('EXISTS', '{tide}:vhosts')) end
        local broker = serve()
        expect_layout_2()
        assert.equal(3, broker:connect():stats('jobs').ready)
        broker:kill9()
        assert.equal(count, redis:cli 'DBSIZE')
      end
    end
  end)

  it('is not taken from an older broker that lives, and from one that has ended', function()
    -- What an older broker shows of itself: the record, and a connection with its name that is used.
    redis:cli('HSET', 'tide:holder', 'incarnation', 'older', 'pid', 1, 'node', 0, 'host', 'elsewhere', 'boot', 'x')
    local loop = 'echo $$; exec redis-cli -s %s -r 100000 -i 0.2 CLIENT SETNAME tidemq:older >/dev/null 2>&1'
    local older = assert(io.popen(loop:format(shell.quote(redis.path)), 'r'))
    local pid = older:read 'l'
    assert(wait.poll(function() return redis:cli('CLIENT', 'LIST'):find 'tidemq:older' end))
    local _, why = serve(nil, { may_fail = true })
    assert.matches('another broker holds this store: node 0, pid 1 on elsewhere', why)
    assert.equal('0', redis:cli('EXISTS', '{tide}:cluster'))
    assert.equal('older', redis:cli('HGET', 'tide:holder', 'incarnation'))
    local standby = serve(nil, { stopped = true })
    standby.options.args[#standby.options.args + 1] = '--standby'
    standby:launch()
    standby:expect_log 'standing by'
    redis:cli('HDEL', 'tide:holder', 'pid')
    assert(os.execute('kill ' .. pid))
    assert.is_true(standby:wait_ready())
    expect_layout_2()
    standby:expect_clean_stop()
    older:close()
  end)

  it('does not let an older broker in afterwards', function()
    serve():expect_clean_stop()
    -- The commands by which one looks who holds the store, takes it, and reads the mark of ids.
    for _, words in ipairs { { 'HGETALL', 'tide:holder' }, { 'HSET', 'tide:holder', 'incarnation', 'x' },
      { 'HGETALL', 'tide:ids' } } do
      assert.matches('^%(?e?r?r?o?r?%)? ?WRONGTYPE', redis:cli(table.unpack(words)))
    end
  end)

  it('is left alone where both names of a key are there', function()
    redis:cli('SADD', '{tide}:vhosts', 'x')
    local _, why = serve(nil, { may_fail = true })
    assert.matches('cannot rename the keys of an older version: .*both tide:vhosts and {tide}:vhosts', why)
    redis:cli('DEL', '{tide}:vhosts')
    assert.equal(before, redis:cli('EVAL', HASH_OF_ALL, 0))
  end)

  it('is left alone by check-store, which says what to do', function()
    for _, option in ipairs { '', ' --repair' } do
      local text, status = shell.run(('%s check-store --store %s%s 2>&1'):format(shell.quote(Broker.binary()),
        shell.quote(redis.url), option))
      assert.equal(1, status)
      assert.matches('written by an older version: start a broker on it once', text)
    end
    assert.equal(before, redis:cli('EVAL', HASH_OF_ALL, 0))
  end)

  it('may have vhosts that a new one cannot be called', function()
    redis:cli('SADD', 'tide:vhosts', '}x')
    redis:cli('HSET', 'tide:}x:queues', 'q', 'durable=1')
    local broker = serve()
    broker:expect_log "vhost '}x' has a '}' in its name, which a Redis Cluster cannot keep"
    assert.is_nil(broker:log():find "vhost '{a' has")
    local c = broker:connect()
    c:document 'HELLO vhost=}x'
    c:ok('PUB - q', 'x')
    broker:expect_clean_stop()
  end)

  it('is renamed while memory is out', function()
    redis:cli('CONFIG', 'SET', 'maxmemory', '1')
    local broker = serve()
    expect_layout_2()
    assert.equal(3, broker:connect():stats('jobs').ready)
    redis:cli('CONFIG', 'SET', 'maxmemory', '0')
    broker:expect_clean_stop()
  end)
end)

it('users of layout 1 are those of layout 2', function()
  local redis = Redis.start {}
  users.restore(redis, { root = { tags = { 'admin' } } })
  redis:cli('RENAME', '{tide}:users', 'tide:users')
  local broker = Broker.start { args = { '--store', redis.url } }
  local c = broker:connect()
  c:send 'DECLARE queue jobs\r\n'
  c:expect '^ERR '
  assert.equal('1', redis:cli('HEXISTS', '{tide}:users', 'root'))
  broker:expect_clean_stop()
  redis:destroy()
end)
