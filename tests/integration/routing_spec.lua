-- Where a message goes: the shipped exchange types, bindings between exchanges,
-- shards, and what EXPLAIN says of it.
local Broker = require 'support.broker'

describe('routing', function()
  local broker, c

  setup(function()
    broker = Broker.start { args = { '--store', 'none' } }
  end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:connect() end)
  after_each(function() c:close() end)

  local function declare(type_name, ...)
    c:ok('DECLARE exchange x ' .. type_name)
    for _, queue in ipairs { ... } do c:ok('DECLARE queue ' .. queue .. ' exclusive') end
  end
  local function delete(...)
    for _, name in ipairs { ... } do c:ok('DELETE exchange ' .. name) end
  end

  -- Publish, and give the names of the queues that got it, each once.
  local function reached(words, ...)
    local queues = c:ok('PUB ' .. words, 'x'):match '(%d+)$'
    local names = {}
    for _, queue in ipairs { ... } do
      c:send(('GET %s max=10 ack=auto\r\n'):format(queue))
      local n = tonumber(c:expect '^OK (%d+)$')
      for _ = 1, n do
        c:expect_msg()
        names[#names + 1] = queue
      end
    end
    assert.equal(#names, tonumber(queues))
    return table.concat(names, ' ')
  end

  it('by the default exchange is to the queue that the key names', function()
    declare('direct', 'a')
    assert.equal('a', reached('- a', 'a'))
    assert.equal('', reached('- b', 'a'))
    c:ok 'DECLARE queue b exclusive'
    assert.equal('b', reached('- b', 'a', 'b'))
    c:ok 'DELETE queue b'
    assert.equal('', reached('- b', 'a'))
    c:send 'PUB - b must 1\r\nx\r\n'
    c:expect_line "ERR unroutable no queue takes key 'b' from exchange '-'"
    c:send 'PUB - - must 1\r\nx\r\n'
    c:expect_line "ERR unroutable no queue takes key '' from exchange '-'"
    delete 'x'
  end)

  it('by direct is by the whole key', function()
    declare('direct', 'a', 'b')
    c:ok 'BIND a x k'
    c:ok 'BIND b x k'
    c:ok 'BIND b x k2'
    c:ok 'BIND a x -'
    assert.equal('a b', reached('x k', 'a', 'b'))
    assert.equal('b', reached('x k2', 'a', 'b'))
    assert.equal('a', reached('x -', 'a', 'b'))
    assert.equal('', reached('x k.2', 'a', 'b'))
    c:ok 'UNBIND a x k'
    assert.equal('b', reached('x k', 'a', 'b'))
    delete 'x'
  end)

  it('by fanout is to every binding, with one copy for each queue', function()
    declare('fanout', 'a', 'b')
    c:ok 'BIND a x -'
    c:ok 'BIND a x again'
    c:ok 'BIND b x -'
    assert.equal('a b', reached('x whatever', 'a', 'b'))
    delete 'x'
  end)

  it('by random is to one binding', function()
    declare('random', 'a', 'b')
    c:ok 'BIND a x -'
    c:ok 'BIND b x -'
    for _ = 1, 10 do assert.matches('^[ab]$', reached('x k', 'a', 'b')) end
    delete 'x'
  end)

  it('by topic is by words', function()
    declare('topic', 'star', 'hash', 'both', 'all')
    c:ok 'BIND star x orders.*.eu'
    c:ok 'BIND hash x orders.#'
    c:ok 'BIND both x #.eu'
    c:ok 'BIND both x *.new.#'
    c:ok 'BIND all x #'
    local function to(key) return reached('x ' .. key, 'star', 'hash', 'both', 'all') end
    assert.equal('star hash both all', to 'orders.new.eu')
    assert.equal('hash all', to 'orders')
    assert.equal('hash all', to 'orders.a.b.c')
    assert.equal('both all', to 'eu')
    assert.equal('hash both all', to 'orders.a.b.eu')
    assert.equal('all', to '-')
    assert.equal('all', to 'order')
    c:ok 'UNBIND all x #'
    assert.equal('', to 'order')
    delete 'x'
  end)

  it('by headers is by the options of the binding', function()
    declare('headers', 'all', 'any', 'every')
    c:ok 'BIND all x - region=eu kind=order'
    c:ok 'BIND any x - match=any region=eu kind=order'
    c:ok 'BIND every x -'
    local function to(headers) return reached('x k ' .. headers, 'all', 'any', 'every') end
    assert.equal('all any every', to 'h:region=eu h:kind=order h:more=1')
    assert.equal('any every', to 'h:region=eu')
    assert.equal('any every', to 'h:region=us h:kind=order')
    assert.equal('every', to 'h:region=us')
    c:send 'BIND all x - match=some\r\n'
    assert.is_truthy(c:expect('^ERR mismatch (.*)$'):find('match', 1, true))
    delete 'x'
  end)

  it('follows bindings between exchanges, round loops once', function()
    declare('topic', 'a', 'b', 'c')
    c:ok 'DECLARE exchange y fanout'
    c:ok 'DECLARE exchange z direct'
    c:ok 'BIND y x #.go dest=exchange'
    c:ok 'BIND z y - dest=exchange'
    c:ok 'BIND x z 1.go dest=exchange'
    c:ok 'BIND x x # dest=exchange'
    c:ok 'BIND a x *.go'
    c:ok 'BIND b y -'
    c:ok 'BIND c z 1.go'
    c:ok 'BIND a z 1.go'
    assert.equal('a b c', reached('x 1.go', 'a', 'b', 'c'))
    assert.equal('a b', reached('x 2.go', 'a', 'b', 'c'))
    assert.equal('a b c', reached('z 1.go', 'a', 'b', 'c'))
    assert.equal('b', reached('y 2.stop', 'a', 'b', 'c'))
    c:ok 'UNBIND y x #.go dest=exchange'
    assert.equal('a', reached('x 1.go', 'a', 'b', 'c'))
    delete('x', 'y', 'z')
  end)

  it('follows a chain of bindings however long it is', function()
    c:ok 'DECLARE queue end exclusive'
    local n = 3000
    local parts = {}
    for i = 1, n do
      parts[#parts + 1] = ('DECLARE exchange chain%d fanout quiet\r\n'):format(i)
      if i > 1 then parts[#parts + 1] = ('BIND chain%d chain%d - dest=exchange quiet\r\n'):format(i, i - 1) end
    end
    c:send(table.concat(parts))
    c:ok(('BIND end chain%d -'):format(n))
    assert.equal('end', reached('chain1 k', 'end'))
    parts = {}
    for i = 1, n do parts[i] = ('DELETE exchange chain%d quiet\r\n'):format(i) end
    c:send(table.concat(parts))
    c:expect_nothing()
  end)

  it('remembers pure decisions until a binding changes', function()
    declare('topic', 'a', 'b')
    c:ok 'BIND a x k'
    assert.is_false(c:document('EXPLAIN x k').cached)
    assert.is_false(c:document('EXPLAIN x k').cached)
    c:ok('PUB x k', 'm')
    assert.equal('m', (select(2, c:ok 'GET a ack=auto', c:expect_msg())).payload)
    local second = c:document 'EXPLAIN x k'
    assert.is_true(second.cached)
    assert.is_true(second.pure)
    c:ok 'BIND b x k'
    local third = c:document 'EXPLAIN x k'
    assert.is_false(third.cached)
    assert.equal(2, #third.queues)
    assert.equal('a b', reached('x k', 'a', 'b'))
    c:ok 'DELETE queue b'
    assert.equal('a', reached('x k', 'a'))
    delete 'x'
  end)

  it('is told by EXPLAIN', function()
    declare('headers', 'a')
    c:ok 'DECLARE queue s shards=4 priority=strict retry=exponential sharding.by=tenant'
    c:ok 'BIND a x some region=eu'
    c:ok 'BIND s x - region=eu'
    local d = c:document 'EXPLAIN x k h:region=eu h:tenant=t1 pri=7 delay=1h ttl=1h'
    assert.equal('headers', d.type)
    assert.equal('routing/headers.lua', d.script)
    assert.equal(2, d.exchanges[1].bindings)
    assert.equal(2, d.exchanges[1].matched)
    assert.same({ pattern = 'some', queue = 'a', options = { region = 'eu' } }, d.exchanges[1].patterns[1])
    assert.is_false(d.pure)
    assert.equal(3600000, d.expires - d.due)
    assert.equal(2, #d.queues)
    local by_name = {}
    for _, q in ipairs(d.queues) do by_name[q.queue] = q end
    assert.equal('some', by_name.a.binding)
    assert.equal(0, by_name.a.rank)
    assert.equal('delayed', by_name.a.state)
    assert.equal('sharding/hash.lua', by_name.s.sharding)
    assert.equal('priority/strict.lua', by_name.s.priority)
    assert.equal('retry/exponential.lua', by_name.s.retry)
    assert.equal(-7, by_name.s.rank)
    assert.is_true(by_name.s.shard >= 0 and by_name.s.shard < 4)
    local nobody = c:document 'EXPLAIN - nobody'
    assert.same({}, setmetatable(nobody.queues, nil))
    assert.equal(d.generation, nobody.generation)
    c:send 'EXPLAIN nowhere k\r\n'
    c:expect_line "ERR not-found there is no exchange 'nowhere' in vhost '/'"
    c:send 'EXPLAIN x k pri=300\r\n'
    c:expect_line 'ERR syntax pri=300: expected a number from 0 to 255'
    c:send 'GET a\r\nGET s\r\n'
    c:expect_line 'OK 0'
    c:expect_line 'OK 0'
    c:ok 'DELETE queue s'
    delete 'x'
  end)

  local function shards_of(queue)
    local by_key, used = {}, {}
    for _, m in ipairs(c:peek(queue .. ' 100')) do
      used[m.shard] = (used[m.shard] or 0) + 1
      local label = m.headers.tenant or m.key
      by_key[label] = by_key[label] or {}
      by_key[label][m.shard] = true
    end
    return used, by_key
  end

  it('to shards by hash keeps a key in one of them', function()
    declare('topic', 'unused')
    c:ok 'DECLARE queue h shards=4 exclusive'
    c:ok 'BIND h x #'
    for i = 1, 60 do c:ok(('PUB x key%d'):format(i % 20), 'x') end
    local used, by_key = shards_of 'h'
    for shard = 0, 3 do assert.is_truthy(used[shard], 'shard ' .. shard) end
    for key, shards in pairs(by_key) do
      local n = 0
      for _ in pairs(shards) do n = n + 1 end
      assert.equal(1, n, key)
    end
    assert.equal(60, #c:get 'h max=100 ack=auto')
    delete 'x'
  end)

  it('to shards by the hash of a header keeps its value in one of them', function()
    c:ok 'DECLARE queue h shards=8 sharding.by=tenant exclusive'
    for i = 1, 80 do c:ok(('PUB - h h:tenant=t%d'):format(i % 16), 'x') end
    local used, by_key = shards_of 'h'
    local count = 0
    for _ in pairs(used) do count = count + 1 end
    assert.is_true(count > 3)
    for tenant, shards in pairs(by_key) do
      local n = 0
      for _ in pairs(shards) do n = n + 1 end
      assert.equal(1, n, tenant)
    end
  end)

  it('to shards by round_robin fills them evenly', function()
    c:ok 'DECLARE queue r shards=4 sharding=round_robin exclusive'
    for _ = 1, 40 do c:ok('PUB - r', 'x') end
    local used = shards_of 'r'
    assert.same({ [0] = 10, 10, 10, 10 }, used)
  end)
end)
