-- LIST: orders, pages, what is looked for, and who may ask.
local Broker = require 'support.broker'
local Client = require 'support.client'
local wait = require 'support.wait'

describe('LIST', function()
  local broker, c, other

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    other = broker:connect()
  end)
  after_each(function()
    c:close()
    other:close()
  end)

  local function names(request, member)
    local all = {}
    for i, row in ipairs(c:document(request)) do all[i] = row[member or 'name'] end
    return table.concat(all, ' ')
  end

  local function publish(queue, count)
    for _ = 1, count do other:ok('PUB - ' .. queue, 'x') end
  end

  describe('of queues', function()
    before_each(function()
      for _, name in ipairs { 'mid', 'Zeta', 'alpha', 'beta' } do c:ok('DECLARE queue ' .. name) end
      publish('mid', 3)
      publish('beta', 1)
      publish('Zeta', 1)
    end)

    it('is in the order of names, or of a figure, the largest first', function()
      assert.equal('Zeta alpha beta mid', names 'LIST queues')
      assert.equal('mid beta alpha Zeta', names 'LIST queues order=desc')
      assert.equal('mid Zeta beta alpha', names 'LIST queues sort=ready')
      assert.equal('alpha Zeta beta mid', names 'LIST queues sort=ready order=asc')
    end)

    it('is sorted by each of its states', function()
      c:ok 'DECLARE queue dead retry=none'
      publish('dead', 1)
      c:ok 'GET dead'
      c:expect_msg()
      c:ok 'NACK 1 bury'
      c:ok 'GET beta'
      c:expect_msg()
      c:ok('PUB - alpha delay=1h', 'later')
      assert.matches('^beta ', names 'LIST queues sort=unacked')
      assert.matches('^alpha ', names 'LIST queues sort=delayed')
      assert.matches('^dead ', names 'LIST queues sort=buried')
    end)

    it('is sorted by the age of the oldest message; those without one come last', function()
      assert(wait.poll(function() return c:stats('mid').oldest_ready_ms >= 20 end))
      other:ok('PUB - alpha', 'young')
      local rows = c:document 'LIST queues sort=age'
      assert.equal('alpha', rows[4].name)
      assert.is_true(rows[1].oldest_ready_ms >= 20 and rows[4].oldest_ready_ms < rows[1].oldest_ready_ms)
      other:ok 'PURGE Zeta'
      rows = c:document 'LIST queues sort=age'
      assert.equal('Zeta', rows[4].name)
      assert.is_nil(rows[4].oldest_ready_ms)
    end)

    it('is sorted by rates and consumers', function()
      other:ok 'SUB alpha s'
      other:ok 'SUB alpha t'
      other:ok 'SUB beta u'
      assert.equal('alpha beta Zeta mid', names 'LIST queues sort=consumers')
      other:expect_msg()
      -- A rate counts whole seconds, and the publishes may lie in two of them.
      assert(wait.poll(function() return names 'LIST queues sort=in' == 'mid Zeta beta alpha' end))
      local row
      assert(wait.poll(function()
        row = c:document('LIST queues sort=out')[1]
        return row.out_10s > 0
      end))
      assert.same({ 'beta', 0.1 }, { row.name, row.out_10s })
    end)

    it('has only those with a part in the name, whatever its case', function()
      assert.equal('Zeta alpha beta', names 'LIST queues match=A')
      assert.equal('Zeta beta', names 'LIST queues match=eTa')
      assert.equal('', names 'LIST queues match=none')
      c:ok 'DECLARE queue per%cent'
      assert.equal('per%cent', names 'LIST queues match=%25')
    end)

    it('is without the topics, and these without the queues', function()
      c:ok 'DECLARE topic t'
      assert.equal('t', names 'LIST topics')
      assert.equal('Zeta alpha beta mid', names 'LIST queues')
    end)

    it('is empty behind the last', function()
      assert.equal('mid', names 'LIST queues offset=3')
      assert.equal('', names 'LIST queues offset=4')
      assert.equal('', names 'LIST queues offset=4294967295 max=4294967295')
    end)
  end)

  describe('in pages', function()
    local COUNT = 700

    before_each(function()
      local parts = {}
      for i = 1, COUNT do
        parts[i] = ('DECLARE queue q%d quiet durable=0\r\n'):format(i * 7919 % COUNT)
        if i % 7 == 0 then parts[i] = parts[i] .. ('PUB - q%d quiet 1\r\nx\r\n'):format(i * 7919 % COUNT) end
      end
      c:send(table.concat(parts))
    end)

    for _, order in ipairs { '', ' order=desc', ' sort=ready', ' sort=ready order=asc', ' match=5', ' sort=age' } do
      it('has each queue once:' .. order, function()
        local whole, pages = names('LIST queues' .. order), {}
        for offset = 0, COUNT, 90 do
          local page = names(('LIST queues max=90 offset=%d%s'):format(offset, order))
          if page ~= '' then pages[#pages + 1] = page end
        end
        assert.equal(whole, table.concat(pages, ' '))
      end)
    end

    it('has one order of ages, however many turns it takes', function()
      local function by_age()
        local list = {}
        c:send 'LIST queues sort=age\r\n'
        for name in c:expect_data():gmatch '"name":"([qr]%d+)"' do list[#list + 1] = name end
        return table.concat(list, ' ')
      end
      local parts = {}
      for i = 1, 10000 do
        parts[i] = ('DECLARE queue r%d quiet durable=0\r\nPUB - r%d quiet 1\r\nx\r\n'):format(i, i)
      end
      c:send(table.concat(parts))
      assert.equal(by_age(), by_age())
    end)

    it('goes on for others when a session ends that waits for it', function()
      other:send(('LIST queues\r\n'):rep(5))
      other:close()
      assert.equal(COUNT, #c:document 'LIST queues')
    end)
  end)

  it('goes on over turns while queues come and go', function()
    local COUNT = 5000
    local parts, doomed = {}, {}
    for i = 1, COUNT do
      parts[i] = ('DECLARE queue q%05d quiet durable=0\r\n'):format(i)
      if i % 3 == 0 then doomed[#doomed + 1] = ('DELETE queue q%05d quiet\r\n'):format(i) end
    end
    c:send(table.concat(parts)):expect_nothing()
    for _, order in ipairs { '', ' sort=ready order=asc' } do
      c:send('LIST queues' .. order .. '\r\nLIST vhosts\r\n')
      for _ = 1, 300 do
        if #doomed > 0 then other:send(table.remove(doomed, math.random(#doomed))) end
      end
      other:send('DECLARE queue new durable=0\r\n'):expect_line 'OK'
      local seen, last = {}, ''
      for _, row in ipairs(c:expect_json()) do
        assert.is_nil(seen[row.name], row.name)
        assert.is_true(last < row.name)
        seen[row.name], last = true, row.name
      end
      c:expect_data()
      local _, rows = next { c:document 'LIST queues' }
      local left = 0
      for _, row in ipairs(rows) do left = left + (seen[row.name] and 1 or 0) end
      -- What was there all the time is in the list, but for what a walk may pass over whose place has gone.
      assert.is_true(left > 0.9 * #rows, left)
    end
  end)

  it('of exchanges is sorted by what was published', function()
    for _, name in ipairs { 'a', 'b', 'c' } do c:ok('DECLARE exchange ' .. name .. ' fanout') end
    c:ok('PUB b k', 'x')
    c:ok('PUB b k', 'x')
    c:ok('PUB c k', 'x')
    assert.equal('b c a', names 'LIST exchanges sort=published')
    assert.equal('b c a', names 'LIST exchanges sort=unroutable')
    assert.equal('c', names 'LIST exchanges sort=published max=1 offset=1')
  end)

  it('of topics has the lag of the group that is the furthest behind', function()
    c:ok 'DECLARE topic calm'
    c:ok 'DECLARE topic busy'
    c:ok 'GET busy group=slow'
    c:ok 'GET calm group=quick'
    for _ = 1, 3 do c:ok('PUB - busy', 'x') end
    local rows = c:document 'LIST topics sort=lag'
    assert.same({ 'busy', 1, 3 }, { rows[1].name, rows[1].groups, rows[1].lag })
    assert.same({ 'calm', 1, 0 }, { rows[2].name, rows[2].groups, rows[2].lag })
    assert.equal('slow', names('LIST groups sort=lag max=1', 'group'))
    assert.equal('quick', names('LIST groups match=QUI', 'group'))
    assert.equal('slow quick', names('LIST groups', 'group'))
  end)

  it('of groups is in the order of topics, then of names', function()
    c:ok 'DECLARE topic b'
    c:ok 'DECLARE topic a'
    for _, group in ipairs { 'y', 'x' } do
      for _, topic in ipairs { 'b', 'a' } do c:ok(('GET %s group=%s'):format(topic, group)) end
    end
    local all = {}
    for i, row in ipairs(c:document 'LIST groups') do all[i] = row.topic .. row.group end
    assert.equal('ax ay bx by', table.concat(all, ' '))
  end)

  it('of consumers is sorted by queue, and by what they hold', function()
    c:ok 'DECLARE queue b'
    c:ok 'DECLARE queue a'
    other:ok 'SUB b first'
    other:ok 'SUB a second'
    other:ok 'SUB b third'
    assert.equal('second first third', names('LIST consumers', 'sid'))
    assert.equal('third', names('LIST consumers max=1 offset=2', 'sid'))
    assert.equal('second', names('LIST consumers match=COND', 'sid'))
    c:ok('PUB - a', 'x')
    other:expect_msg()
    assert.equal('second', names('LIST consumers sort=unacked max=1', 'sid'))
  end)

  it('of connections is sorted by number, name and what was sent', function()
    local first, second = Client.connect(broker.address), Client.connect(broker.address)
    first:document 'HELLO name=zzz-lister'
    second:document 'HELLO name=aaa-lister'
    assert.equal('zzz-lister aaa-lister', names 'LIST connections match=-LISTER')
    assert.equal('aaa-lister zzz-lister', names 'LIST connections match=-lister sort=name')
    first:send(('PING\r\n'):rep(100))
    for _ = 1, 100 do first:expect_line 'OK' end
    assert.equal('zzz-lister', names 'LIST connections match=-lister sort=bytes_in max=1')
    assert.equal('aaa-lister', names 'LIST connections match=-lister sort=bytes_in max=1 offset=1')
    first:close()
    second:close()
  end)

  it('of bindings goes by pages', function()
    c:ok 'DECLARE exchange x topic'
    c:ok 'DECLARE exchange w topic'
    c:ok 'DECLARE queue q'
    for i = 1, 5 do c:ok('BIND q x k' .. i) end
    c:ok 'BIND q w other'
    assert.equal('other k1 k2 k3 k4 k5', names('LIST bindings', 'pattern'))
    assert.equal('k3 k4', names('LIST bindings max=2 offset=3', 'pattern'))
    assert.equal('k4', names('LIST bindings match=K4', 'pattern'))
  end)

  it('of bindings is of one exchange or one destination, if asked', function()
    for _, line in ipairs { 'exchange x topic', 'exchange w topic', 'queue w', 'queue q', 'topic t' } do
      c:ok('DECLARE ' .. line)
    end
    for _, line in ipairs { 'q x 1', 'w x 2', 't x 3', 'w x 4 dest=exchange', 'q w 5', 't w 6' } do
      c:ok('BIND ' .. line)
    end
    local function patterns(options) return names('LIST bindings ' .. options, 'pattern') end
    assert.equal('1 2 3 4', patterns 'exchange=x')
    assert.equal('5 6', patterns 'exchange=w')
    assert.equal('', patterns 'exchange=none')
    assert.equal('1 5', patterns 'destination=q sort=exchange order=desc')
    assert.equal('2 4', patterns 'destination=w')
    assert.equal('4', patterns 'destination=w to=exchange')
    assert.equal('6 3', patterns 'to=topic')
    assert.equal('3', patterns 'exchange=x max=1 offset=2')
    assert.equal('3', patterns 'exchange=x match=3')
  end)

  it('of the bindings of an exchange goes on when that is deleted meanwhile', function()
    local parts = { 'DECLARE exchange big direct durable=0 quiet\r\nDECLARE exchange other direct durable=0 quiet\r\n',
      'DECLARE queue q durable=0 quiet\r\nBIND q other k quiet\r\n' }
    for i = 1, 20000 do parts[#parts + 1] = ('BIND q big k%d quiet\r\n'):format(i) end
    c:send(table.concat(parts))
    assert.equal(20000, #c:document 'LIST bindings exchange=big')
    c:send 'LIST bindings exchange=big\r\n'
    other:ok 'DELETE exchange big'
    for _, binding in ipairs(c:expect_json()) do assert.equal('big', binding.exchange) end
    assert.equal('k', names('LIST bindings', 'pattern'))
  end)

  it('of consumers is of one queue, if asked', function()
    c:ok 'DECLARE queue a'
    c:ok 'DECLARE queue b'
    c:ok 'SUB a one'
    c:ok 'SUB b two'
    assert.equal('two', names('LIST consumers queue=b', 'sid'))
    assert.equal('', names('LIST consumers queue=c', 'sid'))
  end)

  it('of locks is sorted by those who wait', function()
    c:ok 'LOCK a'
    c:ok 'LOCK b'
    assert.equal('a b', names 'LIST locks')
    assert.equal('b', names 'LIST locks offset=1')
  end)

  it('of vhosts has sums of their queues', function()
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue r'
    c:ok 'DECLARE topic t'
    c:ok 'DECLARE exchange x fanout'
    publish('q', 2)
    publish('r', 1)
    c:ok 'GET r'
    c:expect_msg()
    local row
    for _, each in ipairs(c:document 'LIST vhosts') do
      if each.ready == 2 then row = each end
    end
    row.name = nil
    assert.same({ exchanges = 1, queues = 2, topics = 1, connections = 2, ready = 2, delayed = 0, unacked = 1,
      buried = 0, on_demand = false }, row)
    assert.equal('/', names 'LIST vhosts max=1')
  end)

  describe('history', function()
    local function newest()
      local document, row = c:document 'LIST history max=1', {}
      assert.equal(5000, document.every_ms)
      if not document.rows[1] then return nil end
      for i, name in ipairs(document.columns) do row[name] = document.rows[1][i] end
      return row
    end

    it('has what happened in the last seconds, and what is there now', function()
      c:ok 'DECLARE queue q'
      publish('q', 7)
      c:ok('PUB - q delay=1h', 'later')
      c:ok 'GET q'
      c:expect_msg()
      local row
      local seen = { published = 0, delivered = 0, loop_busy = 0 }
      assert(wait.poll(function()
        row = newest()
        for name, most in pairs(row and seen or {}) do seen[name] = math.max(most, row[name]) end
        return row and row.ready >= 6 and row.unacked >= 1 and row.delayed >= 1 and seen.published > 0
          and seen.delivered > 0 and seen.loop_busy > 0
      end, 60))
      assert.is_true(row.connections >= 2 and row.oldest_ready_ms >= 0 and seen.loop_busy < 1)
      local stored = false
      for _, each in ipairs(c:document('LIST history').rows) do stored = stored or type(each[15]) == 'number' end
      assert.is_true(stored)
      assert.is_true(math.abs(row.t - os.time() * 1000) < 60000)
    end)

    it('has a sample of this moment beside it', function()
      c:ok 'DECLARE queue q'
      publish('q', 3)
      local now
      assert(wait.poll(function()
        now = c:document 'LIST now'
        return now.ready >= 3 and now.published > 0
      end))
      assert.is_true(math.abs(now.t - os.time() * 1000) < 60000)
      local verbs = require 'support.verbs'
      assert.matches('\npublished +%d', verbs.tide(broker, 'list', 'now'))
    end)

    it('has what a queue, a topic and a group did, if they are at work', function()
      c:ok 'DECLARE queue q'
      c:ok 'DECLARE queue idle'
      c:ok 'DECLARE topic t partitions=1'
      local function history(words) return c:document('LIST history ' .. words) end
      assert(wait.poll(function() -- rows come every ten seconds
        publish('q', 1)
        for _ = 1, 2 do c:ok('PUB - t', 'x') end -- the group is behind in each sample
        c:get('t group=g')
        return #history('queue=q').rows > 0 and #history('queue=t').rows > 0 and #history('queue=t group=g').rows > 0
      end, 30))
      assert.same({ 't', 'in_10s', 'out_10s', 'ready', 'unacked', 'oldest_ready_ms' }, history('queue=q').columns)
      assert.same({ 't', 'in_10s', 'out_10s', 'messages', 'lag' }, history('queue=t').columns)
      local group = history 'queue=t group=g max=1'
      assert.same({ 't', 'lag', 'lag_ms', 'members' }, group.columns)
      assert.is_true(group.rows[1][2] > 0 and math.abs(group.rows[1][1] - os.time() * 1000) < 60000)
      assert.same({}, history('queue=idle').rows)
      local verbs = require 'support.verbs'
      assert.matches('^TIME +LAG .*\n20%d%d%-', verbs.tide(broker, 'list', 'history', '--queue', 't', '--group', 'g'))
      c:expect_answer('LIST history queue=q group=g', 'ERR syntax group= needs a topic, which queue= names')
      c:expect_answer('LIST history group=g', 'ERR syntax group= needs a topic, which queue= names')
      c:expect_answer('LIST history queue=t group=h', "ERR not-found topic 't' has no group 'h'")
      assert.matches('^ERR not%-found', c:request 'LIST history queue=nope')
    end)

    it('is a table on the command line', function()
      assert(wait.poll(newest))
      local verbs = require 'support.verbs'
      assert.matches('^TIME +IN +OUT +ACKED .*\n20%d%d%-', verbs.tide(broker, 'list', 'history'))
    end)
  end)

  it('refuses what it does not know, and says what it does', function()
    c:expect_answer('LIST queues sort=size', 'ERR syntax sort=size: expected name, ready, delayed, unacked, buried, '
      .. 'age, in, out or consumers')
    c:expect_answer('LIST bindings sort=name', 'ERR syntax sort=name: expected exchange or destination')
    c:expect_answer('LIST vhosts sort=ready', 'ERR syntax sort=ready: expected name')
    c:expect_answer('LIST queues order=up', 'ERR syntax order=up: expected asc or desc')
    c:expect_answer('LIST queues max=x', 'ERR syntax max=x: expected a number from 0 to 4294967295')
    c:expect_answer('LIST queues offset=x', 'ERR syntax offset=x: expected a number from 0 to 4294967295')
    c:expect_answer('LIST rules max=1', "ERR syntax LIST rules has no option 'max'; it takes: none")
    c:expect_answer('LIST queues exchange=x', "ERR syntax LIST queues has no option 'exchange'; it takes: sort "
      .. 'order max offset match')
    c:expect_answer('LIST rules queue=q', "ERR syntax LIST rules has no option 'queue'; it takes: none")
    c:expect_answer('LIST cats', 'ERR syntax LIST takes exchanges, queues, topics, groups, bindings, consumers, '
      .. 'connections, locks, vhosts, brokers, history, now or rules')
    c:expect_answer('LIST history offset=1',
      "ERR syntax LIST history has no option 'offset'; it takes: max queue group")
  end)
end)
