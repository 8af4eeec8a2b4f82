-- What happens in the broker, as messages of the exchange $events: core/broker/event.h.
local Broker = require 'support.broker'
local json = require 'dkjson'
local Http = require 'support.http'
local users = require 'support.users'

describe('the exchange $events', function()
  local broker, c, listener

  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' }, http = '127.0.0.1:0' } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    listener = broker:connect()
    listener:ok 'DECLARE queue heard exclusive'
  end)
  after_each(function()
    if c then c:close() end
    c = nil
    listener:close()
  end)

  -- A client in a vhost of its own, that is there already.
  local function enter(name)
    local client = broker:connect()
    client:enter_vhost(name, 'name=worker')
    return client
  end
  local function hear(...)
    for _, pattern in ipairs { ... } do listener:ok('BIND heard $events ' .. pattern) end
  end
  -- The next event, as an object, without its time.
  local function next_event()
    local m = listener:get('heard wait=10s ack=auto')[1]
    assert(m, 'no event came')
    local event = json.decode(m.payload)
    assert.equal('$events', m.exchange)
    assert.equal(m.key, event.event)
    assert.is_true(math.type(event.time_ms) == 'integer')
    for name, value in pairs(event) do
      if name ~= 'event' and name ~= 'time_ms' then assert.equal(tostring(value), m.headers[name]) end
    end
    event.time_ms = nil
    return event
  end
  -- Nothing has come but what was read: the events of a turn leave in it, or in the next.
  local marks = 0
  local function no_more()
    marks = marks + 1
    hear 'vhost.declared'
    listener:ok('DECLARE vhost mark-' .. marks)
    assert.same({ event = 'vhost.declared', vhost = 'mark-' .. marks }, next_event())
  end

  it('tells what is declared, changed and deleted, in all vhosts', function()
    hear('queue.#', 'topic.#', 'exchange.#', 'binding.#', 'vhost.#')
    c = enter 'first'
    local function expect(name, fields)
      fields.event, fields.vhost = name, 'first'
      assert.same(fields, next_event())
    end
    expect('vhost.declared', {})
    c:ok 'DECLARE queue q'
    expect('queue.declared', { queue = 'q' })
    c:ok 'DECLARE queue q ttl=1m update'
    local changed = next_event()
    assert.equal('queue.changed', changed.event)
    assert.matches('^ttl=1m', changed.changes)
    c:ok 'DECLARE topic t'
    expect('topic.declared', { topic = 't' })
    c:ok 'DECLARE exchange x topic'
    expect('exchange.declared', { exchange = 'x' })
    local binding = { exchange = 'x', to = 'queue', destination = 'q', pattern = 'a.*' }
    c:ok 'BIND q x a.*'
    expect('binding.declared', binding)
    c:ok 'BIND q x a.*'
    c:ok 'PAUSE q in'
    expect('queue.paused', { queue = 'q', direction = 'in' })
    c:ok 'PAUSE q in'
    c:ok 'RESUME q in'
    expect('queue.resumed', { queue = 'q', direction = 'in' })
    c:ok 'DELETE queue q'
    expect('binding.deleted', binding)
    expect('queue.deleted', { queue = 'q' })
    c:ok('DELETE topic t')
    expect('topic.deleted', { topic = 't' })
    c:ok 'DELETE exchange x'
    expect('exchange.deleted', { exchange = 'x' })
    no_more()
  end)

  it('tells a queue that is full once, and when it takes messages again', function()
    hear('queue.full', 'queue.open')
    c = enter 'full'
    c:ok 'DECLARE queue q max-length=1'
    c:publish('q', 'a')
    for _ = 1, 3 do
      assert.matches('^ERR full', c:request('PUB - q', 'b'))
    end
    local event = next_event()
    assert.equal('queue.full q', event.event .. ' ' .. event.queue)
    assert.matches('max%-length=1', event.reason)
    assert.equal(1, #c:get 'q ack=auto')
    c:publish('q', 'c')
    assert.equal('queue.open', next_event().event)
    no_more()
  end)

  it('tells connections and consumers that come and go', function()
    c = enter 'come'
    hear('connection.#', 'consumer.#')
    c:ok 'DECLARE queue q'
    c:ok 'SUB q s1'
    local consumer = next_event()
    assert.same({ event = 'consumer.started', vhost = 'come', queue = 'q', connection = consumer.connection,
      consumer = 's1' }, consumer)
    assert.is_true(math.type(consumer.connection) == 'integer')
    c:ok 'UNSUB s1'
    consumer.event = 'consumer.ended'
    assert.same(consumer, next_event())
    local peer = broker:connect()
    peer:document 'HELLO name=peer vhost=/'
    local opened = next_event()
    assert.same({ 'connection.opened', '/', 'peer', 'line' },
      { opened.event, opened.vhost, opened.name, opened.protocol })
    peer:ok 'PING'
    assert.is_truthy(opened.address)
    peer:close()
    opened.event = 'connection.closed'
    assert.same(opened, next_event())
    local http = Http.connect(broker)
    assert.equal(200, http:get('/api/vhosts/%2F/queues').status)
    assert.equal(200, http:get('/api/vhosts/%2F/queues').status)
    assert.equal('connection.opened http', ('%s %s'):format('connection.opened', next_event().protocol))
    http.client:close()
    assert.equal('connection.closed', next_event().event)
    no_more()
  end)

  it('tells rules, and alarms that begin and end', function()
    hear('rules.#', 'alarm.#')
    broker:write_rule('filter/broken.lua', 'return {')
    local refused = next_event()
    assert.equal('rules.refused', refused.event)
    assert.matches('filter/broken.lua', refused.reason)
    local alarm = next_event()
    assert.equal('alarm.began rules', alarm.event .. ' ' .. alarm.code)
    assert.matches('the rules that were loaded last were refused', alarm.reason)
    broker:write_rule('filter/broken.lua', 'return { match = {}, publish = function() end }')
    local activated = next_event()
    assert.equal('rules.activated', activated.event)
    assert.equal(listener:document 'RULES status'.hash, activated.generation)
    assert.same({ event = 'alarm.ended', code = 'rules' }, next_event())
    no_more()
  end)

  it('is for the broker alone, in the default vhost alone, and no part of itself', function()
    hear('exchange.#', 'binding.#', 'consumer.#')
    assert.matches("^ERR denied exchange '$events' is internal", listener:request('PUB $events queue.deleted', 'x'))
    assert.matches('^ERR denied .* cannot be deleted', listener:request 'DELETE exchange $events')
    c = enter 'other'
    assert.matches('^ERR not%-found', c:request 'BIND q $events queue.*')
    c:ok 'DECLARE exchange $events fanout'
    assert.equal('exchange.declared other', (function(e) return e.event .. ' ' .. e.vhost end)(next_event()))
    c:ok 'DELETE exchange $events'
    assert.equal('exchange.deleted', next_event().event)
    no_more()
  end)

  it('counts what nobody has bound a queue for as nothing', function()
    hear 'nothing.ever'
    c = enter 'nothing'
    local before = listener:document 'STATS'.counters.unroutable
    c:ok 'DECLARE queue q'
    hear 'queue.declared'
    c:ok 'DECLARE queue r'
    assert.equal('r', next_event().queue)
    assert.equal(before, listener:document 'STATS'.counters.unroutable)
  end)

  it('does not hear itself: a full queue of events makes no event', function()
    listener:ok 'DECLARE queue small max-length=1'
    listener:ok 'BIND small $events vhost.#'
    hear('queue.full', 'queue.open')
    for i = 1, 3 do listener:ok('DECLARE vhost small-' .. i) end
    no_more()
    listener:ok 'DELETE queue small'
  end)

  it('goes on with the next broker, which tells that it has started', function()
    listener:ok 'DECLARE queue kept'
    listener:ok 'BIND kept $events #'
    listener:close()
    broker:kill9()
    broker:run()
    listener = broker:connect()
    local started = listener:get('kept wait=10s max=1 ack=auto')[1]
    while started.key ~= 'broker.started' do started = listener:get('kept wait=10s max=1 ack=auto')[1] end
    assert.equal('0', started.headers.node)
    listener:ok 'DELETE queue kept'
    listener:ok 'DECLARE queue heard exclusive'
  end)
end)

