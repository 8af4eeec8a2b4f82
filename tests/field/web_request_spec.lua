-- A web request with a time limit: an application takes jobs over HTTP with receipts, each request on a connection of
-- its own, and settles them from another one. A request that gives up loses nothing.
local Field = require 'support.field'
local wait = require 'support.wait'

local LEASE = Field.LEASE_MS

describe('web requests with a time limit', function()
  local field = Field.fixture()
  local queue, path

  before_each(function()
    queue = field.queue(('shards=1 ack-timeout=%dms'):format(LEASE))
    path = '/api/vhosts/%2F/queues/' .. queue
  end)

  local function request(verb, body)
    local http = field.http()
    local answer = http:expect(200, 'POST', path .. '/' .. verb, body)
    http:close()
    return answer
  end

  it('publish and do each job once, each step in a request of its own', function()
    local seen = {}
    for i = 1, 30 do
      local http = field.http()
      http:expect(200, 'POST', '/api/vhosts/%2F/exchanges/-/publish', { key = queue, payload = tostring(i) })
      http:close()
    end
    for i = 1, 30 do
      local m = request('get', { wait = '10s' }).messages[1]
      seen[i] = Field.line(m)
      request('ack', { receipts = { m.receipt } })
    end
    assert.same(Field.firsts(1, 30), seen)
    field.expect_done(queue, 30, { redelivered = 0 })
  end)

  it('that give up while they wait leave the job to the next one', function()
    for i = 1, 10 do
      local http = field.http()
      http:send('POST', path .. '/get', { wait = '60s' })
      assert(wait.poll(function() return #field.admin:document 'LIST consumers' == 1 end))
      http:close()
      assert(wait.poll(function() return #field.admin:document 'LIST consumers' == 0 end))
      field.publish(queue, i, i)
      local m = request('get', { wait = '10s' }).messages[1]
      assert.equal(i .. ' 1', Field.line(m))
      request('ack', { receipts = { m.receipt } })
    end
    field.expect_done(queue, 10, { redelivered = 0 })
  end)

  it('that wait in vain are answered with nothing', function()
    assert.same({}, request('get', { wait = '10ms' }).messages)
    field.publish(queue, 1)
    request('ack', { receipts = { request('get', { wait = '10ms' }).messages[1].receipt } })
    field.expect_done(queue, 1, { redelivered = 0 })
  end)

  it('that run out of time may give the job back, which is no failure', function()
    field.publish(queue, 3)
    for _ = 1, 10 do
      local m = request('get', {}).messages[1]
      assert.equal('1 1', Field.line(m))
      request('nack', { receipts = { m.receipt }, requeue = true })
    end
    for i = 1, 3 do
      local m = request('get', {}).messages[1]
      assert.equal(i .. ' 1', Field.line(m))
      request('ack', { receipts = { m.receipt } })
    end
    field.expect_done(queue, 3, { nacked = field.admin:stats(queue).nacked })
  end)

  it('that forget a job cost it one failure, and it is done by another', function()
    field.publish(queue, 2)
    local forgotten = request('get', {}).messages[1]
    local other = request('get', {}).messages[1]
    request('ack', { receipts = { other.receipt } })
    local again
    repeat
      field.work(LEASE // 8)
      again = request('get', {}).messages[1]
    until again
    assert.equal('1 2', Field.line(again))
    -- The one that forgot it comes back too late.
    local http = field.http()
    http:expect_error(410, 'lease-lost', 'POST', path .. '/ack', { receipts = { forgotten.receipt } })
    http:close()
    request('ack', { receipts = { again.receipt } })
    field.expect_done(queue, 2, { timed_out = 1 })
  end)
end)
