-- Definitions and messages lie in different slots, so what depends on their order is asked one behind the other.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local Proxy = require 'chaos.support.proxy'
local Redis = require 'support.redis'
local wait = require 'support.wait'

describe('definitions and messages', function()
  local redis, proxy, broker, c

  setup(function()
    redis = Redis.start {}
    proxy = Proxy.start(redis)
    broker = Broker.start { args = { '--store', proxy.url } }
    c = broker:connect()
  end)

  teardown(function()
    broker:expect_clean_stop()
    proxy:destroy()
    redis:destroy()
  end)

  before_each(function() proxy:delay(0) end)

  --- At one moment: does the hash have the field, is the key there?
  local function look(hash, field, key)
    return redis:cli('EVAL', "return redis.call('HEXISTS', KEYS[1], ARGV[1]) .. redis.call('EXISTS', KEYS[2])", 2,
      hash, key, field)
  end

  local function expect_messages_later(hash, field, key)
    assert.equal('10', assert(wait.poll(function()
      local found = look(hash, field, key)
      return found ~= '00' and found
    end)))
  end

  it('messages are stored when Redis has confirmed their queue', function()
    proxy:delay(2000)
    c:send 'DECLARE queue jobs\r\nPUB - jobs 1\r\na\r\n'
    expect_messages_later('{tide}:/:queues', 'jobs', 'tide:{//jobs#0}:msg')
    c:expect '^OK'
    c:expect '^OK %x+ 1$'
    assert.equal('11', look('{tide}:/:queues', 'jobs', 'tide:{//jobs#0}:msg'))
  end)

  it('messages are stored when Redis has confirmed their topic, those of a transaction too', function()
    proxy:delay(2000)
    c:send 'DECLARE topic log partitions=1\r\nBEGIN\r\nPUB - log 1\r\na\r\nCOMMIT\r\nPUB - log 1\r\nb\r\n'
    expect_messages_later('{tide}:/:topic-options', 'log', 'tide:{//log#0}:log')
    for _ = 1, 5 do c:expect '^OK' end
    assert.equal('11', look('{tide}:/:topic-options', 'log', 'tide:{//log#0}:log'))
  end)

  it('a queue that is declared while it is erased has none of the old messages, and keeps the new ones', function()
    for _ = 1, 3 do c:ok('PUB - jobs', 'old') end
    c:send(('DELETE queue jobs\r\nDECLARE queue jobs\r\nPUB - jobs 3\r\nnew\r\n' ..
      'DELETE queue jobs\r\nDECLARE queue jobs shards=2\r\nPUB - jobs 3\r\nend\r\n'))
    c:expect '^OK$'
    c:expect '^OK$'
    c:expect '.' -- the queue may be deleted before it is stored
    c:expect '^OK$'
    c:expect '^OK$'
    c:expect '^OK %x+ 1$'
    assert.equal('0', redis:cli('EXISTS', '{tide}:erasing'))
    broker:kill9()
    broker:run()
    c = broker:connect()
    assert.equal(1, c:stats('jobs').ready)
    assert.equal('shards=2', redis:cli('HGET', '{tide}:/:queues', 'jobs'):match 'shards=2')
  end)

  it('a deletion goes behind what is on its way, and is answered when nothing is left', function()
    c:send 'PUB - jobs 1\r\na\r\nDELETE queue jobs\r\nDELETE topic log\r\n'
    c:expect '.'
    c:expect '^OK$'
    c:expect '^OK$'
    assert.equal('', redis:cli('KEYS', 'tide:{*'))
    assert.equal('0', redis:cli('EXISTS', '{tide}:erasing'))
  end)

  it('a deletion goes on after a lost connection and after a kill, at each of its commands', function()
    for n = 1, 4 do
      for _, when in ipairs { 'before', 'after' } do
        for _, kill in ipairs { false, true } do
          c:ok 'DECLARE queue gone shards=2'
          c:ok('PUB - gone', 'a')
          c:ok('PUB - gone', 'b')
          proxy:arm(n, when, 'cut', kill and 'kill -9 ' .. broker:pid() or nil)
          c:send 'DELETE queue gone\r\n'
          if kill then
            c:expect_closed()
            assert(wait.poll(function() return not broker:is_running() end))
            broker:run()
            c = broker:connect()
          else
            c:expect '^OK$'
          end
          proxy:disarm()
          local left = redis:cli('KEYS', 'tide:*gone*')
          local is_there = redis:cli('HEXISTS', '{tide}:/:queues', 'gone') == '1'
          -- Before its first command nothing has happened.
          assert.equal(kill and n == 1 and when == 'before', is_there)
          assert.equal(is_there, left ~= '', left)
          assert.equal('0', redis:cli('EXISTS', '{tide}:erasing'))
          if is_there then c:ok 'DELETE queue gone' end
        end
      end
    end
  end)
end)

describe('in a Redis Cluster', function()
  local cluster, broker

  setup(function()
    cluster = Cluster.start { masters = 3, replicas = 0 }
    broker = Broker.start { args = { '--store', cluster.url } }
  end)

  teardown(function()
    broker:destroy()
    cluster:close()
  end)

  local function ask(...) return cluster:command(...) end
  local function count_keys() return #cluster:keys 'tide:{//*' end

  local function fill()
    local c = broker:connect()
    c:ok 'DECLARE queue jobs shards=8 sharding=round_robin'
    c:ok 'DECLARE topic log partitions=8 sharding=round_robin'
    for _ = 1, 8 do
      c:ok('PUB - jobs', 'x')
      c:ok('PUB - log', 'x')
    end
    assert.is_true(count_keys() > 16)
    return c
  end

  it('a deletion reaches the shards of all masters', function()
    local c = fill()
    c:ok 'DELETE queue jobs'
    c:ok 'DELETE topic log'
    assert.equal(0, count_keys())
    assert.equal(0, tonumber(ask('EXISTS', '{tide}:erasing')))
  end)

  it('a start finishes it', function()
    fill()
    broker:kill9()
    ask('HDEL', '{tide}:/:queues', 'jobs')
    ask('HDEL', '{tide}:/:topic-options', 'log')
    ask('HSET', '{tide}:erasing', 'queue //jobs', 8, 'topic //log', 8)
    broker:run()
    assert.equal(0, count_keys())
    assert.equal(0, tonumber(ask('EXISTS', '{tide}:erasing')))
  end)

  it('a store of layout 1 is refused: it is migrated as a single Redis', function()
    broker:expect_clean_stop()
    ask('SADD', 'tide:vhosts', '/')
    broker = Broker.start { args = { '--store', cluster.url }, stopped = true }
    broker:launch()
    assert.equal(1, broker:wait_ready())
    broker:expect_log 'written by an older version: start a broker on it once, as a single Redis'
  end)
end)
