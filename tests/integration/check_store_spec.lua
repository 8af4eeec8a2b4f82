-- tidemq check-store: it finds each kind of damage in a store, repairs what can be
-- repaired, and nothing else. Damage is done with redis-cli.
local Broker = require 'support.broker'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

local quote = shell.quote

local function command(...)
  local words = { quote(Broker.binary()), 'check-store' }
  for _, word in ipairs { ... } do words[#words + 1] = quote(word) end
  return table.concat(words, ' ') .. ' 2>&1 </dev/null'
end

local function check(...) return shell.run(command(...)) end

describe('a store without a broker', function()
  local broker, redis, ids

  --- A message in each state, of each kind, and then no broker.
  setup(function()
    broker = Broker.start { redis = {} }
    redis = broker.redis
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:ok 'DECLARE queue ensured dedupe=queued'
    c:ok 'DECLARE queue split shards=4'
    c:ok 'DECLARE queue fewer shards=8 sharding=round_robin'
    for _ = 1, 8 do c:ok('PUB - fewer', 'abc') end
    c:ok 'DECLARE queue fewer shards=2 sharding=round_robin reshard'
    c:ok 'DECLARE queue sized max-bytes=1000000'
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE exchange brief topic auto-delete'
    c:ok 'BIND split orders a.*'
    c:ok 'BIND jobs brief b.*'
    c:ok 'PAUSE split in'
    ids = {}
    local function publish(name, line)
      c:send(line .. ' 3\r\nabc\r\n')
      ids[name] = c:expect '^OK (%x+) 1$'
    end
    publish('ready', 'PUB - jobs')
    publish('other', 'PUB - jobs')
    publish('delayed', 'PUB - jobs delay=1h')
    publish('expires', 'PUB - jobs ttl=1h')
    publish('sized', 'PUB - sized')
    publish('ensured', 'PUB - ensured id=once')
    publish('bound', 'PUB brief b.x')
    broker:expect_clean_stop()
    redis:cli('HSET', '{tide}:/:topic-options', 'events', 'partitions=2')
    redis:cli('SADD', '{tide}:/:topics', 'events')
    redis:cli('SADD', '{tide}:/:topic:events', 0, 1)
    redis:cli('HSET', 'tide:{//events#0}:log', 'start', 0, 'largest', 10)
    redis:cli('HSET', 'tide:{//events#1}:groups', 'billing', 0)
    redis:cli('SADD', '{tide}:/:bindings', 'queue events orders a.b')
    redis:cli('HSET', '{tide}:/:pauses', 'in events', 0, 'group events billing', 0)
  end)
  teardown(function() broker:destroy() end)

  local function url() return ('%s?db=%d'):format(redis.url, redis.db or 0) end
  local function run(...) return check('--store', url(), ...) end

  local function expect_clean()
    local text, status = run()
    assert.equal(0, status, text)
    assert.matches('^%d+ keys, %d+ entries: 0 findings\n$', text)
  end

  it('is clean', expect_clean)

  it('is clean with a COMMIT that a crash has cut short, and says so', function()
    redis:cli('HSET', '{tide}:commits', '1795257322468-17 6869', '*1\r\n$4\r\nPING\r\n')
    local text, status = run()
    redis:cli('HSET', '{tide}:commits', 'nonsense', 'x')
    local damaged = run()
    redis:cli('DEL', '{tide}:commits')
    assert.equal(0, status, text)
    assert.matches(': 0 findings\n{tide}:commits has a COMMIT that is not carried out in whole yet: ', text)
    assert.matches('{tide}:commits nonsense: cannot be read: should be <time>%-<number> <slot>, with commands', damaged)
  end)

  local gone = '0000000000000001'
  local function key(name) return 'tide:{//jobs#0}:' .. name end

  --- `make` and `undo` are commands of redis-cli, or functions. `finding` is the line of a
  --- check, up to what --repair would do; `did` what it has done. Without `did` the damage
  --- stays, and `undo` ends it.
  local damages = {
    {
      name = 'a message in no set', make = function() redis:cli('ZREM', key 'ready', ids.ready) end,
      finding = function() return key 'msg' .. ' ' .. ids.ready .. ': the message is in no set' end,
      would = 'makes it ready', did = 'made it ready',
      after = function() assert.equal('0', redis:cli('ZSCORE', key 'ready', ids.ready)) end,
    },
    {
      name = 'a message in two sets',
      make = function()
        redis:cli('ZADD', key 'buried', 5, ids.ready)
        redis:cli('ZADD', key 'delayed', 5, ids.ready)
      end,
      finding = function()
        return key 'msg' .. ' ' .. ids.ready .. ': the message is in ready and delayed and buried'
      end,
      would = 'leaves it in ready', did = 'left it in ready',
      after = function() assert.equal('0', redis:cli('EXISTS', key 'buried')) end,
    },
    {
      name = 'a message that is held, and ready', make = function() redis:cli('ZADD', key 'unack', 5, ids.ready) end,
      finding = function() return key 'msg' .. ' ' .. ids.ready .. ': the message is in unack and ready' end,
      would = 'leaves it in unack', did = 'left it in unack',
      after = function()
        assert.equal('5', redis:cli('ZSCORE', key 'unack', ids.ready))
        redis:cli('DEL', key 'unack')
        redis:cli('ZADD', key 'ready', 0, ids.ready)
      end,
    },
    {
      name = 'a message that expires, and is not in expiry', make = { 'DEL', key 'expiry' },
      finding = function() return key 'msg' .. ' ' .. ids.expires .. ': the message expires and is not in expiry' end,
      would = 'adds it there', did = 'added it there',
      after = function() assert.matches('^%d+$', redis:cli('ZSCORE', key 'expiry', ids.expires)) end,
    },
    {
      name = 'a message in two sets of a queue that keeps sizes',
      make = function() redis:cli('ZADD', 'tide:{//sized#0}:buried', 5, ids.sized) end,
      finding = function() return 'tide:{//sized#0}:msg ' .. ids.sized .. ': the message is in ready and buried' end,
      would = 'leaves it in ready', did = 'left it in ready',
      after = function() assert.equal('0', redis:cli('EXISTS', 'tide:{//sized#0}:size')) end,
    },
    {
      name = 'a size that cannot be read', make = { 'HSET', 'tide:{//split#0}:size', 'between', 1 },
      finding = 'tide:{//split#0}:size between: cannot be read: should be before|after, ',
      undo = { 'DEL', 'tide:{//split#0}:size' },
    },
    {
      name = 'the publish id of a message that is gone',
      make = { 'ZADD', 'tide:{//ensured#0}:dedupe', '999999999999999', gone .. ' an id' },
      finding = 'tide:{//ensured#0}:dedupe ' .. gone .. ' an id: there is no message with this id',
      would = 'removes the member', did = 'removed the member',
    },
    {
      name = 'a binding of a queue that does not exist',
      make = { 'SADD', '{tide}:/:bindings', 'queue nope orders a.b' },
      finding = '{tide}:/:bindings queue nope orders a.b: it leads nowhere: its queue does not exist',
      undo = { 'SREM', '{tide}:/:bindings', 'queue nope orders a.b' },
    },
    {
      name = 'a binding to an exchange that does not exist',
      make = { 'SADD', '{tide}:/:bindings', 'exchange orders nope a.b' },
      finding = '{tide}:/:bindings exchange orders nope a.b: it leads nowhere: its exchange does not exist',
      undo = { 'SREM', '{tide}:/:bindings', 'exchange orders nope a.b' },
    },
    {
      name = 'a pause of a queue that does not exist', make = { 'HSET', '{tide}:/:pauses', 'in nope', 0 },
      finding = '{tide}:/:pauses in nope: a pause of a queue that does not exist',
      undo = { 'HDEL', '{tide}:/:pauses', 'in nope' },
    },
    {
      name = 'a pause of a group of a topic that does not exist',
      make = { 'HSET', '{tide}:/:pauses', 'group nope billing', 0 },
      finding = '{tide}:/:pauses group nope billing: a pause of a queue that does not exist',
      undo = { 'HDEL', '{tide}:/:pauses', 'group nope billing' },
    },
    {
      name = 'a key with a TTL', make = { 'EXPIRE', key 'msg', 1000 },
      finding = key 'msg' .. ': has a TTL: Redis will remove it', undo = { 'PERSIST', key 'msg' },
    },
    {
      name = 'a binding whose exchange goes with it', make = { 'SADD', '{tide}:/:bindings', 'queue nope brief a.b' },
      finding = '{tide}:/:bindings queue nope brief a.b: it leads nowhere: its queue does not exist',
      left = 'the next start of a broker removes it', undo = { 'SREM', '{tide}:/:bindings', 'queue nope brief a.b' },
    },
    {
      name = 'a key that the broker does not know', make = { 'SET', 'tide:{//jobs#0}:stray\r', 1 },
      finding = 'tide:{//jobs#0}:stray%0D: the broker knows no such key', undo = { 'DEL', 'tide:{//jobs#0}:stray\r' },
    },
    {
      name = 'a shard that its queue does not have',
      make = function() redis:cli('HSET', 'tide:{//split#4}:tries', ids.ready, '1 0') end,
      finding = 'tide:{//split#4}:tries: there is no such shard: its queue has fewer',
      undo = { 'DEL', 'tide:{//split#4}:tries' }, more = true,
    },
    {
      name = 'a shard of a queue that does not exist',
      make = function() redis:cli('HSET', 'tide:{a/b#0}:tries', ids.ready, '1 0') end,
      finding = 'tide:{a/b#0}:tries: there is no such shard: its queue does not exist',
      undo = { 'DEL', 'tide:{a/b#0}:tries' }, more = true,
    },
    {
      name = 'a table of a vhost that does not exist', make = { 'HSET', '{tide}:a:locks', 'name', '1 1000' },
      finding = '{tide}:a:locks: {tide}:vhosts does not name its vhost', undo = { 'DEL', '{tide}:a:locks' },
    },
    {
      name = 'a user that cannot be read', make = { 'HSET', '{tide}:users', 'bob', '{"tags":["chief"]}' },
      finding = "{tide}:users bob: cannot be read: 'chief' is no tag: expected admin, monitor, or nothing",
      undo = { 'DEL', '{tide}:users' },
    },
    {
      name = 'a topic that is in the set alone', make = { 'SADD', '{tide}:/:topics', 'ghost' },
      finding = '{tide}:/:topics ghost: topic-options does not have it', undo = { 'SREM', '{tide}:/:topics', 'ghost' },
    },
    {
      name = 'a partition more than its topic has, in the set', make = { 'SADD', '{tide}:/:topic:events', 2 },
      finding = '{tide}:/:topic:events 2: topic-options does not have it',
      undo = { 'SREM', '{tide}:/:topic:events', 2 },
    },
    {
      name = 'a topic that is not in the set', make = { 'SREM', '{tide}:/:topics', 'events' },
      finding = '{tide}:/:topic-options events: the set of topics does not name it',
      undo = { 'SADD', '{tide}:/:topics', 'events' },
    },
    {
      name = 'a topic whose set of partitions is not whole', make = { 'SREM', '{tide}:/:topic:events', 1 },
      finding = '{tide}:/:topic-options events: the set of its partitions is not whole',
      undo = { 'SADD', '{tide}:/:topic:events', 1 },
    },
    {
      name = 'a partition that its topic does not have', make = { 'HSET', 'tide:{//events#2}:log', 'start', 0 },
      finding = 'tide:{//events#2}:log: there is no such partition: its topic has fewer',
      undo = { 'DEL', 'tide:{//events#2}:log' },
    },
    {
      name = 'a partition of a topic that does not exist', make = { 'HSET', 'tide:{//jobs#0}:groups', 'billing', 0 },
      finding = 'tide:{//jobs#0}:groups: there is no such partition: its topic does not exist',
      undo = { 'DEL', 'tide:{//jobs#0}:groups' },
    },
    {
      name = 'a day that the log does not name', make = { 'ZADD', 'tide:{//events#0}:log:20261123', 5, 'abc' },
      finding = 'tide:{//events#0}:log:20261123: the log of its partition does not name the day',
      undo = { 'DEL', 'tide:{//events#0}:log:20261123' }, more = true,
    },
    {
      name = 'a batch that cannot be read',
      make = function()
        redis:cli('HSET', 'tide:{//events#0}:log', '20261123', '5 0 1795255951123')
        redis:cli('ZADD', 'tide:{//events#0}:log:20261123', 5, 'abc')
      end,
      finding = 'tide:{//events#0}:log:20261123 5: cannot be read: ',
      undo = function()
        redis:cli('DEL', 'tide:{//events#0}:log:20261123')
        redis:cli('HDEL', 'tide:{//events#0}:log', '20261123')
      end,
    },
    {
      name = 'a log whose fields cannot be read', make = { 'HSET', 'tide:{//events#0}:log', '20261123', '5 0' },
      finding = 'tide:{//events#0}:log 20261123: cannot be read: should be start|largest, with a number, or a day, ',
      undo = { 'HDEL', 'tide:{//events#0}:log', '20261123' },
    },
    {
      name = 'a committed offset that cannot be read', make = { 'HSET', 'tide:{//events#1}:groups', 'billing', -1 },
      finding = 'tide:{//events#1}:groups billing: cannot be read: should be an offset',
      undo = { 'HSET', 'tide:{//events#1}:groups', 'billing', 0 },
    },
    {
      name = 'a partition that is no number', make = { 'SADD', '{tide}:/:topic:events', 'x' },
      finding = '{tide}:/:topic:events x: cannot be read: should be the number of a partition',
      undo = { 'SREM', '{tide}:/:topic:events', 'x' },
    },
    {
      name = 'a topic that cannot be read', make = { 'HSET', '{tide}:/:topic-options', 'bad', 'partitions=2 shards=2' },
      finding = '{tide}:/:topic-options bad: cannot be read: ', undo = { 'HDEL', '{tide}:/:topic-options', 'bad' },
    },
    {
      name = 'sets of topics of a vhost that does not exist', make = { 'SADD', '{tide}:a:topic:t', 0 },
      finding = '{tide}:a:topic:t: {tide}:vhosts does not name its vhost', undo = { 'DEL', '{tide}:a:topic:t' },
      more = true,
    },
    {
      name = 'a member that is no id', make = { 'ZADD', key 'buried', 1, 'abc' },
      finding = key 'buried' .. ' abc: cannot be read: should be an id: 16 hex digits',
      undo = { 'DEL', key 'buried' },
    },
    {
      name = 'a definition that cannot be read', make = { 'HSET', '{tide}:/:queues', 'bad', 'shards=x' },
      finding = '{tide}:/:queues bad: cannot be read: ', undo = { 'HDEL', '{tide}:/:queues', 'bad' },
    },
    {
      name = 'a body that cannot be read',
      make = function()
        redis:cli('HSET', key 'msg', gone, 'abc')
        redis:cli('ZADD', key 'ready', 1, gone)
      end,
      finding = key 'msg' .. ' ' .. gone .. ': cannot be read: ',
      undo = function()
        redis:cli('HDEL', key 'msg', gone)
        redis:cli('ZREM', key 'ready', gone)
      end,
    },
  }
  for _, name in ipairs { 'ready', 'delayed', 'unack', 'buried', 'expiry' } do
    damages[#damages + 1] = {
      name = 'a member of ' .. name .. ' without a message',
      make = function() redis:cli('ZADD', key(name), 7, gone) end,
      finding = function() return key(name) .. ' ' .. gone .. ': there is no message with this id' end,
      would = 'removes the member', did = 'removed the member',
    }
  end
  damages[#damages + 1] = {
    name = 'tries of a message that is gone',
    make = function() redis:cli('HSET', key 'tries', gone, '1 0 ') end,
    finding = function() return key 'tries' .. ' ' .. gone .. ': there is no message with this id' end,
    would = 'removes the member', did = 'removed the member',
  }

  local function carry_out(step)
    if type(step) == 'table' then redis:cli(table.unpack(step)) elseif step then step() end
  end
  local function finding_of(damage)
    return type(damage.finding) == 'function' and damage.finding() or damage.finding
  end

  local function expect_line(text, line)
    assert.truthy(('\n' .. text):find('\n' .. line, 1, true), line .. '\nis not in\n' .. text)
  end

  -- Most of a check is a second of waiting, so many go on at once. Each has a database of its own.
  local DATABASES = 15
  local COPY = [[
    for _, key in ipairs(redis.call('KEYS', '*')) do
      for db = 1, tonumber(ARGV[1]) do redis.call('COPY', key, key, 'DB', db) end
    end]]

  local is_copied = false

  --- Do damage `first` and some behind it, and check; the database of each is clean before and after.
  local function check_some(first)
    local last = math.min(first + DATABASES - 1, #damages)
    if not is_copied then redis:cli('EVAL', COPY, 0, DATABASES) end
    is_copied = true
    local function file(damage, name) return ('%s/%s.%d'):format(redis.dir, name, damage.db) end
    for i = first, last do
      local damage = damages[i]
      damage.db = i - first + 1
      redis.db = damage.db
      carry_out(damage.make)
      os.execute(('(%s >%s; echo $? >%s.new; mv %s.new %s) &'):format(command('--store', url()),
        file(damage, 'text'), file(damage, 'status'), file(damage, 'status'), file(damage, 'status')))
    end
    for i = first, last do
      local damage = damages[i]
      assert(wait.poll(function()
        damage.status = math.tointeger(tonumber(shell.read_file(file(damage, 'status'))))
        return damage.status
      end), 'check-store does not end')
      damage.text = shell.read_file(file(damage, 'text'))
      os.remove(file(damage, 'status'))
    end
  end

  for i, damage in ipairs(damages) do
    it('has ' .. damage.name, function()
      if not damage.status then check_some(i) end
      redis.db = damage.db
      finally(function()
        carry_out(damage.undo)
        redis.db = nil
      end)
      local text, status = damage.text, damage.status
      assert.equal(1, status, text)
      local _, lines = text:gsub('\n', '')
      if not damage.more then assert.equal(2, lines, text) end
      if damage.did then
        expect_line(text, finding_of(damage) .. '; --repair ' .. damage.would .. '\n')
      else
        expect_line(text, finding_of(damage))
        expect_line(text:gsub('.-; ', '\n', 1), damage.left or '--repair leaves it as it is\n')
      end
      text, status = run '--repair'
      if damage.did then
        assert.equal(0, status, text)
        expect_line(text, finding_of(damage) .. '; repaired: ' .. damage.did .. '\n')
        assert.matches('entries: 1 finding, 1 repaired\n$', text)
        if damage.after then damage.after() end
      else
        assert.equal(1, status, text)
        expect_line(text, finding_of(damage))
        carry_out(damage.undo)
      end
      expect_clean()
    end)
  end

  it('has a key of a wrong type, which is left alone, and so is its shard', function()
    redis:cli('RENAME', key 'ready', 'kept')
    redis:cli('SET', key 'ready', 'x')
    local text, status = run '--repair'
    redis:cli('RENAME', 'kept', key 'ready')
    assert.equal(1, status)
    expect_line(text, key 'ready' .. ': wrong type: string instead of zset; --repair leaves it as it is\n')
    expect_line(text, key 'msg' .. ': cannot be checked: WRONGTYPE Operation against a key holding the wrong kind of '
      .. 'value; --repair leaves it as it is\n')
    expect_clean()
  end)

  it('has damage that Redis refuses to repair', function()
    redis:cli('ZREM', key 'ready', ids.ready)
    redis:cli('ACL', 'SETUSER', 'default', '-zadd')
    local text, status = run '--repair'
    redis:cli('ACL', 'SETUSER', 'default', '+zadd')
    assert.equal(1, status)
    assert.matches('in no set; not repaired: NOPERM [^\n]*\n', text)
    text, status = run '--repair'
    assert.equal(0, status, text)
    expect_clean()
  end)

  it('gives each message that was repaired to a consumer', function()
    redis:cli('ZREM', key 'ready', ids.other)
    redis:cli('ZADD', key 'unack', 5, ids.ready)
    local text, status = run '--repair'
    assert.equal(0, status, text)
    broker:run()
    local c = broker:connect()
    local _, deliveries = traffic.take(c, 'jobs', 4)
    local seen = {}
    for _, delivery in ipairs(deliveries) do seen[delivery.options.id] = true end
    for _, name in ipairs { 'ready', 'other', 'expires', 'bound' } do assert.truthy(seen[ids[name]], name) end
    text, status = run '--repair'
    assert.equal(1, status)
    assert.matches('another broker holds this store', text)
    broker:expect_clean_stop()
    expect_clean()
  end)
end)

describe('a large store', function()
  local redis
  local count = Broker.is_sanitized() and 40000 or 100000

  setup(function()
    local broker = Broker.start { redis = {} }
    local c = broker:connect()
    c:ok 'DECLARE queue jobs'
    c:send 'PUB - jobs 3\r\nabc\r\n'
    c:expect '^OK %x+ 1$'
    broker:expect_clean_stop()
    redis = broker.redis
    redis.broker = broker
    redis:cli('EVAL', [[
      local body = redis.call('HVALS', KEYS[1])[1]
      for i = 2, tonumber(ARGV[1]) do
        local id = string.format('%016x', i)
        redis.call('HSET', KEYS[1], id, body)
        redis.call('ZADD', KEYS[2], i, id)
      end]], 2, 'tide:{//jobs#0}:msg', 'tide:{//jobs#0}:ready', count)
  end)
  teardown(function() redis.broker:destroy() end)

  it('is checked in little memory', function()
    local text, status = shell.run(([[
      %s & pid=$!
      while kill -0 $pid 2>/dev/null; do cat /proc/$pid/status 2>/dev/null; done | grep VmHWM | sort | tail -n 1
      wait $pid]]):format(command('--store', redis.url)))
    assert.equal(0, status, text)
    assert.matches(': 0 findings\n', text)
    assert.truthy(tonumber(text:match '(%d+) entries:') > 2 * count)
    -- The bodies alone have ten times that.
    local peak = tonumber(text:match 'VmHWM:%s+(%d+) kB')
    if not shell.line('ldd ' .. quote(Broker.binary())):find 'asan' then assert.truthy(peak < 24 * 1024, peak) end
  end)

  it('is checked on from where a signal ended the walk', function()
    local line = 'exec 4>&1 >%s/out; %s 4>&- & echo $! >&4'
    local pid = shell.line(line:format(quote(redis.dir), command('--store', redis.url)))
    -- The walk is kept from ending before it is seen.
    assert(wait.poll(function()
      redis:cli('CLIENT', 'PAUSE', 100, 'WRITE')
      return redis:cli('CLIENT', 'LIST'):find 'cmd=eval'
    end))
    os.execute('kill -INT ' .. pid)
    local place, entries
    assert(wait.poll(function()
      local text = shell.read_file(redis.dir .. '/out') or ''
      place = text:match "continue with %-%-resume%-from '(.-)'"
      entries = tonumber(text:match '(%d+) entries:')
      return place and entries
    end))
    assert.truthy(entries < 2 * count)
    local text, status = check('--store', redis.url, '--resume-from', place)
    assert.equal(0, status, text)
    local rest = tonumber(text:match '(%d+) entries:')
    assert.truthy(entries + rest >= 2 * count, text)
    assert.truthy(rest < 2 * count + 100, text)
  end)

  it('has thousands of findings', function()
    redis:cli('ZREMRANGEBYRANK', 'tide:{//jobs#0}:ready', 0, 19999)
    local text, status = check('--store', redis.url, '--repair')
    assert.equal(0, status)
    assert.matches(': 20000 findings, 20000 repaired\n$', text)
    text, status = check('--store', redis.url)
    assert.equal(0, status, text)
  end)
end)

describe('a store with a broker at work', function()
  it('has no findings that are none', function()
    local broker = Broker.start { redis = {}, args = { '--window-messages', '500' } }
    finally(function() broker:destroy() end)
    local done = broker.dir .. '/done'
    os.execute(('(for i in 1 2 3; do %s bench --url %s --queues 3 --count 20000 --consumers 3 --rate 20000; done;'
      .. ' echo done) >%s 2>&1 &'):format(quote(Broker.binary()), quote(broker:url()), quote(done)))
    local runs = 0
    repeat
      local text, status = check('--store', broker.redis.url)
      assert.equal(0, status, text)
      runs = runs + 1
    until (shell.read_file(done) or ''):find 'done\n$'
    assert.truthy(runs > 1)
  end)

  it('is found by its data directory, while the broker runs and afterwards', function()
    local broker = Broker.start {}
    finally(function() broker:destroy() end)
    broker:connect():ok 'DECLARE queue jobs'
    local function expect_clean()
      local text, status = check('--data', broker.data)
      assert.equal(0, status, text)
      assert.matches('0 findings', text)
    end
    expect_clean()
    local text, status = check('--data', broker.data, '--repair')
    assert.equal(1, status)
    assert.matches('in use by the broker with pid %d+; %-%-repair needs a store that no broker holds\n$', text)
    broker:kill9_all()
    expect_clean()
    text, status = check('--data', broker.data, '--repair')
    assert.equal(0, status, text)
    broker:run()
    broker:connect():ok 'DELETE queue jobs'
  end)
end)

describe('check-store', function()
  local redis
  setup(function() redis = Redis.start {} end)
  teardown(function() redis:destroy() end)

  local function keys_of_document()
    local keys = {}
    for line in io.lines 'docs/redis.md' do
      local name, type = line:match '^| `({?tide}?:%S+)` | ([%a ]+) |'
      if name then keys[#keys + 1] = { name = name, type = type } end
    end
    return keys
  end

  it('knows every key of docs/redis.md, and its type', function()
    local add = { set = { 'SADD', 'm' }, hash = { 'HSET', 'm', 'v' }, ['sorted set'] = { 'ZADD', 1, 'm' },
      string = { 'SET', 'v' } }
    local keys = keys_of_document()
    assert.truthy(#keys > 24)
    for _, key in ipairs(keys) do
      local name = key.name:gsub('<v>', '/'):gsub('<q>', 'jobs'):gsub('<s>', '0'):gsub('<hash>', 'abc')
        :gsub('<t>', 'events'):gsub('<p>', '0'):gsub('<yyyymmdd>', '20261123'):gsub('<n>', '5461'):gsub('<k>', '2')
      local words = assert(add[key.type], key.type)
      redis:cli(words[1], name, table.unpack(words, 2))
    end
    redis:cli('HSET', '{tide}:cluster', 'layout', 2)
    local text = check('--store', redis.url)
    assert.matches('^.*\n' .. #keys .. ' keys, ', text)
    assert.is_nil(text:find 'knows no such key', text)
    assert.is_nil(text:find 'wrong type', text)
  end)

  for line, answer in pairs {
    ['--resume-from abc'] = "%-%-resume%-from takes what an earlier run printed, not 'abc'",
    ['--resume-from 1/2'] = "%-%-resume%-from takes what an earlier run printed, not '1/2'",
    ['--store none'] = '%-%-store none keeps nothing',
    ['--data /nowhere'] = 'there is no store in /nowhere',
    ['here'] = 'too many arguments',
  } do
    it('refuses ' .. line, function()
      local words = {}
      for word in line:gmatch '%S+' do words[#words + 1] = word end
      local text, status = check(table.unpack(words))
      assert.matches(answer, text)
      assert.equal(2, status)
    end)
  end
end)
