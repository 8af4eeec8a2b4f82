-- Backlogs that are larger than what a broker keeps in memory.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local function left_in_redis(broker, queue)
  local keys = {}
  for i, set in ipairs { 'msg', 'ready', 'delayed', 'unack', 'buried', 'tries' } do keys[i] = broker:key(queue, set) end
  return broker:redis_cli('EXISTS', table.unpack(keys))
end

--- What must come: by priority, then by number.
local function in_priority_order(count, priority)
  local wanted = {}
  for i = 1, count do wanted[i] = i end
  table.sort(wanted, function(a, b)
    local x, y = priority(a), priority(b)
    if x ~= y then return x > y end
    return a < b
  end)
  for i, n in ipairs(wanted) do wanted[i] = tostring(n) end
  return wanted
end

describe('a backlog beyond the window', function()
  local broker, c

  local function restart(how)
    if how then broker[how](broker) end
    broker:restart()
    c = broker:connect()
  end

  setup(function() broker = Broker.start { args = { '--window-messages', '16', '--fsync', 'no' } } end)
  teardown(function() broker:destroy() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  --- A broker with another window, for this test alone.
  local function use_broker(...)
    local usual = broker
    broker = Broker.start { args = { '--fsync', 'no', ... } }
    c = broker:connect()
    finally(function()
      broker:destroy()
      broker = usual
    end)
  end

  for _, window in ipairs { 16, 100 } do
    it('comes in order, with a window of ' .. window, function()
      if window ~= 16 then use_broker('--window-messages', window) end
      c:ok 'DECLARE queue jobs'
      traffic.publish(c, 'jobs', 5000)
      local stats = c:stats 'jobs'
      assert.equal(5000, stats.ready)
      assert.is_true(stats.in_memory <= 2 * window, 'in memory: ' .. stats.in_memory)
      local payloads = traffic.take(c, 'jobs', 2500)
      restart()
      traffic.expect_counts(c, 'jobs', { ready = 2500 })
      for _, payload in ipairs(traffic.take(c, 'jobs', 2500)) do payloads[#payloads + 1] = payload end
      for i = 1, 5000 do assert.equal(tostring(i), payloads[i]) end
      traffic.expect_counts(c, 'jobs', { ready = 0, unacked = 0 })
      assert.equal('0', left_in_redis(broker, 'jobs'))
    end)
  end

  it('comes by priority, also across a crash', function()
    c:ok 'DECLARE queue jobs priority=strict'
    local function priority(i) return i * 7919 % 11 end
    traffic.publish(c, 'jobs', 3000, function(i) return nil, 'pri=' .. priority(i) end)
    local payloads = traffic.take(c, 'jobs', 1000)
    restart 'kill9_all'
    traffic.expect_counts(c, 'jobs', { ready = 2000 })
    for _, payload in ipairs(traffic.take(c, 'jobs', 2000)) do payloads[#payloads + 1] = payload end
    assert.same(in_priority_order(3000, priority), payloads)
    assert.equal('0', left_in_redis(broker, 'jobs'))
  end)

  it('is delivered once while more urgent messages keep overtaking', function()
    c:ok 'DECLARE queue jobs priority=strict ack-timeout=1h'
    local consumer = broker:connect()
    local seen, count, done = {}, 3000, 0
    --- The next message, past the answers to the ACKs; is it one more?
    local function consume()
      local len, tag, line
      repeat
        line = consumer:read_line()
        tag, len = (line or ''):match '^MSG s (%d+) .* (%d+)$'
        assert(tag or line == 'OK 1', 'got ' .. tostring(line))
      until tag
      local payload = consumer:expect_payload(len)
      assert.is_nil(seen[payload], 'twice: ' .. payload)
      seen[payload] = true
      done = done + 1
      consumer:send('ACK ' .. tag .. '\r\n')
    end
    consumer:ok 'SUB jobs s prefetch=40'
    for from = 1, count, 100 do
      traffic.publish(c, 'jobs', 100, function(i)
        return tostring(from + i - 1), 'pri=' .. (from + i) % 13
      end)
      for _ = 1, 20 do consume() end
    end
    while done < count do consume() end
    assert(wait.poll(function() return left_in_redis(broker, 'jobs') == '0' end))
  end)

  it('reaches a consumer that takes a burst at once', function()
    c:ok 'DECLARE queue jobs'
    local consumer = broker:connect()
    consumer:ok 'SUB jobs s prefetch=1000 ack=auto'
    c:send(('PUB - jobs quiet 1\r\na\r\n'):rep(2000))
    for _ = 1, 2000 do consumer:expect_msg() end
    c:expect_nothing()
  end)

  it('of delayed messages comes when each is due', function()
    c:ok 'DECLARE queue jobs'
    local function delay(i) return 200 + i * 7919 % 1500 end
    traffic.publish(c, 'jobs', 1500, function(i) return tostring(delay(i)), 'delay=' .. delay(i) end)
    restart 'kill9_all'
    traffic.publish(c, 'jobs', 300, function(i) return tostring(delay(i)), 'delay=' .. delay(i) end)
    local _, deliveries = traffic.take(c, 'jobs', 1800)
    for _, msg in ipairs(deliveries) do assert.is_true(tonumber(msg.payload) >= 200) end
    traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 0 })
    assert.equal('0', left_in_redis(broker, 'jobs'))
  end)

  it('of buried messages is kicked as a whole or in part', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 500)
    local taken = 0
    while taken < 500 do
      c:send 'GET jobs max=100 wait=5s\r\n'
      local n = tonumber((c:expect '^OK (%d+)$'))
      for _ = 1, n do c:expect_msg() end
      c:ok(('NACK %d-%d dead'):format(taken + 1, taken + n))
      taken = taken + n
    end
    traffic.expect_counts(c, 'jobs', { buried = 500 })
    -- The OK of a NACK does not wait for Redis.
    assert(wait.poll(function() return broker:redis_cli('ZCARD', broker:key('jobs', 'buried')) == '500' end))
    restart 'kill9_all'
    traffic.expect_counts(c, 'jobs', { buried = 500 })
    assert.equal('120', c:ok 'KICK jobs 120')
    assert.equal(120, #traffic.take(c, 'jobs', 120))
    assert.equal('380', c:ok 'KICK jobs')
    assert.equal(380, #traffic.take(c, 'jobs', 380))
    assert.equal('0', left_in_redis(broker, 'jobs'))
  end)

  it('is purged while publishing goes on, and nothing of it comes back', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 3000, function(i) return 'old', i % 3 == 0 and 'delay=1h' or nil end)
    c:send 'GET jobs max=5\r\n'
    local held = tonumber((c:expect '^OK (%d+)$'))
    for _ = 1, held do c:expect_msg() end
    local publisher = broker:connect()
    publisher:send(('PUB - jobs 3\r\nmid\r\n'):rep(1000))
    local purged = tonumber(c:ok 'PURGE jobs')
    for _ = 1, 1000 do publisher:expect '^OK %x+ 1$' end
    assert.is_true(purged >= 3000 - held)
    traffic.publish(publisher, 'jobs', 100, function() return 'new' end)
    local ready = 4000 + 100 - held - purged
    traffic.expect_counts(c, 'jobs', { ready = ready, delayed = 0, unacked = held })
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    traffic.expect_counts(c, 'jobs', { ready = ready + held, delayed = 0 })
    local payloads = traffic.take(c, 'jobs', ready + held)
    local old = 0
    for _, payload in ipairs(payloads) do old = old + (payload == 'old' and 1 or 0) end
    assert.equal(held, old)
    assert.equal('new', payloads[#payloads])
    assert.equal('0', left_in_redis(broker, 'jobs'))
  end)

  it('with messages larger than a read comes too', function()
    use_broker('--window-messages', 16, '--window-bytes', '64K')
    c:ok 'DECLARE queue jobs priority=strict'
    traffic.publish(c, 'jobs', 60, function(i)
      return tostring(i) .. ('x'):rep(i % 3 == 0 and 200000 or 10), 'pri=' .. i % 4
    end)
    restart()
    local payloads = traffic.take(c, 'jobs', 60)
    for i, payload in ipairs(payloads) do payloads[i] = payload:match '^%d+' end
    assert.same(in_priority_order(60, function(i) return i % 4 end), payloads)
  end)

  it('gives back what a consumer held that is gone', function()
    c:ok 'DECLARE queue jobs'
    traffic.publish(c, 'jobs', 1000)
    local consumer = broker:connect()
    consumer:ok 'SUB jobs s prefetch=200'
    for _ = 1, 200 do consumer:expect_msg() end
    consumer:close()
    assert(wait.poll(function() return c:stats('jobs').unacked == 0 end))
    local payloads, deliveries = traffic.take(c, 'jobs', 1000)
    for i = 1, 1000 do
      assert.equal(tostring(i), payloads[i])
      assert.equal(i == 1 and 2 or 1, deliveries[i].attempt, 'of ' .. i)
      assert.equal(i <= 200, deliveries[i].redelivered)
    end
    assert.equal('0', left_in_redis(broker, 'jobs'))
  end)
end)
