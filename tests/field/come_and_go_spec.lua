-- Workers that come and go: more are started when there is much to do, and stopped when there is little. They
-- leave with a full window. Nothing counts as failed unless a worker crashes, and then only what it worked on.
local Field = require 'support.field'

local JOBS = 300

describe('workers that come and go', function()
  local field = Field.fixture()
  local queue, done

  before_each(function()
    queue, done = field.queue(), {}
    field.publish(queue, JOBS)
  end)

  local function note(m)
    done[m.payload] = (done[m.payload] or 0) + 1
    assert.equal(1, m.attempt)
  end
  local function expect_each_once()
    for _, n in ipairs(Field.numbers(1, JOBS)) do assert.equal(1, done[n], n) end
  end

  local function come() return Field.consumer(field.broker, queue) end
  local function work(worker)
    local m = worker:next()
    note(m)
    worker:ask('ACK ' .. m.tag)
  end

  -- How a worker of each door comes, does a job and leaves.
  local doors = {
    QUIT = { come = come, work = work, leave = function(worker) worker:quit() end },
    ['UNSUB, then QUIT'] = {
      come = come,
      work = work,
      leave = function(worker)
        worker:ask 'UNSUB worker'
        worker:quit()
      end,
    },
    ['NACK requeue of what is not begun'] = {
      come = come,
      work = work,
      leave = function(worker)
        worker:ask 'UNSUB worker'
        local first, last = worker.waiting[1], worker.waiting[#worker.waiting]
        if first then worker:ask(('NACK %s-%s requeue'):format(first.tag, last.tag)) end
        worker:quit()
      end,
      returns = true,
    },
    ['DISCONNECT of STOMP'] = {
      come = function()
        local c = field.stomp()
        c:frame('SUBSCRIBE', { id = 'w', destination = '/queue/' .. queue, ack = 'client-individual' })
        return c
      end,
      work = function(c)
        local frame = c:expect 'MESSAGE'
        note { payload = frame.body, attempt = tonumber(frame.headers['x-attempt'] or 1) }
        c:frame('ACK', { id = frame.headers.ack })
      end,
      leave = function(c)
        c:frame('DISCONNECT', { receipt = 'bye' })
        local frame
        repeat frame = c:read() until frame.command == 'RECEIPT'
        c:close()
      end,
    },
  }

  for name, door in pairs(doors) do
    it('do every job once (they leave by ' .. name .. ')', function()
      local worker = door.come()
      for job = 1, JOBS do
        door.work(worker)
        -- The next one is there before this one leaves, and its window takes what this one gives back.
        if job % 7 == 0 then
          local next_worker = door.come()
          door.leave(worker)
          worker = next_worker
        end
      end
      door.leave(worker)
      expect_each_once()
      field.expect_done(queue, JOBS, door.returns and { nacked = field.admin:stats(queue).nacked })
    end)
  end

  it('do every job once, also as programs with the client libraries at the same time', function()
    local seen = {}
    for _ = 1, 5 do
      local pipes = {}
      for _, kind in ipairs { 'c', 'python', 'c' } do
        pipes[#pipes + 1] = field.start(kind, 'sub', queue, JOBS // 15, 1)
      end
      for _, pipe in ipairs(pipes) do
        for _, line in ipairs(Field.lines(pipe)) do
          seen[line] = (seen[line] or 0) + 1
        end
      end
    end
    for _, line in ipairs(Field.firsts(1, JOBS)) do assert.equal(1, seen[line], line) end
    field.expect_done(queue, JOBS)
  end)

  it('cost a crashed worker the job in work alone, which is done by another', function()
    for crashes = 1, 3 do
      local worker = Field.consumer(field.broker, queue)
      assert.equal('1 ' .. crashes, Field.line(worker:next()))
      -- No QUIT.
      worker.c:close()
    end
    local other = Field.consumer(field.broker, queue)
    local lines = {}
    for i = 1, JOBS do
      local m = other:next()
      lines[i] = Field.line(m)
      other:ask('ACK ' .. m.tag)
    end
    other:quit()
    local wanted = Field.firsts(1, JOBS)
    wanted[1] = '1 4'
    assert.same(wanted, lines)
    field.expect_done(queue, JOBS)
  end)

  it('keep the order of a single-active queue through six quick reconnects', function()
    local single = field.queue 'shards=1 single-active'
    field.publish(single, 20)
    local function become_active()
      local worker = Field.consumer(field.broker)
      worker.c:send(('SUB %s worker\r\n'):format(single))
      worker.c:drain_until '^EVT active worker$'
      return worker
    end
    for _ = 1, 6 do
      local worker = become_active()
      worker:next()
      worker:quit()
    end
    local worker, lines = become_active(), {}
    for i = 1, 20 do
      local m = worker:next()
      lines[i] = Field.line(m)
      worker:ask('ACK ' .. m.tag)
    end
    worker:quit()
    assert.same(Field.firsts(1, 20), lines)
    field.expect_done(single, 20)
  end)
end)
