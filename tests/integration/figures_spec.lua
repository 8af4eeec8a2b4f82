-- What STATS says of a queue at work: rates, and the age of what waits longest.
local Broker = require 'support.broker'
local socket = require 'socket'
local wait = require 'support.wait'

describe('the figures of a queue', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok 'DECLARE queue q'
  end)
  after_each(function() c:close() end)

  it('have no age when nothing is there', function()
    local stats = c:stats 'q'
    assert.is_nil(stats.oldest_ready_ms)
    assert.is_nil(stats.oldest_lease_ms)
    assert.same({ in_1s = 0, in_10s = 0, in_60s = 0, out_1s = 0, out_10s = 0, out_60s = 0 }, stats.rates)
  end)

  it('have the age of the message that waits longest, whatever its rank', function()
    c:ok 'DECLARE queue ranked priority=strict'
    c:ok('PUB - ranked', 'old and least urgent')
    assert(wait.poll(function() return c:stats('ranked').oldest_ready_ms >= 30 end))
    c:ok('PUB - ranked pri=9', 'new')
    assert.is_true(c:stats('ranked').oldest_ready_ms >= 30)
    c:ok 'GET ranked max=2 ack=auto'
    c:expect_msg()
    c:expect_msg()
    assert.is_nil(c:stats('ranked').oldest_ready_ms)
  end)

  it('count the age of a delayed message from when it was due', function()
    local from = socket.gettime()
    c:ok('PUB - q delay=1s', 'later')
    assert.is_nil(c:stats('q').oldest_ready_ms)
    local age
    assert(wait.poll(function()
      age = c:stats('q').oldest_ready_ms
      return age
    end))
    assert.is_true(age <= (socket.gettime() - from) * 1000 - 1000 + 1, age)
  end)

  it('have the age of the oldest lease, also beyond a second', function()
    c:ok('PUB - q', 'a')
    c:ok('PUB - q', 'b')
    c:ok 'GET q'
    c:expect_msg()
    assert(wait.poll(function() return c:stats('q').oldest_lease_ms > 1200 end))
    local from = socket.gettime()
    c:ok 'GET q'
    c:expect_msg()
    assert.is_true(c:stats('q').oldest_lease_ms > 1200)
    c:ok 'ACK 1'
    local age = c:stats('q').oldest_lease_ms
    assert.is_true(age <= (socket.gettime() - from) * 1000 + 1, age)
    c:ok 'ACK 2'
    assert.is_nil(c:stats('q').oldest_lease_ms)
  end)

  it('count what came and went in the seconds that have passed', function()
    for _ = 1, 120 do c:ok('PUB - q', 'x') end
    c:ok 'GET q max=60 ack=auto'
    for _ = 1, 60 do c:expect_msg() end
    local rates
    assert(wait.poll(function()
      rates = c:stats('q').rates
      return rates.in_60s == 2 and rates.out_60s == 1
    end))
    assert.equal(12, rates.in_10s)
    assert.equal(6, rates.out_10s)
    assert(wait.poll(function() return c:stats('q').rates.in_1s == 0 end))
    assert.is_true(c:document('STATS').rates.in_60s >= 2)
  end)
end)
