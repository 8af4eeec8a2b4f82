-- Ids go up whatever the clock does, through restarts and kills.
local Broker = require 'support.broker'

local function unix_ms(id) return tonumber(id, 16) >> 22 end

describe('the ids of messages', function()
  local broker, c

  before_each(function()
    broker = Broker.start()
    c = broker:connect()
    c:ok 'DECLARE queue jobs'
  end)

  after_each(function()
    broker:destroy()
  end)

  local function publish()
    c:send 'PUB - jobs 1\r\nx\r\n'
    return (c:expect '^OK (%x+) 1$')
  end

  local function mark(node) return math.tointeger(tonumber(broker:redis_cli('HGET', 'tide:ids', node or 0))) end

  local function now_ms() return os.time() * 1000 end

  it('lie below a mark in Redis that is a little ahead of them', function()
    assert.is_nil(mark())
    local first = unix_ms(publish())
    local ahead = mark()
    assert.is_true(ahead > first + 5000 and ahead <= first + 10000, ahead - first)
    -- It is not written with every message.
    local ids = {}
    for i = 1, 20 do ids[i] = unix_ms(publish()) end
    assert.is_true(ids[20] > first + 2000 or mark() == ahead)
  end)

  it('go on from the mark when the clock was set back', function()
    local before = publish()
    broker:expect_clean_stop()
    -- An orderly end leaves the mark at the last id.
    broker:restart()
    c = broker:connect()
    assert.equal(unix_ms(before), mark())
    local day = 24 * 3600 * 1000
    local future = now_ms() + day
    broker:redis_cli('HSET', 'tide:ids', '0', future, '1', future + 30 * day)
    broker:restart()
    c = broker:connect()
    broker:expect_log 'the clock is 8%d%d%d%d s behind tide:ids'
    local id = publish()
    assert.equal(future + 1, unix_ms(id))
    assert.is_true(mark() > future)
    assert.equal(future + 30 * day, mark(1))
    -- The message's own time is the clock's.
    c:send 'GET jobs max=2 ack=auto\r\n'
    c:expect_line 'OK 2'
    assert.equal(before, c:expect_msg().options.id)
    local msg = c:expect_msg()
    assert.equal(id, msg.options.id)
    assert.is_true(math.abs(tonumber(msg.options.ts) - now_ms()) < 60000)
  end)

  it('do not repeat after a kill', function()
    local last = publish()
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.is_true(publish() > last)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.is_true(unix_ms(publish()) > unix_ms(last) + 10000)
    assert.is_true(mark() < now_ms() + 60000)
  end)

  it('ignore a mark that is not a time', function()
    for _, wrong in ipairs { 'x', '-1', '4398046511103', '99999999999999999999' } do
      broker:redis_cli('HSET', 'tide:ids', '0', wrong)
      broker:kill9_all()
      broker:run()
      c = broker:connect()
      broker:expect_log("tide:ids: '" .. wrong:gsub('%-', '%%-') .. "' of node 0 is not a time")
      assert.is_true(math.abs(unix_ms(publish()) - now_ms()) < 60000)
    end
  end)
end)
