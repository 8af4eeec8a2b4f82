-- What operators ask of a broker at work: KILL, DRAIN, `tidemq request`.
local Broker = require 'support.broker'
local Client = require 'support.client'
local wait = require 'support.wait'

local DRAINS = 'ERR shutdown the broker drains and takes no publishes; DRAIN off ends that'

describe('an operator', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function number_of(name)
    for _, connection in ipairs(c:document 'LIST connections') do
      if connection.name == name then return connection.connection end
    end
  end
  local function enter(name)
    local peer = Client.connect(broker.address)
    peer:document(('HELLO name=%s vhost=%s'):format(name, broker.vhost))
    return peer
  end

  describe('that kills a connection', function()
    it('has it told why, and closed', function()
      local peer = enter 'victim'
      c:expect_answer('KILL connection ' .. number_of 'victim', 'OK')
      assert.matches('^EVT closed denied killed by connection %d+ from ', peer:read_line())
      peer:expect_closed()
      assert(wait.poll(function() return not number_of 'victim' end))
    end)

    it('gets back what it held, as from any consumer that leaves', function()
      local peer = enter 'holder'
      peer:ok 'DECLARE queue kill-held'
      peer:ok('PUB - kill-held', 'a')
      peer:ok 'GET kill-held'
      peer:expect_msg()
      local me = broker:connect()
      me:ok('KILL connection ' .. number_of 'holder')
      assert.equal('1', me:ok 'GET kill-held wait=10s')
      local m = me:expect_msg()
      assert.same({ 1, true }, { m.attempt, m.redelivered })
      me:close()
    end)

    it('does not wait for what it waits for', function()
      local peer = enter 'waiter'
      peer:ok 'DECLARE queue kill-waited'
      peer:send 'GET kill-waited wait=1h\r\n'
      assert(wait.poll(function()
        local me = broker:connect()
        local consumers = me:document 'LIST consumers'
        me:close()
        return #consumers == 1
      end))
      c:ok('KILL connection ' .. number_of 'waiter')
      assert.matches('^EVT closed denied ', peer:read_line())
      peer:expect_closed()
    end)

    it('cuts off one that reads nothing', function()
      local peer = enter 'deaf'
      peer:ok 'DECLARE queue kill-deaf durable=0'
      local me = broker:connect()
      for _ = 1, 60 do me:ok('PUB - kill-deaf', ('x'):rep(1 << 20)) end
      peer:send 'SUB kill-deaf s prefetch=1000 ack=auto\r\n'
      local function sent()
        for _, connection in ipairs(c:document 'LIST connections') do
          if connection.name == 'deaf' then return connection.bytes_out > 1 << 20 end
        end
      end
      assert(wait.poll(sent))
      me:ok('KILL connection ' .. number_of 'deaf')
      assert(wait.poll(function() return not number_of 'deaf' end))
      peer:close()
      me:ok 'DELETE queue kill-deaf'
      me:close()
    end)

    it('may kill its own, and is answered first', function()
      local peer = enter 'suicide'
      peer:send(('KILL connection %d\r\nPING\r\n'):format(number_of 'suicide'))
      peer:expect_line 'OK'
      assert.matches('^EVT closed denied ', peer:read_line())
      peer:expect_closed()
    end)

    it('is told what is wrong', function()
      c:expect_answer('KILL connection 999999999',
        'ERR not-found there is no connection 999999999; see LIST connections')
      assert.matches('^ERR syntax .*expected the number of a connection', c:request 'KILL connection -1')
      assert.matches('^ERR syntax KILL takes connection', c:request 'KILL queue 1')
    end)
  end)

  describe('that drains the broker', function()
    after_each(function() c:ok 'DRAIN off' end)

    it('has publishes refused and all else served', function()
      c:ok 'DECLARE queue work dead-letter=-/dead'
      c:ok 'DECLARE queue dead'
      c:ok('PUB - work', 'a')
      c:ok 'DRAIN'
      c:ok 'DRAIN'
      assert.is_true(c:document('STATS').draining)
      c:expect_answer('PUB - work 1\r\nb', DRAINS)
      local peer = broker:connect()
      peer:expect_answer('PUB - work 1\r\nb', DRAINS)
      peer:close()
      c:ok 'GET work'
      c:expect_msg()
      c:ok 'NACK 1 dead'
      assert.equal('1', c:ok 'GET dead wait=10s')
      assert.equal('a', c:expect_msg().payload)
      c:ok 'DRAIN off'
      assert.is_false(c:document('STATS').draining)
      c:ok('PUB - work', 'c')
    end)

    it('may do so by a signal', function()
      broker:signal 'USR1'
      assert(wait.poll(function() return c:document('STATS').draining end))
      c:ok 'DECLARE queue q'
      c:expect_answer('PUB - q 1\r\nb', DRAINS)
    end)

    it('is told what is wrong', function()
      assert.matches("^ERR syntax DRAIN has no flag 'on'", c:request 'DRAIN on')
    end)
  end)

  it('sends any request from the command line', function()
    local function request(...) return broker:cli('request', ...) end
    assert.equal('OK\n', request('DECLARE', 'queue', 'asked'))
    assert.equal('OK 0\n', request 'PURGE asked')
    assert.matches('"queue":"asked"', request('STATS', 'asked'))
    assert.matches('use tidemq get', request('GET', 'asked'))
    assert.matches('there is no connection 12345', request('KILL', 'connection', '12345'))
  end)
end)
