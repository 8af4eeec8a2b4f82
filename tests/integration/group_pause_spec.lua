-- PAUSE group and RESUME group: a group of a topic that gets nothing.
local Broker = require 'support.broker'
local Http = require 'support.http'
local topics = require 'support.topics'
local wait = require 'support.wait'

local sub, expect_payloads = topics.sub, topics.expect_payloads

describe('a paused group of a topic', function()
  local broker, c

  setup(function() broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function publish(...) topics.publish(c, ...) end
  local function group(name) return topics.group(c, name or 'g') end

  --- The group exists: it has read a message.
  local function begin(options)
    topics.declare(c, options)
    publish 'first'
    assert.equal('first', c:get('t group=g ack=auto')[1].payload)
  end

  --- A message may come before the answer.
  local function resume() c:send 'RESUME group t g quiet\r\n' end

  local function pauses()
    return broker:redis_cli('HGETALL', ('{tide}:%s:pauses'):format(broker.vhost))
  end

  for _, durable in ipairs { 0, 1 } do
    describe('durable=' .. durable .. ',', function()
      before_each(function() begin('partitions=1 durable=' .. durable) end)

      it('gives nothing to its members, and what there is when it is resumed', function()
        sub(c, 's group=g')
        c:ok 'SUB t other from=last ack=auto'
        c:ok 'PAUSE group t g'
        publish 'a'
        expect_payloads(c, 'a')
        assert.equal('a', c:get('t group=h from=1 ack=auto')[1].payload)
        assert.is_true(group().paused)
        assert.is_false(group('h').paused)
        assert.equal(1, c:stats('t').groups[1].lag)
        resume()
        assert.equal('a', c:expect_msg().payload)
        assert.is_false(group().paused)
      end)

      it('has GETs that wait, or are answered with nothing', function()
        c:ok 'PAUSE group t g'
        publish('a', 'b')
        c:expect_answer('GET t group=g', 'OK 0')
        local waiting = broker:connect()
          waiting:send 'GET t group=g wait=1h max=2\r\n'
        assert(wait.poll(function() return group().gets == 1 end))
        assert.equal(2, group().lag)
        c:ok 'RESUME group t g'
        waiting:expect_line 'OK 2'
        waiting:close()
      end)

      it('has a new member wait, and a failed message', function()
        c:ok 'PAUSE group t g'
        publish('a', 'b')
        sub(c, 's group=g prefetch=1')
        resume()
        local a = expect_payloads(c, 'a')
        c:ok 'PAUSE group t g'
        c:ok(('NACK %s'):format(a.tag))
        assert.equal(2, group().lag)
        resume()
        assert.equal('a', c:expect_msg().payload)
      end)

      it('is resumed when its time is over', function()
        sub(c, 's group=g')
        c:ok 'PAUSE group t g for=50ms'
        publish 'a'
        assert.equal('a', c:expect_msg().payload)
        assert.is_false(group().paused)
        c:ok 'PAUSE group t g for=1h'
        assert.is_number(group().paused_until)
        c:ok 'PAUSE group t g'
        assert.is_nil(group().paused_until)
      end)
    end)
  end

  it('keeps what its members hold', function()
    begin()
    publish('a', 'b')
    sub(c, 's group=g prefetch=1')
    local a = expect_payloads(c, 'a')
    c:ok 'PAUSE group t g'
    c:ok(('ACK %s'):format(a.tag))
    assert(wait.poll(function() return group().lag == 1 end))
    resume()
    expect_payloads(c, 'b')
  end)

  it('is paused after a kill, also if it has committed nothing, until its end', function()
    topics.declare(c)
    for _, name in ipairs { 'never', 'brief', 'resumed' } do
      c:ok(('SUB t %s group=%s'):format(name, name))
      c:expect '^EVT assigned'
      c:ok('UNSUB ' .. name)
    end
    c:ok 'PAUSE group t never'
    c:ok 'PAUSE group t brief for=1ms'
    c:ok 'PAUSE group t resumed'
    c:ok 'RESUME group t resumed'
    publish 'a'
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.is_true(group('never').paused)
    c:expect_answer('GET t group=never', 'OK 0')
    assert.equal('a', c:get('t group=brief')[1].payload)
    assert.equal('a', c:get('t group=resumed')[1].payload)
    c:ok 'RESUME group t never'
    assert.equal('a', c:get('t group=never')[1].payload)
  end)

  it('is forgotten with the group, and with the topic', function()
    begin()
    c:ok 'DECLARE queue t2'
    c:ok 'PAUSE t2 in'
    c:ok 'PAUSE group t g'
    assert.matches('group t g\n0', pauses())
    c:ok 'DELETE group t g'
    assert(wait.poll(function() return not pauses():find('group', 1, true) end))
    publish 'b'
    assert.equal('first', c:get('t group=g')[1].payload)
    c:ok 'PAUSE group t g'
    c:ok 'DELETE topic t'
    assert(wait.poll(function() return not pauses():find('group', 1, true) end))
    assert.matches('in t2', pauses())
  end)

  it('is told from a queue that has the name group', function()
    c:ok 'DECLARE queue group'
    c:ok 'PAUSE group out'
    assert.equal('out', c:stats('group').paused)
    c:ok 'RESUME group'
    assert.equal('no', c:stats('group').paused)
  end)

  it('is paused over HTTP and by the command line', function()
    begin()
    local path = ('/api/vhosts/%s/topics/t/groups/g/'):format(broker.vhost)
    local http = Http.connect(broker)
    http:expect(200, 'POST', path .. 'pause', { ['for'] = '1h' })
    assert.is_number(group().paused_until)
    http:expect(200, 'POST', path .. 'resume')
    assert.is_false(group().paused)
    assert.equal(0, select(2, broker:cli('pause', 'group', 't', 'g')))
    assert.is_true(group().paused)
    assert.matches('yes\n$', (broker:cli('list', 'groups')))
    assert.equal(0, select(2, broker:cli('resume', 'group', 't', 'g')))
    assert.is_false(group().paused)
  end)

  it('refuses what makes no sense', function()
    begin()
    c:expect_answer('PAUSE group t x', "ERR not-found topic 't' has no group 'x'")
    c:expect_answer('PAUSE group u g', ("ERR not-found there is no topic 'u' in vhost '%s'"):format(broker.vhost))
    c:ok 'DECLARE queue q'
    assert.matches("^ERR .*'q' is a queue", c:request 'PAUSE group q g')
    assert.matches('^ERR syntax for=0: expected a duration', c:request 'PAUSE group t g for=0')
    assert.matches("^ERR .*'t' is a topic", c:request 'PAUSE t out')
  end)
end)
