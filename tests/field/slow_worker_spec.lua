-- Slow workers: the window is full, one message is worked on after the other, each within the ack-timeout, and all
-- of them take far longer. Nothing is lost, nothing is done twice, and the order stays.
local Broker = require 'support.broker'
local Field = require 'support.field'

local LEASE, JOBS, STOMP_JOBS = Field.LEASE_MS, 24, 1000
local WORK = LEASE // 8

describe('a slow worker with a full window', function()
  local field = Field.fixture()
  local queues

  -- All at the same time, in queues of their own.
  local kinds = { 'line', 'GET', 'STOMP', 'HTTP', 'c', 'python', 'command line' }

  it('keeps everything, by every door', function()
    queues = {}
    for _, kind in ipairs(kinds) do
      queues[kind] = field.queue(('shards=1 ack-timeout=%dms'):format(LEASE))
      field.publish(queues[kind], kind == 'STOMP' and STOMP_JOBS or JOBS)
    end
    local programs = {
      c = field.start('c', 'sub', queues.c, JOBS, WORK),
      python = field.start('python', 'sub', queues.python, JOBS, WORK),
      ['command line'] = io.popen(
        ("'%s' sub --format '%%p %%a\\n' --count %d --url %s %s | while read -r job; do sleep %g; echo \"$job\"; done")
        :format(Broker.binary(), JOBS, field.broker:url(), queues['command line'], WORK / 1000)),
    }
    local seen = { line = {}, GET = {}, STOMP = {}, HTTP = {} }

    local line, getter, http, stomp = Field.consumer(field.broker, queues.line), field.broker:connect(), field.http(),
      field.stomp()
    local batch = getter:get(queues.GET .. ' max=1000')
    local path = '/api/vhosts/%2F/queues/' .. queues.HTTP
    local answer = http:expect(200, 'POST', path .. '/get', { max = 1000 }).messages
    stomp:frame('SUBSCRIBE', { id = 'w', destination = '/queue/' .. queues.STOMP, ack = 'client-individual' })

    local per_step = math.ceil(STOMP_JOBS / JOBS)
    for i = 1, JOBS do
      field.work(WORK)
      local m = line:next()
      seen.line[i] = Field.line(m)
      line:ask('ACK ' .. m.tag)
      seen.GET[i] = Field.line(batch[i])
      getter:ok('ACK ' .. batch[i].tag)
      seen.HTTP[i] = Field.line(answer[i])
      http:expect(200, 'POST', path .. '/ack', { receipts = { answer[i].receipt } })
      for _ = 1, math.min(per_step, STOMP_JOBS - #seen.STOMP) do
        local frame = stomp:expect 'MESSAGE'
        seen.STOMP[#seen.STOMP + 1] = ('%s %s'):format(frame.body, frame.headers['x-attempt'] or 1)
        stomp:frame('ACK', { id = frame.headers.ack })
      end
    end
    stomp:ask 'DISCONNECT'
    line:quit()
    getter:close()
    http:close()
    for kind, pipe in pairs(programs) do seen[kind] = Field.lines(pipe) end

    for _, kind in ipairs(kinds) do
      local wanted = Field.firsts(1, kind == 'STOMP' and STOMP_JOBS or JOBS)
      assert.same(wanted, seen[kind], kind)
      field.expect_done(queues[kind], #wanted, { redelivered = 0 })
    end
  end)
end)
