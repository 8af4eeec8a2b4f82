-- A pool of threads on one channel: several messages are in work at the same time and end in any order. The channel
-- settles something all the time, so that only what is stuck counts as failed.
local Field = require 'support.field'
local needs = require 'support.needs'
local shell = require 'support.shell'
local wait = require 'support.wait'

local LEASE, THREADS, JOBS = Field.LEASE_MS, 4, 64
local WORK = LEASE // 8

describe('a pool of threads on one channel', function()
  local field = Field.fixture()

  local function open(jobs)
    local queue = field.queue(('shards=1 ack-timeout=%dms'):format(LEASE))
    field.publish(queue, jobs or JOBS)
    return queue
  end

  -- Each turn the jobs in work end in another order.
  local function order(turn)
    local list = {}
    for i = 1, THREADS do list[i] = (i * (turn % 2 == 0 and 1 or THREADS - 1) + turn) % THREADS + 1 end
    return list
  end

  it('does each job once, whatever ends first, by line and STOMP', function()
    local queue, stomp_queue = open(), open()
    local worker, stomp = Field.consumer(field.broker, queue), field.stomp()
    stomp:frame('SUBSCRIBE', { id = 'w', destination = '/queue/' .. stomp_queue, ack = 'client-individual' })
    local seen, stomp_seen = {}, {}
    for turn = 1, JOBS // THREADS do
      local mine, frames = {}, {}
      for i = 1, THREADS do
        mine[i], frames[i] = worker:next(), stomp:expect 'MESSAGE'
        seen[#seen + 1] = Field.line(mine[i])
        stomp_seen[#stomp_seen + 1] = frames[i].body .. ' 1'
      end
      field.work(WORK)
      for _, i in ipairs(order(turn)) do
        worker:ask('ACK ' .. mine[i].tag)
        stomp:frame('ACK', { id = frames[i].headers.ack })
      end
    end
    stomp:ask 'DISCONNECT'
    stomp:close()
    worker:quit()
    assert.same(Field.firsts(1, JOBS), seen)
    assert.same(Field.firsts(1, JOBS), stomp_seen)
    field.expect_done(queue, JOBS, { redelivered = 0 })
    field.expect_done(stomp_queue, JOBS, { redelivered = 0 })
  end)

  it('does each job once in Python, by tasks that share a subscription', function()
    local queue = open()
    local output, status = shell.run(([[
PYTHONPATH=examples/python timeout %d python3 -B -W error - %s %s %d %d %g <<'EOF' 2>&1
import asyncio, collections, sys
from tidemq import aio

url, queue, jobs, threads, pause = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
done = collections.Counter()

async def work(client, subscription):
    while done.total() < jobs:
        message = await subscription.next()
        await asyncio.sleep(pause)
        await client.ack(message)
        done[message.payload, message.attempt] += 1

async def main():
    async with aio.connect(url) as client:
        subscription = await client.subscribe(queue)
        tasks = [asyncio.create_task(work(client, subscription)) for _ in range(int(threads))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(sorted((int(job), attempt) for job, attempt in done.elements())
          == [(n, 1) for n in range(1, int(jobs) + 1)])

asyncio.run(main())
EOF]]):format(wait.limit(300), field.broker:url(), queue, JOBS, THREADS, WORK / 1000))
    assert.equal('True\n', output)
    assert.equal(0, status)
    field.expect_done(queue, JOBS, { redelivered = 0 })
  end)

  local it_with_stomp = needs.client(it, '/usr/bin/python3 -c "import stomp"')
  it_with_stomp('does each job once with python3-stomp, whose threads share a connection', function()
    local queue = open()
    local host, port = field.broker.address:match '^(.*):(%d+)$'
    local output, status = shell.run(([[
timeout %d /usr/bin/python3 -B - %s %d %s %d %d %g %d <<'EOF' 2>&1
import collections, queue, sys, threading, time
import stomp

host, port, name = sys.argv[1:4]
jobs, threads, pause, limit = map(float, sys.argv[4:])
waiting, done, ended = queue.Queue(), collections.Counter(), threading.Semaphore(0)

class Listener(stomp.ConnectionListener):
    def on_message(self, frame):
        waiting.put(frame)

connection = stomp.Connection12([(host, int(port))])
connection.set_listener('', Listener())
connection.connect('guest', 'guest', wait=True)

def work():
    while True:
        frame = waiting.get()
        time.sleep(pause)
        connection.ack(frame.headers['ack'])
        done[int(frame.body)] += 1
        ended.release()

connection.subscribe('/queue/' + name, 'w', 'client-individual')
for _ in range(int(threads)):
    threading.Thread(target=work, daemon=True).start()
for _ in range(int(jobs)):
    assert ended.acquire(timeout=limit)
connection.disconnect('bye')
print(sorted(done.elements()) == list(range(1, int(jobs) + 1)))
EOF]]):format(wait.limit(300), host, port, queue, JOBS, THREADS, WORK / 1000, wait.limit(60)))
    assert.equal('True\n', output)
    assert.equal(0, status)
    field.expect_done(queue, JOBS, { redelivered = 0 })
  end)

  it('loses only what a stuck thread holds; its ack counts when nobody else has the job', function()
    local queue = open(40)
    local worker = Field.consumer(field.broker, queue, 'prefetch=4')
    local stuck, seen = worker:next(), {}
    -- The others go on, far beyond a lease. The stuck job is given out again, to this channel, as the second
    -- attempt: a pool has it twice, and leaves the second one alone.
    local function is_over() return field.admin:stats(queue).timed_out > 0 end
    while not is_over() or #seen < 39 do
      local m = #seen < 39 and worker:next()
      if m and m.payload ~= stuck.payload then
        seen[#seen + 1] = Field.line(m)
        worker:ask('ACK ' .. m.tag)
      end
      field.work(LEASE // 30)
    end
    assert.same(Field.firsts(2, 40), seen)
    assert.equal('1', worker:ask('ACK ' .. stuck.tag))
    worker:quit()
    -- On a slow machine the second attempt has timed out as well.
    field.expect_done(queue, 40, { timed_out = field.admin:stats(queue).timed_out })
  end)
end)
