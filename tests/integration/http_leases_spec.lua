-- Messages that are given out over HTTP: whoever has the receipt settles them, on any
-- connection of the same user.
local Broker = require 'support.broker'
local Http = require 'support.http'
local users = require 'support.users'
local wait = require 'support.wait'

local ALL = { configure = '.*', write = '.*', read = '.*' }
local QUEUES = '/api/vhosts/%2F/queues/'

describe('a GET over HTTP', function()
  local broker, http, c
  local queue, number = nil, 0

  setup(function()
    broker = Broker.start { redis = {}, http = '127.0.0.1:0', stopped = true }
    users.restore(broker.redis, {
      root = { tags = { 'admin' }, vhosts = { ['/'] = ALL, shop = ALL } },
      bob = { vhosts = { ['/'] = ALL } },
    })
    broker:run()
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function connect(user) return Http.connect(broker, { user = user, password = users.password }) end

  before_each(function()
    if not broker:is_running() then broker:run() end
    http, c = connect 'root', users.connect(broker, 'root')
    number = number + 1
    queue = 'q' .. number
    c:ok('DECLARE queue ' .. queue)
  end)
  after_each(function()
    http:close()
    c:close()
  end)

  local function publish(...)
    c:publish(queue, ...)
  end
  local function path(what) return QUEUES .. queue .. '/' .. what end
  local function get(options, h) return (h or http):expect(200, 'POST', path 'get', options or {}).messages end
  local function states()
    local s = c:stats(queue)
    return { s.ready, s.delayed, s.unacked, s.buried }
  end
  local function wait_states(...)
    local wanted = { ... }
    assert(wait.poll(function() return table.concat(states(), ' ') == table.concat(wanted, ' ') end),
      table.concat(states(), ' '))
  end

  it('gives messages with receipts, which another connection settles', function()
    c:ok('PUB - ' .. queue .. ' h:tenant=acme pri=3', 'one')
    publish 'two'
    local messages = get { max = 10 }
    assert.equal(2, #messages)
    assert.same({ 'one', queue, '-', 3, 1, false, { tenant = 'acme' }, 3 }, {
      messages[1].payload, messages[1].key, messages[1].exchange, messages[1].priority, messages[1].attempt,
      messages[1].redelivered, messages[1].headers, messages[1].size,
    })
    http:close()
    http = connect 'root'
    wait_states(0, 0, 2, 0)
    assert.same({ count = 2 }, http:expect(200, 'POST', path 'ack',
      { receipts = { messages[1].receipt, messages[2].receipt } }))
    wait_states(0, 0, 0, 0)
  end)

  it('gives bytes that are no text as base64', function()
    publish '\xff\0'
    assert.equal('/wA=', get()[1].payload_base64)
  end)

  it('needs no receipts with ack=auto', function()
    publish 'one'
    local messages = get { ack = 'auto' }
    assert.is_nil(messages[1].receipt)
    wait_states(0, 0, 0, 0)
  end)

  it('is answered with nothing when nothing is there, and when the wait is over', function()
    assert.same({}, get())
    assert.same({}, get { wait = '20ms' })
  end)

  it('waits for a message', function()
    http:send('POST', path 'get', { wait = '60s' })
    wait.poll(function() return #c:document 'LIST consumers' == 1 end)
    publish 'late'
    assert.equal('late', http:answer().json.messages[1].payload)
  end)

  it('waits on one connection while another one settles', function()
    publish 'one'
    local receipt = get()[1].receipt
    http:send('POST', path 'get', { wait = '60s' })
    wait.poll(function() return #c:document 'LIST consumers' == 1 end)
    local other = connect 'root'
    other:expect(200, 'POST', path 'ack', { receipts = { receipt } })
    other:close()
    wait_states(0, 0, 0, 0)
    publish 'two'
    assert.equal('two', http:answer().json.messages[1].payload)
  end)

  for what, leave in pairs {
    ['closes its connection'] = function(h) h:close() end,
    ['ends its side of it'] = function(h) h.client:shutdown() end,
    ['is killed'] = function(h)
      for _, row in ipairs(c:document 'LIST connections') do
        if row.protocol == 'http' and row.pending > 0 then c:ok('KILL connection ' .. row.connection) end
      end
      h.client:expect_closed()
    end,
  } do
    it('takes nothing for a client that ' .. what .. ' while it waits', function()
      local waiting = connect 'root'
      waiting:send('POST', path 'get', { wait = '60s' })
      assert(wait.poll(function() return #c:document 'LIST consumers' == 1 end))
      leave(waiting)
      assert(wait.poll(function() return #c:document 'LIST consumers' == 0 end))
      publish 'for somebody else'
      local messages = get()
      assert.same({ 1, false }, { messages[1].attempt, messages[1].redelivered })
    end)
  end

  it('leaves messages that the client has not settled in time to others', function()
    publish 'one'
    local receipt = get { ['ack-timeout'] = '20ms' }[1].receipt
    assert(wait.poll(function() return states()[1] == 1 end))
    local second = get()[1]
    assert.equal(2, second.attempt)
    local why = http:expect_error(410, 'lease-lost', 'POST', path 'ack', { receipts = { receipt } })
    assert.equal('a receipt is no longer good: its message was settled or timed out, or its queue was '
      .. 'deleted; nothing was settled', why)
    http:request('POST', path 'ack', { receipts = { second.receipt } })
  end)

  it('takes a late ack of what is back in the queue', function()
    publish 'one'
    local receipt = get { ['ack-timeout'] = '20ms' }[1].receipt
    assert(wait.poll(function() return states()[1] == 1 end))
    http:request('POST', path 'ack', { receipts = { receipt } })
    assert.same({ 0, 0 }, { states()[1], states()[2] })
  end)

  it('keeps a message longer by touch', function()
    publish 'one'
    local receipt = get { ['ack-timeout'] = '500ms' }[1].receipt
    http:expect(200, 'POST', path 'touch', { receipts = { receipt }, ['for'] = '1h' })
    local until_ms = c:document('PEEK ' .. queue .. ' state=unacked').messages[1].holder['until']
    assert.is_true(until_ms - os.time() * 1000 > 1000000)
  end)

  it('gives messages back in each way that NACK knows', function()
    for body, wanted in pairs {
      [{ requeue = true }] = { 1, 0, 0, 0 }, [{ delay = '1h' }] = { 0, 1, 0, 0 }, [{ bury = true }] = { 0, 0, 0, 1 },
      [{ dead = true }] = { 0, 0, 0, 1 }, [{}] = { 1, 0, 0, 0 },
    } do
      publish 'one'
      body.receipts = { get()[1].receipt }
      http:expect(200, 'POST', path 'nack', body)
      wait_states(table.unpack(wanted))
      c:ok('PURGE ' .. queue)
      c:request('KICK ' .. queue)
      c:ok('PURGE ' .. queue)
      c:ok('DELETE queue ' .. queue)
      c:ok('DECLARE queue ' .. queue)
    end
    publish 'one'
    local receipt = get()[1].receipt
    assert.matches('only one of', http:expect_error(400, 'syntax', 'POST', path 'nack',
      { receipts = { receipt }, dead = true, delay = 1 }))
  end)

  it('has receipts that others cannot use', function()
    publish 'one'
    local receipt = get()[1].receipt
    local other = connect 'bob'
    other:expect_error(410, 'lease-lost', 'POST', path 'ack', { receipts = { receipt } })
    http:expect(200, 'PUT', '/api/vhosts/shop/queues/' .. queue, {})
    http:expect_error(410, 'lease-lost', 'POST', '/api/vhosts/shop/queues/' .. queue .. '/ack',
      { receipts = { receipt } })
    wait_states(0, 0, 1, 0)
    -- Nor do they guess that of another message.
    local session, tag, signature = receipt:match '^(%d+)%.(%d+)%.(%x+)$'
    http:expect_error(410, 'lease-lost', 'POST', path 'ack',
      { receipts = { ('%s.%d.%s'):format(session, tag + 1, signature) } })
    other:close()
  end)

  it('settles all receipts of a request, or none', function()
    publish('one', 'two')
    local messages = get { max = 2 }
    local one, two = messages[1].receipt, messages[2].receipt
    http:expect(200, 'POST', path 'ack', { receipts = { one } })
    http:expect_error(410, 'lease-lost', 'POST', path 'ack', { receipts = { two, one } })
    wait_states(0, 0, 1, 0)
    assert.matches('no receipt', http:expect_error(400, 'syntax', 'POST', path 'ack', { receipts = { two, 'x' } }))
    assert.matches('array of 1 to 1000', http:expect_error(400, 'syntax', 'POST', path 'ack', { receipts = {} }))
    assert.matches('array of 1 to 1000', http:expect_error(400, 'syntax', 'POST', path 'ack', { receipts = two }))
    assert.matches('array of strings', http:expect_error(400, 'syntax', 'POST', path 'ack', { receipts = { 1 } }))
  end)

  it('holds messages as a session that LIST connections shows, until its user is deleted', function()
    c:ok 'USER add carol pass=secret'
    c:ok 'USER grant carol / read=.*'
    publish 'one'
    local carol = connect 'carol'
    get({}, carol)
    local function holders()
      local list = {}
      for _, connection in ipairs(c:document 'LIST connections') do
        if connection.user == 'carol' and connection.protocol == 'http leases' then list[#list + 1] = connection end
      end
      return list
    end
    assert.equal(1, #holders())
    c:ok 'USER delete carol'
    assert(wait.poll(function() return #holders() == 0 end))
    wait_states(1, 0, 0, 0)
    carol:close()
  end)

  it('returns what a user may no longer read', function()
    c:ok 'USER add dave pass=secret'
    c:ok 'USER grant dave / read=.*'
    publish 'one'
    local dave = connect 'dave'
    get({}, dave)
    wait_states(0, 0, 1, 0)
    c:ok 'USER revoke dave /'
    wait_states(1, 0, 0, 0)
    dave:close()
  end)

  it('returns its messages when an operator ends the session that holds them', function()
    publish 'one'
    local receipt = get()[1].receipt
    http:expect(200, 'DELETE', '/api/connections/' .. receipt:match '^%d+')
    wait_states(1, 0, 0, 0)
    http:expect_error(410, 'lease-lost', 'POST', path 'ack', { receipts = { receipt } })
    assert.equal(1, #get())
  end)

  it('loses its receipts with the broker, and no message', function()
    publish 'one'
    local receipt = get()[1].receipt
    http:close()
    broker:restart()
    http = connect 'root'
    c = users.connect(broker, 'root')
    http:expect_error(410, 'lease-lost', 'POST', path 'ack', { receipts = { receipt } })
    assert.equal('one', get()[1].payload)
  end)

  it('that waits is answered when the broker stops', function()
    publish 'held'
    get()
    http:send('POST', path 'get', { wait = '60s' })
    assert(wait.poll(function() return #c:document 'LIST consumers' == 1 end))
    broker:signal 'TERM'
    assert.same({}, http:answer().json.messages)
    assert(wait.poll(function() return broker:exit_status() end))
    assert.equal(0, broker:exit_status())
    broker:run()
    http, c = connect 'root', users.connect(broker, 'root')
    assert.equal('held', get()[1].payload)
  end)

  it('reads a topic as a member of a group', function()
    c:ok('DECLARE topic t' .. number .. ' partitions=1')
    c:ok('PUB - t' .. number, 'first')
    local topic = '/api/vhosts/%2F/topics/t' .. number
    local m = http:expect(200, 'POST', topic .. '/get', { group = 'g' }).messages[1]
    assert.same({ 'first', 0, 0 }, { m.payload, m.partition, m.offset })
    http:expect(200, 'POST', topic .. '/ack', { receipts = { m.receipt } })
    assert(wait.poll(function() return c:document('LIST groups')[1].lag == 0 end))
    m = http:expect(200, 'POST', topic .. '/get', { partition = 0, offset = 'first', ack = 'auto' }).messages[1]
    assert.is_nil(m.receipt)
  end)

  it('gives no more than fits into an answer', function()
    local large = ('x'):rep(9 << 20)
    publish(large, large)
    assert.equal(1, #get { max = 2 })
    wait_states(1, 0, 1, 0)
    assert.equal(1, get()[1].attempt)
  end)
end)
