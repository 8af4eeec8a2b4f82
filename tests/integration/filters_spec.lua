-- Filters through the binary: what a PUB does with them, and EXPLAIN, which says
-- the same and does nothing.

local Broker = require 'support.broker'

describe('filters', function()
  local broker, c, written

  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)

  before_each(function()
    c, written = broker:connect(), {}
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE exchange other topic'
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue audit'
    c:ok 'BIND q orders orders.#'
    c:ok 'BIND audit other #'
  end)

  after_each(function()
    for _, path in ipairs(written) do broker:remove_rule(path) end
    for _, what in ipairs { 'queue q', 'queue audit', 'exchange orders', 'exchange other' } do
      c:ok('DELETE ' .. what)
    end
    c:document 'RULES reload'
    c:close()
  end)

  -- Filters by name; a text without `return` is the body of publish for orders.
  local function use(filters)
    for name, text in pairs(filters) do
      if not text:find '^%s*return [{t]' and not text:find('return {', 1, true) then
        text = 'return { match = { exchange = "orders" }, publish = function(msg)\n' .. text .. '\nend }'
      end
      local path = 'filter/' .. name .. '.lua'
      written[#written + 1] = path
      broker:write_rule(path, text)
    end
    c:document 'RULES reload'
  end

  local function get(queue)
    local n = c:ok('GET ' .. queue .. ' max=100 ack=auto')
    local messages = {}
    for i = 1, tonumber(n) do messages[i] = c:expect_msg() end
    return messages
  end

  it('refuse with their reason, and nothing is stored', function()
    use { ['10-no'] = "if msg.headers.bad then return false, 'bad: ' .. msg.headers.bad end" }
    assert.equal('ERR rejected bad: x (filter/10-no.lua)', c:request('PUB orders orders.a h:bad=x', 'hello'))
    assert.same({}, get 'q')
    c:ok('PUB orders orders.a', 'hello')
    assert.equal('hello', get('q')[1].payload)
  end)

  it('change what is published, under the same id', function()
    use { ['10-change'] = [[
      msg.key, msg.priority = "orders.changed", 7
      msg.headers.tier, msg.headers.old = "a b%", nil
      msg.payload = msg.payload:upper()]] }
    local id, queues = c:ok('PUB orders x h:old=1 h:keep=2', 'hello'):match '^(%x+) (%d+)$'
    assert.equal('1', queues)
    local m = get('q')[1]
    assert.same({ 'orders', 'orders.changed', 'HELLO', '7', id },
      { m.exchange, m.key, m.payload, m.options.pri, m.options.id })
    assert.same({ tier = 'a b%', keep = '2' }, m.headers)
  end)

  it('know who publishes, in copies too, and for dead letters nobody', function()
    use {
      a = 'msg.headers.by = msg.user or "nobody" msg:copy { exchange = "other" }',
      b = [[return { match = { exchange = "other" },
        publish = function(msg) msg.headers.copied_by = msg.user or "nobody" end }]],
    }
    local alice = broker:connect()
    alice:document 'HELLO user=alice pass=x'
    alice:ok('PUB orders orders.a', 'x')
    c:ok('PUB orders orders.b', 'y')
    local of = {}
    for _, m in ipairs(get 'q') do of[m.payload] = m.headers.by end
    assert.same({ x = 'alice', y = 'nobody' }, of)
    of = {}
    for _, m in ipairs(get 'audit') do of[m.payload] = m.headers.copied_by end
    assert.same({ x = 'alice', y = 'nobody' }, of)
    alice:send 'EXPLAIN orders orders.a\r\nLIST connections\r\n'
    assert.equal('alice', alice:expect_json().user)
    local users = {}
    for _, connection in ipairs(alice:expect_json()) do users[connection.user] = true end
    assert.same({ alice = true, [''] = true }, users)
    alice:close()
    c:ok 'DECLARE queue dying retry=none dead-letter=orders/orders.dead'
    local bob = broker:connect()
    bob:document 'HELLO user=bob'
    bob:ok('PUB - dying', 'z')
    bob:ok 'GET dying'
    bob:expect_msg()
    bob:ok 'NACK 1'
    assert.equal('nobody', get('q')[1].headers.by)
    bob:close()
    get 'audit'
    c:ok 'DELETE queue dying'
  end)

  it('delay', function()
    use { ['10-later'] = 'msg.delay = "1h"' }
    c:ok('PUB orders orders.a', 'hello')
    assert.equal('orders.a', c:peek('q 1 state=delayed')[1].key)
    assert.same({}, get 'q')
  end)

  it('reroute to another exchange, whose filters see it too, and to a queue', function()
    use {
      ['10-other'] = 'return { match = { exchange = "other" }, publish = function(msg) msg.headers.other = "1" end }',
      ['20-move'] = 'msg.exchange = msg.headers.to or "other"',
    }
    c:ok('PUB orders orders.a', 'moved')
    c:ok('PUB orders q h:to=-', 'direct')
    local audit, q = get 'audit', get 'q'
    assert.same({ 1, 1 }, { #audit, #q })
    assert.same({ 'other', '1', 'moved' }, { audit[1].exchange, audit[1].headers.other, audit[1].payload })
    assert.same({ '-', 'direct' }, { q[1].exchange, q[1].payload })
  end)

  it('make copies, which pass the filters that match them', function()
    use {
      ['10-mirror'] = 'msg:copy { exchange = "other", headers = { copy = "yes" } }',
      ['20-all'] = [[return { match = {}, publish = function(msg)
        if msg.headers.copy and msg.headers.secret then return false, "no secrets elsewhere" end
        msg.headers.seen = "1"
      end }]],
    }
    assert.matches('^%x+ 1$', c:ok('PUB orders orders.a', 'hello'))
    c:ok('PUB orders orders.a h:secret=1', 'secret')
    local audit, q = get 'audit', get 'q'
    assert.same({ 1, 2 }, { #audit, #q })
    assert.same({ copy = 'yes', seen = '1' }, audit[1].headers)
    assert.same({ seen = '1' }, q[1].headers)
    assert.not_equal(q[1].options.id, audit[1].options.id)
  end)

  it('run in the order of their names', function()
    use {
      ['30-c'] = 'msg.headers.order = msg.headers.order .. "c"',
      ['10-a'] = 'msg.headers.order = "a"',
      ['20-b'] = 'msg.headers.order = msg.headers.order .. "b"',
    }
    c:ok('PUB orders orders.a', '')
    assert.equal('abc', get('q')[1].headers.order)
  end)

  it('that send a message in a circle are stopped, and nothing is stored', function()
    use {
      ['10-there'] = 'msg.exchange = "other"',
      ['20-back'] = 'return { match = { exchange = "other" }, publish = function(msg) msg.exchange = "orders" end }',
    }
    local pattern = '^ERR rule filter/%d0%-%a+%.lua:1: the message has been rerouted or copied more than 8 times'
    assert.matches(pattern, c:request('PUB orders orders.a', ''))
    assert.matches(pattern, 'ERR rule ' .. c:document('EXPLAIN orders orders.a').error)
    broker:remove_rule(table.remove(written))
    broker:remove_rule(table.remove(written))
    use { ['10-again'] = 'msg:copy {}' }
    assert.matches(pattern, c:request('PUB orders orders.a', ''))
    assert.same({}, get 'q')
  end)

  it('that fail refuse the publish, with file and line, and nothing is stored', function()
    use { ['10-copy'] = 'msg:copy { exchange = "other" }', ['20-boom'] = 'local x = nil\nreturn x.y' }
    assert.matches('^ERR rule filter/20%-boom%.lua:3: attempt to index a nil value',
      c:request('PUB orders orders.a', ''))
    assert.same({ {}, {} }, { get 'q', get 'audit' })
    use { ['20-boom'] = 'msg.exchange = "nowhere"' }
    written[#written] = nil
    assert.matches("^ERR rule filter/20%-boom%.lua:1: the message is sent to exchange 'nowhere', which does not exist",
      c:request('PUB orders orders.a', ''))
    assert.same({ {}, {} }, { get 'q', get 'audit' })
  end)

  it('are those of the last reload', function()
    use { ['10-v'] = 'msg.headers.v = "1"' }
    c:ok('PUB orders orders.a', '')
    broker:write_rule('filter/10-v.lua', 'return { match = {}, publish = function(msg) msg.headers.v = "2" end }')
    c:document 'RULES reload'
    c:ok('PUB orders orders.a', '')
    broker:write_rule('filter/10-v.lua', 'return { match = {}, publish = function(msg')
    assert.matches('^ERR rule filter/10%-v%.lua:1: ', c:request 'RULES reload')
    c:ok('PUB orders orders.a', '')
    broker:remove_rule(table.remove(written))
    c:document 'RULES reload'
    c:ok('PUB orders orders.a', '')
    local seen = {}
    for i, m in ipairs(get 'q') do seen[i] = m.headers.v or '-' end
    assert.same({ '1', '2', '2', '-' }, seen)
  end)

  it('without a match are not active', function()
    use { ['10-off'] = 'return { publish = function() return false, "asked" end }' }
    c:ok('PUB orders orders.a', '')
    local found
    for _, script in ipairs(c:document('RULES reload').scripts) do
      if script.file == 'filter/10-off.lua' then found = script end
      assert.not_equal(true, script.active)
    end
    assert.same({ false, 0 }, { found.active, found.calls })
    broker:expect_log "info  rules: not active, without a 'match' %(match = {} is for everything%): filter/10%-off.lua"
    assert.same({}, c:document('EXPLAIN orders orders.a').filters)
    get 'q'
  end)

  it('see dead letters too', function()
    use { ['10-mark'] = [[return { match = { exchange = "other" },
      publish = function(msg) msg.headers.mark = "1" end }]] }
    c:ok 'DECLARE queue failing dead-letter=other/dead'
    c:ok('PUB - failing', 'hello')
    c:ok 'GET failing'
    local tag = c:expect_msg().tag
    c:ok('NACK ' .. tag .. ' dead')
    c:ok 'GET audit wait=5s ack=auto'
    local m = c:expect_msg()
    assert.same({ 'dead', '1', 'failing' }, { m.key, m.headers.mark, m.headers['x-death-queue'] })
    c:ok 'DELETE queue failing'
  end)

  it('are not passed by a publish that calls itself a dead letter', function()
    use { ['90-dedupe'] = 'return tide.use("dedupe", { match = { exchange = "orders" } })' }
    c:ok('PUB orders orders.a h:message-id=7', 'first')
    assert.match('^ERR rejected', c:request('PUB orders orders.a h:message-id=7', 'again'))
    for _, name in ipairs { 'queue', 'reason', 'anything' } do
      local expected = ("ERR denied the header 'x-death-%s' is the broker's; headers of a publish must not "
        .. 'begin with x-death-'):format(name)
      local headers = (' h:message-id=7 h:x-death-%s=q'):format(name)
      assert.equal(expected, c:request('PUB orders orders.a' .. headers, 'again'))
      c:expect_answer('EXPLAIN orders orders.a' .. headers, expected)
    end
    c:ok('PUB orders orders.b h:x-deathless=1', 'other')
    assert.equal(2, #get 'q')
  end)

  describe('in EXPLAIN', function()
    it('are shown with what they change, and so is the rest of the decision', function()
      use {
        ['10-change'] = [[
          msg.key, msg.headers.new, msg.headers.old = "orders.b", "1", nil
          msg.priority, msg.payload = 3, msg.payload .. "!"
          msg:copy { exchange = "other", key = "c", delay = "1m" }]],
        ['20-other'] = 'return { match = { exchange = "other" }, publish = function() return false, "no" end }',
      }
      local d = c:document 'EXPLAIN orders orders.a h:old=x payload=two%20words'
      assert.same({ 'orders', 'orders.b', 'topic', 'shipped/routing/topic.lua' },
        { d.exchange, d.key, d.type, d.script })
      assert.same({ exchange = 'orders', type = 'topic', script = 'shipped/routing/topic.lua', line = 21,
        lines = { { 21, 22 } }, bindings = 1, matched = 1,
        patterns = { { pattern = 'orders.#', queue = 'q' } } }, d.exchanges[1])
      assert.same({ new = '1' }, d.headers)
      local f = d.filters[1]
      assert.same({ 'filter/10-change.lua', 'orders', '#', 1 }, { f.script, f.match_exchange, f.match_key, f.copies })
      assert.is_number(f.us)
      local changes = {}
      for _, change in ipairs(f.changes) do changes[change.name or change.field] = change end
      assert.same({ field = 'key', from = 'orders.a', to = 'orders.b' }, changes.key)
      assert.same({ field = 'priority', from = 0, to = 3 }, changes.priority)
      assert.same({ field = 'header', name = 'new', to = '1' }, changes.new)
      assert.same({ field = 'header', name = 'old', from = 'x' }, changes.old)
      assert.same({ field = 'payload', from_bytes = 9, to_bytes = 10 }, changes.payload)
      assert.same({ 'filter/20-other.lua', 1, 'no' }, { d.filters[2].script, d.filters[2].copy, d.filters[2].rejected })
      assert.same({}, d.copies)
      assert.same({ 'q', 0, 'ready' }, { d.queues[1].queue, d.queues[1].shard, d.queues[1].state })
      local asked = {}
      for _, script in ipairs(d.scripts) do asked[script.script] = script.calls end
      assert.equal(1, asked['filter/10-change.lua'])
      assert.equal(1, asked['shipped/routing/topic.lua'])
      assert.is_false(c:document('EXPLAIN orders orders.a').cached)
      c:ok('PUB orders orders.a', '')
      assert.is_true(c:document('EXPLAIN orders orders.a').cached)
    end)

    describe('have the line that decided', function()
      local function traced(key)
        local f = c:document('EXPLAIN orders ' .. key).filters[1]
        return { f.line, f.lines }
      end

      it('of a filter, whichever way it ends, and the lines that ran', function()
        use { ['10-lines'] = [[return { match = { exchange = "orders" }, publish = function(msg)
          if msg.key == "no" then
            return false, "no"
          end
          local function mark()
            msg.headers.mark = "1"
          end
          if msg.key == "mark" then mark() end
          for _ = 1, msg.headers.loops or 0 do mark() end
        end }]] }
        assert.same({ 3, { { 2, 3 } } }, traced 'no')
        assert.same({ 9, { { 2, 2 }, { 6, 10 } } }, traced 'mark')
        assert.same({ 9, { { 2, 2 }, { 7, 10 } } }, traced 'orders.a')
        -- A call that goes on for long is not slowed down: its last line is not known.
        assert.same({ 6 }, { traced('orders.a h:loops=1000')[1] })
        assert.same({}, traced 'orders.a h:loops=5000')
        assert.matches('10%-lines.lua +3 ', (broker:cli('explain', 'orders', 'no')))
      end)

      it('of a filter that is one line, and of the script that calls a module or fails', function()
        use { ['10-short'] = 'return { match = { exchange = "orders" }, publish = function(msg) msg.key = "b" end }' }
        assert.same({ 1, { { 1, 1 } } }, traced 'orders.a')
        use { ['10-fail'] = 'return { match = { exchange = "orders" }, publish = function(msg)\nlocal x = nil\n'
          .. 'x.y = 1\nend }' }
        assert.same({ 3, { { 2, 3 } } }, traced 'orders.a')
      end)

      for i, body in ipairs { 'while true do end', 'local function f() f() end\nf()\nfor i = 1, math.huge do end',
        'for i = 1, 1e9 do\nlocal x = i\nend', 'pcall(function() while true do\nend end)\nwhile true do end' } do
        it('of none that never ends: the budget of time ends it, way ' .. i, function()
          use { ['10-loop'] = 'return { match = { exchange = "orders" }, publish = function(msg)\n' .. body
            .. '\nend }' }
          local d = c:document 'EXPLAIN orders orders.a'
          assert.matches('^filter/10%-loop%.lua:%d: ', d.error)
          assert.same({}, d.queues)
        end)
      end

      it('of sharding and priority, also where they are remembered', function()
        use {}
        broker:write_rule('sharding/lined.lua', [[
          return { pick = function(msg)
            if msg.key == "orders.one" then
              return 1
            end
            return 0
          end }]])
        broker:write_rule('priority/lined.lua', [[
          return { pure = true, rank = function(msg)
            local n = #msg.key
            return n
          end }]])
        c:document 'RULES reload'
        c:ok 'DECLARE queue lined shards=2 sharding=lined priority=lined'
        c:ok 'BIND lined orders orders.#'
        local function lines(key)
          for _, q in ipairs(c:document('EXPLAIN orders ' .. key).queues) do
            if q.queue == 'lined' then return { q.shard, q.sharding_line, q.priority_line } end
          end
        end
        assert.same({ 1, 3, 3 }, lines 'orders.one')
        assert.same({ 0, 5, 3 }, lines 'orders.two')
        c:ok('PUB orders orders.one', '')
        assert.same({ 1, 3, 3 }, lines 'orders.one')
        c:ok 'DELETE queue lined'
      end)
    end)

    it('leave what is remembered of decisions as it is', function()
      use {}
      for _ = 1, 3 do assert.is_false(c:document('EXPLAIN orders orders.fresh').cached) end
      for _ = 1, 3 do assert.is_false(c:document('EXPLAIN - q').cached) end
      c:ok('PUB orders orders.fresh', '')
      c:ok('PUB - q', '')
      assert.is_true(c:document('EXPLAIN orders orders.fresh').cached)
      local d = c:document 'EXPLAIN - q'
      assert.is_true(d.cached)
      assert.same({}, d.exchanges)
      -- The bindings are told of what is remembered, too, without asking anew for the decision.
      d = c:document 'EXPLAIN orders orders.fresh'
      assert.same({}, d.scripts)
      assert.equal(1, d.exchanges[1].matched)
    end)

    it('name each exchange on the way, with the bindings that match', function()
      use {}
      for _, line in ipairs { 'exchange first topic', 'exchange second fanout', 'exchange third fanout', 'queue a',
        'queue b' } do
        c:ok('DECLARE ' .. line)
      end
      for _, line in ipairs { 'a first a.#', 'a first a.b', 'a first #.a.#', 'a first z',
        'second first a.b dest=exchange', 'b second -', 'a second -',
        'third second - dest=exchange', 'second third - dest=exchange', 'b third -' } do
        c:ok('BIND ' .. line)
      end
      for _ = 1, 2 do
        local d = c:document 'EXPLAIN first a.b'
        local seen = {}
        for i, x in ipairs(d.exchanges) do seen[i] = { x.exchange, x.script, x.bindings, x.matched, #x.patterns } end
        assert.same({ { 'first', 'shipped/routing/topic.lua', 5, 4, 4 },
          { 'second', 'shipped/routing/fanout.lua', 3, 3, 3 },
          { 'third', 'shipped/routing/fanout.lua', 2, 2, 2 } }, seen)
        assert.same({ { pattern = 'a.#', queue = 'a' }, { pattern = 'a.b', queue = 'a' },
          { pattern = '#.a.#', queue = 'a' }, { pattern = 'a.b', exchange = 'second' } }, d.exchanges[1].patterns)
        assert.equal(2, #d.queues)
        c:ok('PUB first a.b', '') -- the second time it is remembered
      end
      for i = 1, 30 do c:ok(('BIND a third p%d'):format(i)) end
      local third = c:document('EXPLAIN third k').exchanges[1]
      assert.same({ 32, 32, 20 }, { third.bindings, third.matched, #third.patterns })
      assert.matches('a%.# %-> a, a%.b %-> a', (broker:cli('explain', 'first', 'a.b')))
      for _, line in ipairs { 'exchange first', 'exchange second', 'exchange third', 'queue a', 'queue b' } do
        c:ok('DELETE ' .. line)
      end
    end)

    it('tell as much of the decision as was made when a script failed', function()
      use { ['10-mark'] = 'msg.headers.mark = "1"' }
      broker:write_rule('sharding/bad.lua', 'return { pick = function() return "x" end }')
      c:document 'RULES reload'
      c:ok 'DECLARE queue good'
      c:ok 'BIND good orders orders.failing'
      c:ok 'DECLARE queue bad shards=2 sharding=bad'
      c:ok 'BIND bad orders orders.failing'
      local d = c:document 'EXPLAIN orders orders.failing'
      assert.matches('^sharding/bad%.lua:1: pick must return an integer', d.error)
      assert.equal('filter/10-mark.lua', d.filters[1].script)
      assert.equal('1', d.headers.mark)
      assert.equal(3, d.exchanges[1].matched)
      local queues = {}
      for _, queue in ipairs(d.queues) do queues[queue.queue] = true end
      assert.is_nil(queues.bad)
      assert.matches('error +sharding/bad', (broker:cli('explain', 'orders', 'orders.failing')))
      assert.matches('^ERR rule sharding/bad', c:request('PUB orders orders.failing', ''))
      c:ok 'DELETE queue bad'
      c:ok 'DELETE queue good'
      broker:remove_rule 'sharding/bad.lua'
    end)

    it('mark what scripts log', function()
      use { ['10-log'] = 'tide.log("look", msg.key)' }
      c:document 'EXPLAIN orders dry'
      broker:expect_log 'rules %(dry run%): filter/10%-log%.lua:%d+: look dry\n'
      c:ok('PUB orders wet', '')
      broker:expect_log 'rules: filter/10%-log%.lua:%d+: look wet\n'
    end)

    it('show a refusal', function()
      use { ['10-no'] = 'return false, "never"' }
      local d = c:document 'EXPLAIN orders orders.a'
      assert.equal('never (filter/10-no.lua)', d.rejected)
      assert.same({}, d.queues)
    end)

    it('show copies with their queues', function()
      use { ['10-copy'] = 'msg:copy { exchange = "other", delay = "1m", ttl = "5m" }' }
      local copy = c:document('EXPLAIN orders orders.a').copies[1]
      assert.same({ 'filter/10-copy.lua', 'other', 60000, 300000 }, { copy.by, copy.exchange, copy.delay, copy.ttl })
      assert.same({ 'audit', 'delayed' }, { copy.queues[1].queue, copy.queues[1].state })
      local text = broker:cli('explain', '--header', 'a=b', '--payload', 'x y', 'orders', 'orders.a')
      assert.matches('filter/10%-copy%.lua +2 +orders', text)
      assert.matches('audit/0', text)
    end)

    it('do nothing: nothing is stored, counted, used up or moved on', function()
      use {
        ['10-limit'] = [[
          local left = 1
          return { match = { exchange = "orders" }, publish = function(msg)
            if left == 0 then return false, "used up" end
            if not tide.is_dry_run() then left = left - 1 end
          end }]],
      }
      c:ok 'DECLARE queue turns shards=4 sharding=round_robin priority=fair'
      c:ok 'BIND turns orders orders.#'
      c:ok 'DECLARE queue chance shards=64 sharding=random'
      c:ok 'BIND chance orders orders.#'
      local first = c:document 'EXPLAIN orders orders.a'
      for _ = 1, 3 do
        local d = c:document 'EXPLAIN orders orders.a'
        assert.is_nil(d.rejected)
        for i, queue in ipairs(d.queues) do
          assert.same({ first.queues[i].shard, first.queues[i].rank }, { queue.shard, queue.rank })
        end
      end
      local published = c:document('STATS').published
      assert.equal(0, tonumber((c:ok 'GET q ack=auto')))
      for _, script in ipairs(c:document('RULES reload').scripts) do
        if script.file == 'filter/10-limit.lua' then assert.equal(0, script.calls) end
      end
      c:document 'EXPLAIN orders orders.a'
      assert.equal(published, c:document('STATS').published)
      c:ok('PUB orders orders.a', '')
      assert.matches('^ERR rejected used up', c:request('PUB orders orders.a', ''))
      assert.equal('used up (filter/10-limit.lua)', c:document('EXPLAIN orders orders.a').rejected)
      c:ok 'DELETE queue turns'
      c:ok 'DELETE queue chance'
    end)
  end)
end)
