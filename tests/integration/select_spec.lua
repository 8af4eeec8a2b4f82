-- Messages that a request changes by what they have: REMOVE, RESCHEDULE, KICK and PURGE with match=,
-- and `dry`. Another priority for a message that waits.
local Broker = require 'support.broker'
local Http = require 'support.http'
local traffic = require 'support.traffic'

local WINDOW = { '--window-messages', '16', '--fsync', 'no' }

-- The same of queues of all kinds: with a backlog, with several shards, in memory.
local kinds = {
  { name = 'a durable queue', declare = '' },
  { name = 'a durable queue of four shards', declare = ' shards=4 sharding=round_robin' },
  { name = 'a queue in memory', declare = ' durable=0' },
}

describe('messages that match', function()
  local broker, c, http

  setup(function() broker = Broker.start { http = '127.0.0.1:0', args = WINDOW } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c, http = broker:enter_vhost(), Http.connect(broker) end)
  after_each(function()
    http:close()
    c:close()
  end)

  local function declare(options) c:ok('DECLARE queue jobs' .. options) end

  --- One in three is gold, the others are iron.
  local function publish(count, options)
    traffic.publish(c, 'jobs', count, function(i)
      return nil, ('%s%s'):format(i % 3 == 0 and 'h:tier=gold' or 'h:tier=iron', options or '')
    end)
  end

  --- Three gold ones and six iron ones of each state; held ones are those of the second connection.
  local function fill(holder)
    publish(9)
    holder:send 'GET jobs max=9\r\n'
    holder:expect_line 'OK 9'
    for _ = 1, 9 do holder:expect_msg() end
    holder:expect_answer('NACK 1-9 bury', 'OK 9')
    publish(9)
    holder:send 'GET jobs max=9\r\n'
    holder:expect_line 'OK 9'
    for _ = 1, 9 do holder:expect_msg() end
    publish(9, ' delay=1h')
    publish(9)
    traffic.expect_counts(c, 'jobs', { ready = 9, delayed = 9, unacked = 9, buried = 9 })
  end

  for _, kind in ipairs(kinds) do
    describe('in ' .. kind.name, function()
      local holder

      before_each(function()
        declare(kind.declare .. ' retry=none')
        holder = broker:connect()
      end)
      after_each(function() holder:close() end)

      it('are removed in every state, and their holders have lost them', function()
        fill(holder)
        c:expect_answer('REMOVE jobs match=h:tier=gold dry', 'OK 12')
        traffic.expect_counts(c, 'jobs', { ready = 9, delayed = 9, unacked = 9, buried = 9 })
        c:expect_answer('REMOVE jobs match=h:tier=gold', 'OK 12')
        c:expect_answer('REMOVE jobs match=h:tier=gold', 'OK 0')
        traffic.expect_counts(c, 'jobs', { ready = 6, delayed = 6, unacked = 6, buried = 6 })
        assert.equal(12, c:stats('jobs').removed)
        assert.matches('^OK 6$', holder:request 'ACK 10-18')
      end)

      it('are purged, but for those that are held', function()
        fill(holder)
        c:expect_answer('PURGE jobs dry', 'OK 27')
        c:expect_answer('PURGE jobs match=h:tier=iron dry', 'OK 18')
        c:expect_answer('PURGE jobs match=h:tier=iron', 'OK 18')
        traffic.expect_counts(c, 'jobs', { ready = 3, delayed = 3, unacked = 9, buried = 3 })
        c:expect_answer('PURGE jobs match=text:nothing', 'OK 0')
      end)

      it('are kicked, so many at most', function()
        fill(holder)
        c:expect_answer('KICK jobs dry', 'OK 9')
        c:expect_answer('KICK jobs 2 match=h:tier=gold dry', 'OK 2')
        c:expect_answer('KICK jobs 2 match=h:tier=gold', 'OK 2')
        c:expect_answer('KICK jobs match=h:tier=gold', 'OK 1')
        traffic.expect_counts(c, 'jobs', { ready = 12, delayed = 9, unacked = 9, buried = 6 })
      end)

      it('are rescheduled, each once', function()
        fill(holder)
        c:expect_answer('RESCHEDULE jobs match=h:tier~go* delay=2h dry', 'OK 9')
        c:expect_answer('RESCHEDULE jobs match=h:tier=gold delay=2h', 'OK 9')
        traffic.expect_counts(c, 'jobs', { ready = 6, delayed = 15, unacked = 9, buried = 6 })
        c:expect_answer('RESCHEDULE jobs match=h:tier=gold delay=0', 'OK 9')
        c:expect_answer('RESCHEDULE jobs match=h:tier=gold delay=0', 'OK 0')
        traffic.expect_counts(c, 'jobs', { ready = 15, delayed = 6, unacked = 9, buried = 6 })
      end)

      it('are as many as there are, in many rounds', function()
        publish(3000)
        c:expect_answer('RESCHEDULE jobs match=h:tier=gold delay=1h', 'OK 1000')
        traffic.expect_counts(c, 'jobs', { ready = 2000, delayed = 1000 })
        c:expect_answer('RESCHEDULE jobs match=h:tier=gold delay=0 pri=3', 'OK 1000')
        c:expect_answer('REMOVE jobs match=h:tier=gold', 'OK 1000')
        c:expect_answer('PURGE jobs match=h:tier=iron', 'OK 2000')
        traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 0, unacked = 0, buried = 0 })
      end)
    end)

    it('have another priority, in ' .. kind.name .. ', and keep their states', function()
      declare(kind.declare .. ' priority=strict')
      publish(60)
      publish(6, ' delay=1h')
      c:expect_answer('RESCHEDULE jobs match=h:tier=gold pri=9 dry', 'OK 22')
      c:expect_answer('RESCHEDULE jobs match=h:tier=gold pri=9', 'OK 22')
      c:expect_answer('RESCHEDULE jobs match=h:tier=gold pri=9', 'OK 0')
      traffic.expect_counts(c, 'jobs', { ready = 60, delayed = 6 })
      c:expect_answer('RESCHEDULE jobs match=h:tier delay=0', 'OK 6')
      for i, m in ipairs(c:document('PEEK jobs 23').messages) do assert.equal(i <= 22 and 9 or 0, m.priority) end
      assert.equal(66, #traffic.take(c, 'jobs', 66))
    end)
  end

  it('have another priority whether they wait for their group, for their next attempt, or are buried', function()
    declare ' priority=strict order-by=h:g retry=fixed retry.delay=1h'
    for _ = 1, 40 do c:ok('PUB - jobs h:g=1', 'text') end
    c:send 'GET jobs\r\n'
    c:expect_line 'OK 1'
    c:expect_answer('NACK ' .. c:expect_msg().tag, 'OK 1')
    c:ok('PUB - jobs h:g=2', 'text')
    c:send 'GET jobs\r\n'
    c:expect_line 'OK 1'
    c:expect_answer(('NACK %s bury'):format(c:expect_msg().tag), 'OK 1')
    c:expect_answer('RESCHEDULE jobs match=text pri=5', 'OK 41')
    traffic.expect_counts(c, 'jobs', { ready = 39, delayed = 1, buried = 1, unacked = 0 })
    for _, state in ipairs { 'ready', 'delayed', 'buried' } do
      for _, m in ipairs(c:document('PEEK jobs 100 state=' .. state).messages) do assert.equal(5, m.priority) end
    end
    c:expect_answer('GET jobs max=100', 'OK 0') -- its group waits for the first
    c:expect_answer('RESCHEDULE jobs match=text delay=0', 'OK 2')
    c:send 'GET jobs max=100\r\n'
    c:expect_line 'OK 2' -- one of each group
  end)

  it('are changed for good, after kill -9 of broker and Redis', function()
    declare ' priority=strict'
    publish(300)
    local last = c:ok('PUB - jobs', 'last'):match '^%x+'
    c:expect_answer('REMOVE jobs match=h:tier=gold', 'OK 100')
    c:expect_answer('RESCHEDULE jobs match=h:tier pri=1', 'OK 200')
    c:expect_answer(('RESCHEDULE jobs %s pri=200'):format(last), 'OK 1')
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    traffic.expect_counts(c, 'jobs', { ready = 201, delayed = 0 })
    assert.equal(200, c:document('FIND jobs ' .. last).priority)
    local payloads = traffic.take(c, 'jobs', 201)
    assert.equal('last', payloads[1])
    http = Http.connect(broker)
  end)

  it('are changed over HTTP and from the command line, too', function()
    declare ''
    publish(9)
    local at = '/api/vhosts/' .. broker.vhost .. '/queues/jobs'
    assert.equal(3, http:expect(200, 'DELETE', at .. '/messages?match=h:tier%3Dgold&dry=true').count)
    assert.equal(3, http:expect(200, 'DELETE', at .. '/messages?match=h:tier%3Dgold').count)
    assert.equal(6, http:expect(200, 'POST', at .. '/reschedule', { match = 'h:tier', delay = '1h', pri = 7 }).count)
    assert.equal(0, http:expect(200, 'POST', at .. '/kick', { match = 'h:tier' }).count)
    assert.equal(6, http:expect(200, 'POST', at .. '/purge', { match = 'h:tier=iron', dry = true }).count)
    assert.matches('6', (broker:cli('reschedule', 'jobs', '--match', 'h:tier=iron', '--delay', '0')))
    assert.matches('6', (broker:cli('remove', 'jobs', '--match', 'h:tier=iron', '--dry')))
    assert.matches('6', (broker:cli('purge', 'jobs', '--match', 'h:tier=iron')))
    traffic.expect_counts(c, 'jobs', { ready = 0, delayed = 0 })
    assert.matches('^match is missing: expected', http:request('DELETE', at .. '/messages').json.error.text)
  end)

  it('are not asked for in two ways, and not of a topic', function()
    local id = '0000000000000001'
    declare ''
    c:ok 'DECLARE topic events'
    for request, answer in pairs {
      ['REMOVE jobs'] = 'ERR syntax REMOVE needs ids of messages, 16 hex digits each, or match=',
      ['REMOVE jobs dry'] = 'ERR syntax REMOVE needs ids of messages, 16 hex digits each, or match=',
      ['REMOVE jobs match=h:'] = 'ERR syntax match=h:: expected <text>',
      [('REMOVE jobs %s match=a'):format(id)] = 'ERR syntax REMOVE takes ids, or match= and perhaps dry, not both',
      [('REMOVE jobs %s dry'):format(id)] = 'ERR syntax REMOVE takes ids, or match= and perhaps dry, not both',
      ['RESCHEDULE jobs match=a'] =
        'ERR syntax RESCHEDULE needs delay=, a duration from 0s to 3660d, or pri=, a number from 0 to 255',
      ['RESCHEDULE jobs match=a pri=256'] = 'ERR syntax pri=256: expected a number from 0 to 255',
      [('KICK jobs id=%s dry'):format(id)] = 'ERR syntax KICK takes id=, or match= and dry, not both',
      ['PURGE events match=a'] = "ERR syntax match= and dry are for queues, and 'events' is a topic",
    } do assert.equal(answer, c:request(request):sub(1, #answer)) end
  end)

  it('are changed although their asker has gone, and others are served meanwhile', function()
    declare ' durable=0'
    publish(3000)
    local other = broker:connect()
    other:send 'REMOVE jobs match=h:tier=iron\r\nPING\r\n'
    other:close()
    c:ok 'PING'
    traffic.expect_counts(c, 'jobs', { ready = 1000 })
  end)
end)
