-- One-shot scripts: a worker takes one job, and leaves. It was sent more than it wants; to leave in order costs
-- nothing, and the next one begins at once where the last one stopped.
local Field = require 'support.field'

local WORKERS = 30

describe('thirty workers, one after the other, that take one job each', function()
  local field = Field.fixture()
  local queue, seen

  before_each(function() seen = {} end)

  local function open(last, options)
    queue = field.queue(options)
    field.publish(queue, last or WORKERS)
  end
  local function expect_all(last)
    assert.same(Field.firsts(1, last or WORKERS), seen)
    field.expect_done(queue, last or WORKERS)
  end

  for _, leave in ipairs { 'QUIT', 'UNSUB worker\r\nQUIT', '@1 OPEN\r\nQUIT' } do
    it('by SUB with the default prefetch, then ' .. leave:gsub('\r\n', ', '), function()
      open()
      for i = 1, WORKERS do
        local worker = Field.consumer(field.broker, queue)
        local m = worker:next()
        seen[i] = Field.line(m)
        worker:ask('ACK ' .. m.tag)
        worker.c:send(leave:gsub('QUIT', '') .. '\r\n')
        worker:quit()
      end
      expect_all()
    end)
  end

  it('by SUB on a channel of its own, then CLOSE', function()
    open()
    for i = 1, WORKERS do
      local c = field.broker:connect()
      c:send(('@1 OPEN\r\n@1 SUB %s worker\r\n'):format(queue))
      c:expect_line '@1 OK'
      c:expect_line '@1 OK'
      local m = c:expect_msg(nil, 1)
      seen[i] = Field.line(m)
      c:send(('@1 ACK %s\r\n@1 CLOSE\r\n'):format(m.tag))
      c:drain_until '^@1 OK 1$'
      c:drain_until '^@1 OK$'
      c:close()
    end
    expect_all()
  end)

  it('by SUB, where the first failure is the last (retry=none)', function()
    local dead = field.queue()
    open(nil, ('shards=1 retry=none dead-letter=-/%s'):format(dead))
    for i = 1, WORKERS do
      local worker = Field.consumer(field.broker, queue)
      local m = worker:next()
      seen[i] = Field.line(m)
      worker:ask('ACK ' .. m.tag)
      worker:quit()
    end
    expect_all()
    assert.equal(0, field.admin:stats(dead).published)
  end)

  it('by SUB of a single-active queue', function()
    open(nil, 'shards=1 single-active')
    for i = 1, WORKERS do
      local worker = Field.consumer(field.broker)
      worker.c:send(('SUB %s worker\r\n'):format(queue))
      worker.c:drain_until '^EVT active worker$'
      local m = worker:next()
      seen[i] = Field.line(m)
      worker:ask('ACK ' .. m.tag)
      worker:quit()
    end
    expect_all()
  end)

  it('by GET', function()
    open()
    for i = 1, WORKERS do
      local worker = Field.consumer(field.broker)
      local m = worker.c:get(queue)[1]
      seen[i] = Field.line(m)
      worker:ask('ACK ' .. m.tag)
      worker:quit()
    end
    expect_all()
  end)

  it('by STOMP', function()
    open()
    for i = 1, WORKERS do
      local c = field.stomp()
      c:subscribe('w', '/queue/' .. queue, { ack = 'client-individual' })
      local frame = c:expect 'MESSAGE'
      seen[i] = ('%s %s'):format(frame.body, frame.headers['x-attempt'] or 1)
      c:frame('ACK', { id = frame.headers.ack })
      c:frame('DISCONNECT', { receipt = 'bye' })
      repeat frame = c:read() until frame.command == 'RECEIPT'
      c:close()
    end
    expect_all()
  end)

  it('by HTTP', function()
    open()
    local path = '/api/vhosts/%2F/queues/' .. queue
    for i = 1, WORKERS do
      local http = field.http()
      local m = http:expect(200, 'POST', path .. '/get', {}).messages[1]
      seen[i] = Field.line(m)
      http:expect(200, 'POST', path .. '/ack', { receipts = { m.receipt } })
      http:close()
    end
    expect_all()
  end)

  for _, kind in ipairs { 'c', 'python' } do
    for _, mode in ipairs { 'sub', 'get' } do
      it(('by the client library (%s, %s)'):format(kind, mode), function()
        open(10)
        for i = 1, 10 do seen[i] = Field.lines(field.start(kind, mode, queue, 1, 0))[1] end
        expect_all(10)
      end)
    end
  end

  for _, words in ipairs { 'sub --count 1', 'get' } do
    it('by tidemq ' .. words, function()
      open(10)
      for i = 1, 10 do
        local verb, options = words:match '^(%S+) ?(.*)$'
        local more = options ~= '' and { '--count', '1' } or {}
        seen[i] = field.broker:cli(verb, '--format', '%p %a', queue, table.unpack(more))
      end
      expect_all(10)
    end)
  end

  it('that have changed their mind: what they did not acknowledge comes first again', function()
    open(5)
    for i = 1, WORKERS do
      local worker = Field.consumer(field.broker, queue)
      local m = worker:next()
      assert.same({ '1 1', i > 1 }, { Field.line(m), m.redelivered })
      worker:quit()
    end
    local c = field.broker:connect()
    for i, m in ipairs(c:get(queue .. ' max=9')) do
      seen[i] = Field.line(m)
      c:ok('ACK ' .. m.tag)
    end
    c:close()
    expect_all(5)
  end)
end)