describe('the exchange $events of a broker with users', function()
  it('tells changes of users and refused logins, to those who may read it', function()
    local broker = users.start {
      boss = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
      worker = { vhosts = { ['/'] = { configure = '.*', write = '.*', read = '^[^$].*' } } },
    }
    finally(function() broker:destroy() end)
    local boss, worker = users.connect(broker, 'boss'), users.connect(broker, 'worker')
    worker:ok 'DECLARE queue w'
    assert.matches('^ERR denied', worker:request 'BIND w $events #')
    boss:ok 'DECLARE queue heard'
    boss:ok 'BIND heard $events user.*'
    boss:ok 'BIND heard $events login.*'
    local function next_event()
      local event = json.decode(boss:get('heard wait=10s ack=auto')[1].payload)
      return ('%s %s'):format(event.event, event.user), event
    end
    boss:ok 'USER add eve pass=secret'
    local what, event = next_event()
    assert.equal('user.declared eve', what)
    assert.matches("of user 'boss'", event.by)
    boss:ok 'USER passwd eve pass=another'
    assert.equal('user.changed eve', (next_event()))
    local peer = users.stranger(broker)
    assert.matches('^ERR denied', peer:request 'HELLO user=eve pass=wrong')
    what, event = next_event()
    assert.equal('login.refused eve', what)
    assert.is_truthy(event.reason and event.address)
    boss:ok 'USER delete eve'
    assert.equal('user.deleted eve', (next_event()))
  end)
end)
