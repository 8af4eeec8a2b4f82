-- Alternate and internal exchanges, and what no queue takes.
local Broker = require 'support.broker'
local Client = require 'support.client'

describe('an exchange', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function declare(...)
    for _, words in ipairs { ... } do c:ok('DECLARE ' .. words) end
  end
  local function payloads(queue) return Client.payload_text(c:get(queue .. ' max=100 ack=auto')) end
  local function visited(exchange, key)
    local names = {}
    for i, x in ipairs(c:document(('EXPLAIN %s %s'):format(exchange, key)).exchanges) do
      names[i] = x.exchange .. (x.alternate_of and '<' .. x.alternate_of or '')
    end
    return table.concat(names, ' ')
  end
  local function publish(exchange, key, payload)
    return tonumber(c:ok(('PUB %s %s'):format(exchange, key), payload):match ' (%d+)$')
  end

  describe('with an alternate', function()
    it('passes on what none of its bindings match', function()
      declare('exchange lost fanout', 'exchange orders topic alternate=lost', 'queue eu', 'queue rest')
      c:ok 'BIND eu orders orders.eu.#'
      c:ok 'BIND rest lost -'
      assert.equal(1, publish('orders', 'orders.eu.new', 'a'))
      assert.equal(1, publish('orders', 'orders.us.new', 'b'))
      -- From the cache, too.
      assert.equal(1, publish('orders', 'orders.us.new', 'c'))
      assert.match('^OK %x+ 1$', c:request('PUB orders nothing must', 'd'))
      assert.equal('a', payloads 'eu')
      local messages = c:get 'rest max=10 ack=auto'
      assert.equal(3, #messages)
      assert.equal('orders', messages[1].exchange)
      assert.equal('orders.us.new', messages[1].key)
      assert.equal('orders', visited('orders', 'orders.eu.x'))
      assert.equal('orders lost<orders', visited('orders', 'orders.us.x'))
      assert.equal('orders lost<orders', visited('orders', 'orders.us.new'))
    end)

    it('passes on along a chain, and a circle of alternates ends', function()
      declare('exchange a direct alternate=b', 'exchange b direct alternate=c', 'exchange c direct alternate=a')
      declare('queue q')
      assert.equal(0, publish('a', 'k', 'x'))
      assert.equal('a b<a c<b', visited('a', 'k'))
      assert.match("^ERR unroutable no queue takes key 'k' from exchange 'a'", c:request('PUB a k must', 'x'))
      c:ok 'BIND q c k'
      assert.equal(1, publish('a', 'k', 'x'))
      assert.equal(1, publish('b', 'k', 'y'))
      assert.equal('x y', payloads 'q')
    end)

    it('is reached by a binding, and passes on what leads nowhere there', function()
      declare('exchange top fanout', 'exchange sub topic alternate=lost', 'exchange lost fanout', 'queue audit',
        'queue rest', 'queue eu')
      c:ok 'BIND audit top -'
      c:ok 'BIND sub top - dest=exchange'
      c:ok 'BIND eu sub eu'
      c:ok 'BIND rest lost -'
      assert.equal(2, publish('top', 'eu', 'a'))
      assert.equal(2, publish('top', 'us', 'b'))
      assert.equal('a b', payloads 'audit')
      assert.equal('a', payloads 'eu')
      assert.equal('b', payloads 'rest')
    end)

    it('passes on what its bindings lead to exchanges alone that no queue is bound to', function()
      declare('exchange top fanout alternate=lost', 'exchange sub topic', 'exchange lost fanout', 'queue rest')
      c:ok 'BIND sub top - dest=exchange'
      c:ok 'BIND rest lost -'
      assert.equal(1, publish('top', 'k', 'a'))
      assert.equal('top sub lost<top', visited('top', 'k'))
      assert.equal('a', payloads 'rest')
    end)

    it('is followed 32 times at most by one publish', function()
      for i = 1, 34 do c:ok(('DECLARE exchange x%d direct alternate=x%d'):format(i, i + 1)) end
      declare('exchange x35 fanout', 'queue q')
      c:ok 'BIND q x35 -'
      assert.equal(0, publish('x1', 'k', 'a'))
      assert.equal(0, publish('x2', 'k', 'b'))
      assert.equal(1, publish('x3', 'k', 'c'))
      assert.equal('c', payloads 'q')
    end)

    it('is told when it does not exist, and drops until it does', function()
      assert.equal("warning alternate=later: there is no exchange 'later'; until it is declared, what no queue "
        .. 'takes is dropped', c:ok 'DECLARE exchange x direct alternate=later')
      declare 'queue q'
      assert.equal(0, publish('x', 'k', 'a'))
      declare 'exchange later fanout'
      c:ok 'BIND q later -'
      assert.equal(1, publish('x', 'k', 'b'))
      c:ok 'DELETE exchange later'
      assert.equal(0, publish('x', 'k', 'c'))
      assert.equal('b', payloads 'q')
    end)

    it('has it compared, listed and checked', function()
      declare('exchange b fanout', 'exchange a direct alternate=b internal')
      declare 'exchange a direct internal=1 alternate=b'
      c:expect_answer('DECLARE exchange a direct internal', "ERR mismatch exchange 'a' exists with other options: "
        .. 'it has alternate=b, not alternate=(none); the option update changes that')
      c:expect_answer('DECLARE exchange a direct alternate=b', "ERR mismatch exchange 'a' exists with other "
        .. 'options: it has internal=1, not internal=0; the option update changes that')
      c:expect_answer('DECLARE exchange b fanout alternate=a', "ERR mismatch exchange 'b' exists with other "
        .. 'options: it has alternate=(none), not alternate=a; the option update changes that')
      for _, bad in ipairs { '-', '', 'a%20b' } do
        assert.match('^ERR syntax alternate=.*: expected the name of an exchange other than the default one$',
          c:request('DECLARE exchange c fanout alternate=' .. bad))
      end
      c:expect_answer('DECLARE exchange c fanout internal=2', 'ERR syntax internal=2: expected 0 or 1')
      local a, b = table.unpack(c:document 'LIST exchanges')
      assert.same({ 'a', { internal = '1', alternate = 'b' } }, { a.name, a.options })
      assert.same({ 'b', {} }, { b.name, b.options })
    end)

    it('is where dead letters go that no queue takes', function()
      declare('exchange graves direct alternate=rest', 'exchange rest fanout', 'queue all',
        'queue q dead-letter=graves')
      c:ok 'BIND all rest -'
      c:ok('PUB - q', 'a')
      c:ok(('NACK %s dead'):format(c:get('q')[1].tag))
      assert.equal('a', c:get('all wait=20s')[1].payload)
    end)
  end)

  describe('that is internal', function()
    it('is published to by no client', function()
      declare('exchange hidden fanout internal', 'exchange open fanout', 'queue q', 'queue dying dead-letter=hidden')
      c:ok 'BIND q hidden -'
      c:ok 'BIND hidden open - dest=exchange'
      local denied = "ERR denied exchange 'hidden' is internal: bindings, alternates, dead letters and rules lead to "
        .. 'it, no publish does'
      for _ = 1, 2 do assert.equal(denied, c:request('PUB hidden k', 'x')) end
      c:expect_answer('EXPLAIN hidden k', denied)
      assert.equal(1, publish('open', 'k', 'a'))
      assert.equal(denied, c:request('PUB hidden k', 'x'))
      c:ok('PUB - dying', 'b')
      c:ok(('NACK %s dead'):format(c:get('dying')[1].tag))
      assert.equal('a', c:get('q')[1].payload)
      assert.equal('b', c:get('q wait=20s')[1].payload)
      -- Between its line and its payload the exchange may become another one.
      declare('exchange swap fanout')
      c:send 'PUB swap k 3\r\nab'
      local other = broker:connect()
      other:ok 'DELETE exchange swap'
      other:ok 'DECLARE exchange swap fanout internal'
      c:send 'c\r\n'
      c:expect "^ERR denied exchange 'swap' is internal"
    end)
  end)

  it('counts what no queue takes, with a sample of the keys', function()
    declare('exchange orders topic', 'exchange others fanout', 'queue eu')
    c:ok 'BIND eu orders eu'
    publish('orders', 'eu', 'x')
    assert.same({ exchange = 'orders', type = 'topic', durable = true, auto_delete = false, bindings = 1, published = 1,
      unroutable = 0, unroutable_keys = {}, script = 'routing/topic.lua', options = {} },
      c:document 'STATS exchange orders')
    for i = 1, 20 do publish('orders', 'k' .. i, 'x') end
    for _ = 1, 5 do publish('orders', 'often', 'x') end
    assert.match('^ERR unroutable', c:request('PUB orders k20 must', 'x'))
    publish('-', 'no-such-queue', 'x')
    publish('-', '-', 'x')
    local s = c:document 'STATS exchange orders'
    assert.equal(26, s.unroutable)
    local shown = {}
    for i, k in ipairs(s.unroutable_keys) do
      shown[i] = ('%s=%d'):format(k.key, k.count)
      assert.is_true(k.last_ms > 1500000000000)
    end
    assert.equal('k20=2 often=5 k19=1 k18=1 k17=1 k16=1 k15=1 k14=1', table.concat(shown, ' '))
    local default = c:document 'STATS exchange -'
    assert.same({ '-', 2, '', 'no-such-queue' }, { default.exchange, default.unroutable,
      default.unroutable_keys[1].key, default.unroutable_keys[2].key })
    for _, x in ipairs(c:document 'LIST exchanges') do
      assert.equal(x.name == 'orders' and 26 or 0, x.unroutable)
    end
    assert.is_true(c:document('STATS').unroutable >= 28)
    -- What is asked, not done, does not count.
    c:document 'EXPLAIN orders nowhere'
    assert.equal(26, c:document('STATS exchange orders').unroutable)
    c:expect_answer('STATS exchange none',
      "ERR not-found there is no exchange 'none' in vhost '" .. broker.vhost .. "'")
    c:expect_answer('STATS queue none', "ERR not-found there is no queue 'none' in vhost '" .. broker.vhost .. "'")
    c:expect_answer('STATS teapot orders', "ERR syntax 'teapot': expected exchange, queue or topic before a name")
    c:expect_answer('STATS topic orders',
      "ERR not-found there is no topic 'orders' in vhost '" .. broker.vhost .. "'")
    c:expect_answer('STATS topic eu', "ERR denied 'eu' is a queue: this request takes a topic")
    assert.equal('eu', c:document('STATS queue eu').queue)
    c:ok 'DECLARE topic seen'
    assert.equal('seen', c:document('STATS topic seen').topic)
    c:expect_answer('STATS queue seen', "ERR denied 'seen' is a topic: this request takes a queue")
    local shell_output = broker:cli('stats', 'exchange', 'orders')
    assert.match('unroutable%s+26', shell_output)
    assert.match('often', shell_output)
  end)
end)

describe('alternate and internal', function()
  it('survive kill -9 of broker and Redis', function()
    local broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE exchange %25b fanout internal'
    c:ok 'DECLARE exchange a direct alternate=%25%2525b'
    c:ok 'DELETE exchange a'
    c:ok 'DECLARE exchange a direct alternate=%2525b'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q %25b -'
    local before = c:document 'LIST exchanges'
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    assert.same(before, c:document 'LIST exchanges')
    assert.equal('%25b', c:document('LIST exchanges')[2].options.alternate)
    assert.match('^OK %x+ 1$', c:request('PUB a k must', 'x'))
    assert.match('^ERR denied', c:request('PUB %25b k', 'x'))
    c:ok 'DECLARE exchange a direct alternate=%2525b'
    broker:expect_clean_stop()
  end)
end)
