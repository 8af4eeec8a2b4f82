-- GET of topics: group=, long polling, order, and reads by partition= and offset=.
local Broker = require 'support.broker'
local topics = require 'support.topics'
local wait = require 'support.wait'

local LOST = topics.LOST

describe('GET of a topic', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  local function declare(options) topics.declare(c, options) end
  local function publish(...) topics.publish(c, ...) end

  --- The next answer to a GET has these messages.
  local function expect_answer(client, ...)
    client:expect_line('OK ' .. select('#', ...))
    return topics.expect_payloads(client, ...)
  end

  local function pull(client, words, ...)
    client:send(('GET t %s\r\n'):format(words))
    return expect_answer(client, ...)
  end

  --- A request that waits.
  local function begin(words)
    local client = broker:connect()
    client:send(('GET t %s\r\n'):format(words))
    return client
  end

  local function group(name) return topics.group(c, name) end

  local function expect_waiting(name, count)
    assert(wait.poll(function() return (group(name) or {}).gets == count end), 'the number of GETs that wait')
  end

  describe('with a group', function()
    it('answers with messages in order, and what was not read yet', function()
      declare()
      publish('a', 'b', 'c')
      c:send 'GET t group=g max=2\r\n'
      c:expect_line 'OK 2'
      local m = c:expect_msg()
      assert.equal(('MSG - 1 1 - t id=%s ts=%s partition=0 offset=0 1'):format(m.options.id, m.options.ts), m.line)
      assert.equal('b', c:expect_msg().payload)
      assert.equal('2', c:ok 'ACK 1-2')
      local last = pull(c, 'group=g max=10', 'c')
      assert.equal('2', last.options.offset)
      assert.equal('3', last.tag)
      c:ok 'ACK 3'
      pull(c, 'group=g')
      assert.equal(0, group('g').lag)
      assert.equal(3, group('g').partitions[1].committed)
    end)

    it('needs no acks with ack=auto', function()
      declare()
      publish('a', 'b')
      assert.equal('-', pull(c, 'group=g ack=auto', 'a').tag)
      pull(c, 'group=g ack=auto', 'b')
      pull(c, 'group=g ack=auto')
      assert.equal(2, group('g').partitions[1].committed)
      assert.equal(2, c:stats('t').delivered)
    end)

    it('keeps what it has committed in Redis', function()
      declare()
      publish('a', 'b')
      pull(c, 'group=g', 'a')
      c:ok 'ACK 1'
      assert(wait.poll(function()
        return broker:redis_cli('HGET', ('tide:{%s/t#0}:groups'):format(broker.vhost), 'g') == '1'
      end))
    end)

    it('takes nothing of a partition that somebody holds messages of', function()
      declare()
      publish('a', 'b', 'c')
      pull(c, 'group=g', 'a')
      pull(c, 'group=g')
      local other = broker:connect()
      pull(other, 'group=g')
      pull(other, 'group=h', 'a') -- another group
      c:ok 'ACK 1'
      pull(other, 'group=g', 'b')
      other:close()
    end)

    it('goes on beside what is held with order=0', function()
      declare 'partitions=1 order=0'
      publish('a', 'b', 'c')
      pull(c, 'group=g', 'a')
      pull(c, 'group=g max=9', 'b', 'c')
      c:ok 'ACK 1-3'
    end)

    it('lets several clients work side by side, each on a partition of its own', function()
      declare 'partitions=4'
      local where = {}
      for i = 0, 7 do
        local partition = c:ok('PUB - t h:k=' .. i, tostring(i)):match '(%d+):%d+$'
        where[partition] = (where[partition] or 0) + 1
      end
      local partitions, seen, clients = 0, {}, {}
      for _ in pairs(where) do partitions = partitions + 1 end
      for i = 1, partitions do
        clients[i] = broker:connect()
        local messages = clients[i]:get 't group=g max=10'
        local partition = messages[1].options.partition
        assert.is_nil(seen[partition])
        seen[partition] = true
        assert.equal(where[partition], #messages)
        for at, m in ipairs(messages) do
          assert.equal(partition, m.options.partition)
          assert.equal(at - 1, tonumber(m.options.offset))
        end
      end
      pull(c, 'group=g')
      for _, client in ipairs(clients) do client:close() end
    end)

    it('takes from the partitions in turn', function()
      declare 'partitions=3 sharding=round_robin'
      for i = 1, 9 do c:ok('PUB - t', tostring(i)) end
      local order = {}
      for i = 1, 9 do order[i] = c:get('t group=g ack=auto')[1].options.partition end
      for i = 4, 9 do assert.equal(order[i - 3], order[i]) end
      assert.is_truthy(order[1] ~= order[2] and order[2] ~= order[3] and order[1] ~= order[3])
    end)

    it('begins where from= says, when the group is new', function()
      declare()
      publish('a', 'b', 'c')
      pull(c, 'group=g1 from=1', 'b')
      pull(c, 'group=g2 from=last')
      publish 'd'
      pull(c, 'group=g2 from=first', 'd')
      pull(c, 'group=g3 from=@0', 'a')
      pull(c, 'group=g4 from=1d max=9', 'a', 'b', 'c', 'd')
    end)

    it('has nothing while the group has a subscription', function()
      declare 'partitions=2'
      local other = broker:connect()
      other:send 'SUB t s group=g prefetch=1\r\n'
      other:expect_line 'OK'
      other:expect_line 'EVT assigned s 0,1'
      publish 'a'
      other:expect_msg()
      publish 'b'
      pull(c, 'group=g')
      other:close()
    end)

    it('is shared with subscriptions that come: they go on when what was pulled is settled', function()
      declare()
      publish('a', 'b')
      pull(c, 'group=g', 'a')
      local other = broker:connect()
      other:send 'SUB t s group=g\r\n'
      other:expect_line 'OK'
      other:expect_line 'EVT assigned s 0'
      other:expect_nothing()
      c:ok 'ACK 1'
      assert.equal('b', other:expect_msg().payload)
      other:close()
    end)

    it('gives again what was refused, was not acknowledged in time or was left by its consumer', function()
      declare 'partitions=1 ack-timeout=100ms retry=immediate'
      publish 'a'
      assert.equal(1, pull(c, 'group=g ack-timeout=1h', 'a').attempt)
      c:ok 'NACK 1'
      local m = pull(c, 'group=g wait=10s', 'a')
      assert.equal(2, m.attempt)
      assert.is_true(m.redelivered)
      assert.equal(3, pull(c, 'group=g wait=10s ack-timeout=1h', 'a').attempt) -- after 100 ms
      c:expect_answer('NACK 2', 'ERR lease-lost tag 2 ' .. LOST)
      c:ok 'TOUCH 3'
      local other = begin 'group=g wait=10s'
      c:close()
      assert.equal(4, expect_answer(other, 'a').attempt)
      c = other
      c:send 'HELP\r\n'
      c:expect_data()
      assert.equal('1', c:ok 'ACK 1')
    end)

    it('ends an answer at 1 MiB', function()
      declare()
      local large = ('x'):rep(400000)
      publish(large, large, large, large)
      assert.equal(3, #c:get 't group=g max=100')
      c:ok 'ACK 1-3'
      assert.equal(1, #c:get 't group=g max=100')
    end)

    it('works in memory alone too', function()
      declare 'partitions=2 durable=0 sharding=round_robin'
      publish('a', 'b')
      pull(c, 'group=g', 'a')
      pull(c, 'group=g', 'b')
      c:ok 'ACK 1-2'
      publish 'c'
      pull(c, 'group=g', 'c')
    end)

    it('is shown by LIST while it waits', function()
      declare()
      local other = begin 'group=g wait=1h'
      expect_waiting('g', 1)
      local shown = c:document('LIST consumers')[1]
      assert.equal('get', shown.kind)
      assert.equal('t', shown.queue)
      assert.equal('g', shown.group)
      c:expect_answer('DELETE group t g', "ERR exists group 'g' is in use: 1 GETs wait for it")
      c:ok 'DELETE topic t'
      other:expect_line "ERR not-found topic 't' was deleted"
      other:close()
    end)
  end)

  describe('that waits', function()
    it('is answered when a message comes', function()
      declare 'partitions=8'
      local other = begin 'group=g wait=1h'
      expect_waiting('g', 1)
      publish 'a'
      expect_answer(other, 'a')
      expect_waiting('g', 0)
      other:close()
    end)

    it('is answered when what another holds is settled', function()
      declare()
      publish('a', 'b', 'c')
      pull(c, 'group=g', 'a')
      local other = begin 'group=g wait=1h max=9'
      expect_waiting('g', 1)
      c:ok 'ACK 1'
      expect_answer(other, 'b', 'c')
      other:close()
    end)

    it('is answered when another gives it back, in order', function()
      declare 'partitions=1 retry=immediate'
      publish('a', 'b', 'c')
      pull(c, 'group=g max=2', 'a', 'b')
      local other = begin 'group=g wait=1h max=9'
      expect_waiting('g', 1)
      c:ok 'NACK 2'
      expect_waiting('g', 1)
      c:ok 'NACK 1'
      expect_answer(other, 'a', 'b', 'c')
      other:close()
    end)

    it('is answered when the last subscription of its group ends', function()
      declare()
      c:send 'SUB t s group=g prefetch=1\r\n'
      c:expect_line 'OK'
      c:expect_line 'EVT assigned s 0'
      c:send 'PUB - t 1\r\na\r\nPUB - t 1\r\nb\r\n'
      c:expect '^OK'
      c:expect '^OK'
      c:expect_msg()
      local other = begin 'group=g wait=1h'
      expect_waiting('g', 1)
      c:ok 'UNSUB s'
      expect_waiting('g', 1) -- a is held
      c:ok 'ACK 1'
      expect_answer(other, 'b')
      other:close()
    end)

    it('is answered when the channel of a member ends', function()
      declare()
      local member = broker:connect()
      member:send 'SUB t s group=g\r\n'
      member:expect_line 'OK'
      member:expect_line 'EVT assigned s 0'
      publish 'a'
      member:expect_msg()
      local other = begin 'group=g wait=1h'
      expect_waiting('g', 1)
      member:close()
      assert.equal(2, expect_answer(other, 'a').attempt)
      other:close()
    end)

    it('is answered when SEEK goes back', function()
      declare()
      publish('a', 'b')
      pull(c, 'group=g max=2 ack=auto', 'a', 'b')
      local other = begin 'group=g wait=1h'
      expect_waiting('g', 1)
      c:ok 'SEEK t g 1'
      expect_answer(other, 'b')
      other:close()
    end)

    it('is served in the order of arrival', function()
      declare()
      local clients = {}
      for i = 1, 4 do
        clients[i] = begin 'group=g wait=1h ack=auto'
        expect_waiting('g', i)
      end
      clients[2]:close()
      expect_waiting('g', 3)
      for _, i in ipairs { 1, 3, 4 } do
        publish(tostring(i))
        expect_answer(clients[i], tostring(i))
      end
    end)

    it('is answered OK 0 when its time is over, or its channel is closed', function()
      declare()
      pull(c, 'group=g wait=20ms')
      c:send '@1 OPEN\r\n@1 GET t group=g wait=1h\r\n@1 CLOSE\r\n'
      c:expect_line '@1 OK'
      c:expect_line '@1 OK 0'
      c:expect_line '@1 OK'
      expect_waiting('g', 0)
      publish 'a'
      pull(c, 'group=g', 'a')
    end)

    it('gives back what it took when its channel is closed', function()
      declare 'partitions=1 retry=immediate'
      publish('a', 'b')
      c:send '@1 OPEN\r\n@1 GET t group=g max=2\r\n'
      c:expect_line '@1 OK'
      c:expect_line '@1 OK 2'
      c:expect_msg(nil, 1)
      c:expect_msg(nil, 1)
      c:send '@1 CLOSE\r\n'
      c:expect_line '@1 OK'
      pull(c, 'group=g max=9 wait=10s', 'a', 'b')
    end)

    it('stands beside others of other groups', function()
      declare()
      local clients = {}
      for i = 1, 3 do clients[i] = begin('wait=1h group=g' .. i) end
      for i = 1, 3 do expect_waiting('g' .. i, 1) end
      publish 'a'
      for i = 1, 3 do
        expect_answer(clients[i], 'a')
        clients[i]:close()
      end
    end)
  end)

  describe('without a group', function()
    it('reads from an offset on and holds nothing', function()
      declare 'partitions=1'
      publish('a', 'b', 'c')
      local m = pull(c, 'partition=0 offset=1', 'b')
      assert.equal(('MSG - - 1 - t id=%s ts=%s partition=0 offset=1 1'):format(m.options.id, m.options.ts), m.line)
      pull(c, 'partition=0 offset=first max=2', 'a', 'b')
      pull(c, 'partition=0 offset=0 max=10', 'a', 'b', 'c')
      pull(c, 'partition=0 offset=last')
      pull(c, 'partition=0 offset=3')
      pull(c, 'partition=0 offset=1d', 'a')
      pull(c, 'partition=0 offset=2026-01-01 max=2', 'a', 'b')
      assert.same({}, c:document 'LIST groups')
      assert.equal('', broker:redis_cli('HGETALL', ('tide:{%s/t#0}:groups'):format(broker.vhost)))
    end)

    it('reads one partition', function()
      declare 'partitions=2 sharding=round_robin'
      publish('a', 'b', 'c', 'd')
      local first = c:get 't partition=0 offset=0 max=10'
      local second = c:get 't partition=1 offset=0 max=10'
      assert.equal('ac', first[1].payload .. first[2].payload)
      assert.equal('bd', second[1].payload .. second[2].payload)
    end)

    it('waits for the first message at the offset or behind it', function()
      declare()
      publish 'a'
      local next_one = begin 'partition=0 offset=1 wait=1h'
      local later = begin 'partition=0 offset=3 wait=1h max=5'
      assert(wait.poll(function() return #c:document 'LIST consumers' == 2 end))
      publish('b', 'c')
      expect_answer(next_one, 'b')
      assert.equal(1, #c:document 'LIST consumers')
      publish 'd'
      assert.equal('3', expect_answer(later, 'd').options.offset)
      pull(c, 'partition=0 offset=7 wait=20ms')
      next_one:close()
      later:close()
    end)

    it('says what a GET of a topic needs', function()
      declare 'partitions=2'
      c:ok 'DECLARE queue q'
      local function refused(words, why) c:expect_answer('GET ' .. words, 'ERR ' .. why) end
      local needs = "syntax GET of topic 't' takes group=, or else partition= and offset="
      refused('t', needs)
      refused('t partition=0', needs)
      refused('t offset=0', needs)
      refused('t partition=0 offset=0 from=1',
        'syntax from= says where a group begins, and this GET has none: offset= says where it reads')
      refused('t group=g partition=0', needs)
      refused('t group=g offset=0', needs)
      refused('t partition=0 offset=committed',
        'syntax offset=committed needs a group: who reads without one commits nothing')
      refused('t partition=2 offset=0', "not-found topic 't' has no partition 2: it has 2, from 0 on")
      for _, words in ipairs { 't q group=g', 'q t', 't group=g id=687f6b32f9000000', 't group=g match=x' } do
        refused(words, "syntax GET of topic 't' names nothing else, and takes no id= and no match=")
      end
      for _, option in ipairs { 'ack=manual', 'ack-timeout=1s' } do
        refused('t partition=0 offset=0 ' .. option,
          'syntax a GET with offset= gives nothing to hold: ack=manual and ack-timeout= need group=')
      end
      for _, option in ipairs { 'group=g', 'from=0', 'partition=0', 'offset=0' } do
        refused('q ' .. option, "syntax group=, from=, partition= and offset= are for topics, and 'q' is a queue")
        refused('x ' .. option, "not-found there is no topic 'x' in vhost '" .. broker.vhost .. "'")
      end
      pull(c, 'partition=0 offset=0 ack=auto')
    end)
  end)
end)

describe('GET of a topic whose messages are in Redis', function()
  local COUNT = 5000
  local broker, c

  local function payload(i) return ('%d '):format(i) .. ('x'):rep(1000) end

  setup(function()
    broker = Broker.start { args = { '--topic-memory', '1M' } }
    c = broker:enter_vhost()
    c:ok 'DECLARE topic t partitions=2 sharding=round_robin'
    for from = 1, COUNT, 500 do
      local lines = {}
      for i = from, from + 499 do lines[#lines + 1] = ('PUB - t %d\r\n%s\r\n'):format(#payload(i), payload(i)) end
      c:send(table.concat(lines))
      for _ = 1, 500 do c:expect '^OK' end
    end
  end)
  teardown(function() broker:expect_clean_stop() end)

  --- Take all, in answers of 1000 at most: how many of each partition.
  local function catch_up(next_request)
    local ends = { ['0'] = 0, ['1'] = 0 }
    while true do
      local messages = c:get(next_request(ends))
      if #messages == 0 then return ends end
      for _, m in ipairs(messages) do
        assert.equal(ends[m.options.partition], tonumber(m.options.offset))
        ends[m.options.partition] = ends[m.options.partition] + 1
      end
      local last = messages[#messages].tag
      if last ~= '-' then c:ok(('ACK %s-%s'):format(messages[1].tag, last)) end
    end
  end

  local function read_batches() return c:document('STATS').logs.read_batches end

  it('catches up, without waiting for what is not there', function()
    local before = read_batches()
    local ends = catch_up(function() return 't group=g max=1000' end)
    assert.same({ ['0'] = COUNT / 2, ['1'] = COUNT / 2 }, ends)
    assert.is_true(read_batches() > before)
    for _, g in ipairs(c:document 'LIST groups') do assert.equal(0, g.lag) end
  end)

  it('is read by its offsets', function()
    local ends = catch_up(function(ends)
      local partition = ends['0'] < COUNT / 2 and '0' or '1'
      return ('t partition=%s offset=%d max=1000'):format(partition, ends[partition])
    end)
    assert.same({ ['0'] = COUNT / 2, ['1'] = COUNT / 2 }, ends)
  end)

  it('goes on behind what was acknowledged after a kill -9 of the broker', function()
    local messages = c:get 't group=k max=10'
    c:ok(('ACK %s-%s'):format(messages[1].tag, messages[6].tag))
    local partition = messages[1].options.partition
    assert(wait.poll(function()
      return broker:redis_cli('HGET', ('tide:{%s/t#%s}:groups'):format(broker.vhost, partition), 'k') == '6'
    end))
    broker:kill9()
    broker:restart()
    c = broker:connect()
    local again = {}
    for _ = 1, 2 do
      local m = c:get('t group=k wait=10s')[1]
      again[m.options.partition] = tonumber(m.options.offset)
    end
    assert.same({ [partition] = 6, [partition == '0' and '1' or '0'] = 0 }, again)
    assert.equal(payload(1), c:get('t partition=0 offset=first wait=10s')[1].payload)
  end)
end)
