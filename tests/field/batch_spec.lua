-- Batches: a worker takes some messages, works on all of them within one ack-timeout, and acknowledges them
-- together; then the next ones. All batches together take far longer than one lease.
local Field = require 'support.field'

local LEASE, BATCHES, SIZE = Field.LEASE_MS, 8, 10
local JOBS = BATCHES * SIZE
local WORK = LEASE * 3 // 8 // SIZE -- of one job

describe('batches', function()
  local field = Field.fixture()

  local function open()
    local queue = field.queue(('shards=1 ack-timeout=%dms'):format(LEASE))
    field.publish(queue, JOBS)
    return queue
  end

  it('are each done once and in order, by every door', function()
    local queues, seen = {}, {}
    for _, kind in ipairs { 'GET', 'SUB', 'STOMP', 'STOMP in transactions', 'HTTP', 'c', 'python' } do
      queues[kind], seen[kind] = open(), {}
    end
    local c = field.start('c', 'batch', queues.c, JOBS, WORK)
    local python = field.start('python', 'batch', queues.python, JOBS, WORK)
    local getter, worker, http = field.broker:connect(), Field.consumer(field.broker, queues.SUB), field.http()
    local stomp, transacted = field.stomp(), field.stomp()
    stomp:frame('SUBSCRIBE', { id = 'w', destination = '/queue/' .. queues.STOMP, ack = 'client' })
    transacted:frame('SUBSCRIBE', { id = 'w', destination = '/queue/' .. queues['STOMP in transactions'],
      ack = 'client-individual' })
    local path = '/api/vhosts/%2F/queues/' .. queues.HTTP

    for _ = 1, BATCHES do
      local got = getter:get(queues.GET .. ' max=' .. SIZE)
      local answer = http:expect(200, 'POST', path .. '/get', { max = SIZE }).messages
      local last_of_sub, last_of_stomp, receipts
      transacted:frame('BEGIN', { transaction = 't' })
      for i = 1, SIZE do
        seen.GET[#seen.GET + 1] = Field.line(got[i])
        seen.HTTP[#seen.HTTP + 1] = Field.line(answer[i])
        receipts = receipts or {}
        receipts[i] = answer[i].receipt
        last_of_sub = worker:next()
        seen.SUB[#seen.SUB + 1] = Field.line(last_of_sub)
        last_of_stomp = stomp:expect 'MESSAGE'
        seen.STOMP[#seen.STOMP + 1] = last_of_stomp.body .. ' 1'
        local member = transacted:expect 'MESSAGE'
        seen['STOMP in transactions'][#seen.STOMP] = member.body .. ' 1'
        transacted:frame('ACK', { id = member.headers.ack, transaction = 't' })
        field.work(WORK)
      end
      assert.equal(tostring(SIZE), getter:ok(('ACK %s-%s'):format(got[1].tag, got[SIZE].tag)))
      assert.same({ count = SIZE }, http:expect(200, 'POST', path .. '/ack', { receipts = receipts }))
      -- A range from 1 on: only what is still held counts.
      assert.equal(tostring(SIZE), worker:ask('ACK 1-' .. last_of_sub.tag))
      stomp:frame('ACK', { id = last_of_stomp.headers.ack })
      transacted:frame('COMMIT', { transaction = 't' })
    end
    for _, client in ipairs { stomp, transacted } do
      client:ask 'DISCONNECT'
      client:close()
    end
    worker:quit()
    getter:close()
    http:close()
    seen.c, seen.python = Field.lines(c), Field.lines(python)

    for kind, queue in pairs(queues) do
      assert.same(Field.firsts(1, JOBS), seen[kind], kind)
      field.expect_done(queue, JOBS, { redelivered = 0 })
    end
  end)

  it('that are acknowledged late count as done, if nobody else has them', function()
    local queue, path = open(), '/api/vhosts/%2F/queues/'
    local second = open()
    local c, http = field.broker:connect(), field.http()
    local got = c:get(queue .. ' max=' .. JOBS)
    local answer = http:expect(200, 'POST', path .. second .. '/get', { max = JOBS }).messages
    local receipts = {}
    for i, m in ipairs(answer) do receipts[i] = m.receipt end
    -- A whole lease passes, and all of them are back.
    for _, name in ipairs { queue, second } do
      local function is_back() return field.admin:stats(name).ready == JOBS end
      while not is_back() do field.work(LEASE // 8) end
    end
    assert.equal(tostring(JOBS), c:ok(('ACK %s-%s'):format(got[1].tag, got[JOBS].tag)))
    http:expect(200, 'POST', path .. second .. '/ack', { receipts = receipts })
    for _, name in ipairs { queue, second } do field.expect_done(name, JOBS, { timed_out = 1 }) end
    c:close()
    http:close()
  end)
end)
