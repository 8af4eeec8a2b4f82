-- A nightly job: a schedule or a delay starts it, and it takes many times the ack-timeout. Its worker asks for more
-- time while it works. It is given to one worker, once.
local Field = require 'support.field'
local wait = require 'support.wait'

local LEASE, STEPS = Field.LEASE_MS, 12
local WORK = LEASE // 4 -- of one step; all of them take three leases

local NIGHTLY = [[
return {
  every = "200ms",
  run = function(broker) broker.publish { key = "nightly", payload = "1" } end,
}
]]

describe('a nightly job', function()
  local field = Field.fixture()

  it('that takes many leases is done once, by every door that can ask for more time', function()
    local queues = {}
    for _, kind in ipairs { 'GET', 'SUB', 'HTTP', 'c', 'python' } do
      queues[kind] = field.queue(('shards=1 ack-timeout=%dms'):format(LEASE))
      -- It begins later.
      field.admin:ok(('PUB - %s delay=50ms'):format(queues[kind]), '1')
    end
    local c = field.start('c', 'touch', queues.c, STEPS, WORK)
    local python = field.start('python', 'touch', queues.python, STEPS, WORK)
    local getter, worker, http = field.broker:connect(), Field.consumer(field.broker, queues.SUB), field.http()
    local path = '/api/vhosts/%2F/queues/' .. queues.HTTP
    local got = getter:get(queues.GET .. ' wait=30s')[1]
    local sent = worker:next()
    local answer = http:expect(200, 'POST', path .. '/get', { wait = '30s' }).messages[1]
    for _ = 1, STEPS do
      field.work(WORK)
      getter:ok('TOUCH ' .. got.tag)
      worker:ask('TOUCH ' .. sent.tag)
      http:expect(200, 'POST', path .. '/touch', { receipts = { answer.receipt } })
    end
    -- Nobody else gets it meanwhile.
    assert.same({}, field.admin:get(queues.GET))
    getter:ok('ACK ' .. got.tag)
    worker:ask('ACK ' .. sent.tag)
    http:expect(200, 'POST', path .. '/ack', { receipts = { answer.receipt } })
    worker:quit()
    getter:close()
    http:close()
    assert.same({ '1 1' }, Field.lines(c))
    assert.same({ '1 1' }, Field.lines(python))
    for _, queue in pairs(queues) do field.expect_done(queue, 1, { redelivered = 0 }) end
  end)

  it('whose publisher or worker says how long it takes needs no more time', function()
    local queue = field.queue 'shards=1 ack-timeout=20ms'
    field.admin:ok(('PUB - %s ack-timeout=1h'):format(queue), '1')
    field.admin:ok(('PUB - %s'):format(queue), '2')
    local first = field.admin:get(queue)[1]
    local second = field.admin:get(queue .. ' ack-timeout=1h')[1]
    field.work(100)
    field.admin:ok('ACK ' .. first.tag)
    field.admin:ok('ACK ' .. second.tag)
    field.expect_done(queue, 2, { redelivered = 0 })
  end)

  it('does not lose the short jobs that wait behind it in the window', function()
    local queue = field.queue(('shards=1 ack-timeout=%dms'):format(LEASE))
    field.publish(queue, 20)
    local worker, seen = Field.consumer(field.broker, queue), {}
    for i = 1, 20 do
      local m = worker:next()
      seen[i] = Field.line(m)
      -- The first takes two leases.
      for _ = 1, i == 1 and 8 or 0 do
        field.work(WORK)
        worker:ask('TOUCH ' .. m.tag)
      end
      worker:ask('ACK ' .. m.tag)
    end
    worker:quit()
    assert.same(Field.firsts(1, 20), seen)
    field.expect_done(queue, 20, { redelivered = 0 })
  end)
end)

describe('a schedule', function()
  local field = Field.fixture { rules = { ['schedule/nightly.lua'] = NIGHTLY } }

  it('starts one job at each tick, and each is done once by workers that come and go', function()
    field.admin:ok 'DECLARE queue nightly shards=1'
    local done = {}
    for i = 1, 5 do
      local worker = Field.consumer(field.broker, 'nightly')
      local m = worker:next()
      assert.equal('1 1', Field.line(m))
      assert.is_nil(done[m.options.id])
      done[m.options.id] = i
      worker:ask('ACK ' .. m.tag)
      worker:quit()
    end
    assert(wait.poll(function()
      local stats = field.admin:stats 'nightly'
      return stats.acked == 5 and stats.timed_out + stats.nacked == 0
    end))
  end)
end)
