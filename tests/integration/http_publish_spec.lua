-- Publishing over HTTP, one message or many in a request.
local Broker = require 'support.broker'
local Http = require 'support.http'
local wait = require 'support.wait'

describe('a publish over HTTP', function()
  local broker, http, c

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0' }
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)
  before_each(function()
    http, c = Http.connect(broker), broker:connect()
    for _, line in ipairs { 'DECLARE queue q', 'DECLARE topic t partitions=1', 'PURGE q' } do c:ok(line) end
  end)
  after_each(function()
    http:close()
    c:close()
  end)

  local function publish(body) return http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/-/publish', body) end

  it('tells the id, the queues and the offset', function()
    local answer = publish { key = 'q', payload = 'hello', headers = { ['content-type'] = 'text/plain' }, priority = 7,
      ttl = '1h' }
    assert.same({ id = answer.id, queues = 1, duplicate = false }, answer)
    local m = c:document('PEEK q').messages[1]
    assert.same({ answer.id, 'hello', { ['content-type'] = 'text/plain' }, 7, 3600000 },
      { m.id, m.payload, m.headers, m.priority, m.expires - m.ts })
    answer = publish { key = 't', payload = 'hello' }
    assert.equal(0, answer.partition)
    assert.equal('integer', math.type(answer.offset))
  end)

  it('delays, deduplicates and demands as PUB does', function()
    publish { key = 'q', delay = '1h' }
    assert.equal(1, c:stats 'q'.delayed)
    c:ok 'DECLARE queue once dedupe=1h'
    assert.is_false(publish { key = 'once', id = 'me' }.duplicate)
    assert.is_true(publish { key = 'once', id = 'me' }.duplicate)
    local path = '/api/vhosts/%2F/exchanges/-/publish'
    http:expect_error(422, 'unroutable', 'POST', path, { key = 'nowhere', must = true })
    http:expect_error(409, 'mismatch', 'POST', path, { key = 't', expect = 4711 })
    http:expect_error(404, 'not-found', 'POST', '/api/vhosts/%2F/exchanges/nothing/publish', {})
  end)

  it('takes many messages in one request, and answers each in its place', function()
    local results = publish { messages = {
      { key = 'q', payload = 'one' }, { key = 'q', payload = 2 }, { key = 'nowhere', must = true },
      { key = 't', payload_base64 = 'AA==' }, { key = 'q', payload = 'last' },
    } }.results
    assert.equal(5, #results)
    assert.same({ 1, 1, 1 }, { results[1].queues, results[4].queues, results[5].queues })
    assert.same({ code = 'syntax', text = 'payload: expected a string' }, results[2].error)
    assert.equal('unroutable', results[3].error.code)
    local payloads = {}
    for _, m in ipairs(c:document('PEEK q 10').messages) do payloads[#payloads + 1] = m.payload end
    assert.same({ 'one', 'last' }, payloads)
  end)

  it('takes 10,000 messages, in their order, and serves others meanwhile', function()
    local messages = {}
    for i = 1, 10000 do messages[i] = { key = 'q', payload = tostring(i) } end
    http:send('POST', '/api/vhosts/%2F/exchanges/-/publish', { messages = messages })
    c:ok 'PING'
    local results = http:answer().json.results
    assert.equal(10000, #results)
    for i, result in ipairs(results) do
      assert.equal(1, result.queues)
      if i > 1 then assert.is_true(result.id > results[i - 1].id) end
    end
    assert.equal(10000, c:stats 'q'.ready)
    messages[10001] = messages[1]
    assert.matches('10001 are too many; at most 10000', http:expect_error(400, 'too-long', 'POST',
      '/api/vhosts/%2F/exchanges/-/publish', { messages = messages }))
  end)

  it('stores a batch before it answers', function()
    local messages = {}
    for i = 1, 500 do messages[i] = { key = 'q', payload = tostring(i) } end
    publish { messages = messages }
    http:close()
    broker:kill9_all()
    broker:run()
    http, c = Http.connect(broker), broker:connect()
    assert.equal(500, c:stats 'q'.ready)
  end)

  it('stores no more of a batch when its client has left', function()
    c:ok 'DECLARE queue left'
    local messages = {}
    for i = 1, 3000 do messages[i] = { key = 'left', payload = tostring(i) } end
    http:send('POST', '/api/vhosts/%2F/exchanges/-/publish', { messages = messages })
    http:close()
    http = Http.connect(broker)
    assert(wait.poll(function() return #c:document 'LIST connections' == 2 end))
    local stored = c:stats 'left'.ready
    assert.is_true(stored <= 3000)
    publish { key = 'q' }
    assert.equal(stored, c:stats 'left'.ready)
  end)

  it('takes a large body, and serves others while it is read', function()
    local payload = ('x'):rep(6 << 20)
    http:send('POST', '/api/vhosts/%2F/exchanges/-/publish', { key = 'q', payload = payload })
    c:ok 'PING'
    assert.equal(1, http:answer().json.queues)
    assert.equal(#payload, c:document('PEEK q').messages[1].size)
  end)

  it('refuses a large body that is not JSON, and one that is of another type', function()
    local path, body = '/api/vhosts/%2F/exchanges/-/publish', '{"key":"q","payload":"' .. ('x'):rep(1 << 20)
    local answer = http:request('POST', path, body, { ['Content-Type'] = 'application/json' })
    assert.equal(400, answer.status)
    assert.matches('not JSON', answer.json.error.text)
    answer = http:request('POST', path, body .. '"}', { ['Content-Type'] = 'text/plain' })
    assert.equal(415, answer.status)
    http:expect_error(400, 'syntax', 'POST', path, { key = 'q', more = ('x'):rep(1 << 20) })
    answer = http:request('POST', path, '[' .. (' '):rep(1 << 20) .. ']', { ['Content-Type'] = 'application/json' })
    assert.matches('must be a JSON object', answer.json.error.text)
  end)

  it('forgets a large body whose client leaves', function()
    for _ = 1, 10 do
      local other = Http.connect(broker)
      other:send('POST', '/api/vhosts/%2F/exchanges/-/publish', { key = 'q', payload = ('x'):rep(2 << 20) })
      other:close()
    end
    publish { key = 'q' }
    assert(wait.poll(function() return #c:document 'LIST connections' == 2 end))
  end)

  it('forgets a batch whose client is killed', function()
    local batch = {}
    for i = 1, 10000 do batch[i] = { key = 'q' } end
    -- On a busy machine the batch may be over before the KILL comes.
    local function is_killed()
      local other = Http.connect(broker)
      c:ok 'PURGE q'
      other:send('POST', '/api/vhosts/%2F/exchanges/-/publish', { messages = batch })
      assert(wait.poll(function() return c:stats 'q'.ready > 0 end))
      for _, row in ipairs(c:document 'LIST connections') do
        if row.protocol == 'http' then c:send(('KILL connection %d\r\n'):format(row.connection)):expect '^OK' end
      end
      return other.client:drain_to_end() == ''
    end
    assert(wait.poll(is_killed))
    http = Http.connect(broker)
  end)

  it('refuses what is wrong in a batch as a whole', function()
    local path = '/api/vhosts/%2F/exchanges/-/publish'
    assert.matches('array of messages', http:expect_error(400, 'syntax', 'POST', path, { messages = 'x' }))
    assert.matches('nothing else', http:expect_error(400, 'syntax', 'POST', path,
      { messages = { { key = 'q' } }, key = 'q' }))
  end)

  it('is explained without being done', function()
    local answer = http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/-/explain', { key = 'q', headers = { a = 'b' } })
    assert.equal('q', answer.queues[1].queue)
    assert.equal(0, c:stats 'q'.ready)
  end)
end)

describe('a publish over HTTP while publishers are held back', function()
  local broker

  after_each(function() broker:destroy() end)

  it('is refused, and taken later', function()
    broker = Broker.start { args = { '--store', 'none', '--max-memory', '2M' }, http = '127.0.0.1:0' }
    local http, c = Http.connect(broker), broker:connect()
    local path = '/api/vhosts/%2F/exchanges/-/publish'
    c:ok 'DECLARE queue q'
    local messages, payload = {}, ('x'):rep(20000)
    for i = 1, 60 do messages[i] = { key = 'q', payload = payload } end
    -- Its body fills a part of the memory, its messages the rest.
    http:send('POST', path, { messages = messages })
    assert(wait.poll(function() return c:stats 'q'.ready > 0 end))
    local other = Http.connect(broker)
    assert(wait.poll(function() return other:post(path, { key = 'q', payload = payload }).status == 503 end))
    assert.matches('held back', other:expect_error(503, 'busy', 'POST', path, { key = 'q' }))
    -- It is held for nothing else.
    other:expect(200, 'GET', '/api/vhosts/%2F/queues/q')
    other:expect(200, 'POST', '/api/vhosts/%2F/queues/q/purge')
    assert.equal(60, #http:answer().json.results)
    c:ok 'PURGE q'
    other:expect(200, 'POST', path, { key = 'q' })
  end)
end)
