-- What the broker says of the scripts' costs, and what it does to those that fail.
local Broker = require 'support.broker'
local wait = require 'support.wait'

-- A routing script that gives every message to all bindings, after `body`.
local function routing(body)
  return ([[
    local M = {}
    function M.new() return {} end
    function M.bind(index, _, dest) index[dest] = true end
    function M.unbind(index, _, dest) index[dest] = nil end
    function M.route(index, msg, to)
      %s
      for dest in pairs(index) do to(dest) end
    end
    return M
  ]]):format(body)
end

describe('a script that fails', function()
  local broker, c

  local function start(budget)
    broker = Broker.start {
      args = { '--store', 'none', '--rules-budget', budget },
      rules = {
        ['routing/moody.lua'] = routing(
          "if msg.key == 'bad' then error 'moody' elseif msg.key == 'endless' then while true do end end"),
        ['filter/50-pattern.lua'] = [[
          return { match = { exchange = "f" }, publish = function(msg)
            msg.headers.found = tostring(msg.key:find(msg.headers.pattern))
          end }]],
        ['routing/slow.lua'] = routing 'local _ = msg.key:find(msg.headers.pattern)',
      },
    }
    c = broker:connect()
    c:ok 'DECLARE queue q'
  end
  -- No call comes near it that counts its steps.
  before_each(function() start '300ms' end)
  after_each(function() broker:expect_clean_stop() end)

  local function publish(line, reply)
    c:send(line .. ' 1\r\nx\r\n')
    return c:expect(reply)
  end
  local function script(file)
    for _, s in ipairs(c:document('RULES status').scripts) do
      if s.file == file then return s end
    end
  end

  it('again and again is not called until the next generation', function()
    broker:expect_clean_stop()
    -- The circuit counts ten failures within five seconds, on a busy machine too.
    start '20ms'
    c:ok 'DECLARE exchange x moody'
    c:ok 'BIND q x any'
    publish('PUB x good', '^OK %x+ 1$')
    for _ = 1, 10 do
      publish('PUB x endless', '^ERR rule routing/moody%.lua:6: ran longer than its budget of 20 ms$')
    end
    publish('PUB x good', '^ERR rule routing/moody%.lua:6: ran longer .* %(not called again: it uses up its time')
    local s = script 'routing/moody.lua'
    assert.same({ 'open', 11, 10, 1 }, { s.circuit, s.calls, s.errors, s.skipped })
    assert.is_true(s.circuit_since_ms > 0)
    assert.same({ "exchange 'x'", 'open' }, { s.circuits[1].user, s.circuits[1].circuit })
    assert.matches('routing/moody%.lua +11 .* open\n', (broker:cli('rules', 'top')))
    assert.matches('\ncircuit +open\n', (broker:cli('rules', 'show', 'moody')))
    broker:write_rule('routing/moody.lua', routing '')
    c:document 'RULES reload'
    assert.equal('closed', script 'routing/moody.lua'.circuit)
    publish('PUB x bad', '^OK %x+ 1$')
    assert.equal(2, c:document('STATS q').ready)
  end)

  it('is tried again after a rest, and called once the cause has ended', function()
    local function circuit() return script 'routing/moody.lua'.circuit end
    broker:expect_clean_stop()
    start '20ms'
    c:ok 'DECLARE exchange x moody'
    c:ok 'BIND q x any'
    for _ = 1, 10 do publish('PUB x endless', '^ERR rule .* ran longer than its budget of') end
    assert.equal('open', circuit())
    broker:expect_log "routing/moody%.lua uses up its time or memory too often for exchange 'x'; paused there"
    local since = script 'routing/moody.lua'.circuit_since_ms
    -- A trial that fails begins another rest.
    assert.is_true(wait.poll(function() return circuit() == 'half-open' end))
    publish('PUB x endless', '^ERR rule .* ran longer than its budget of')
    assert.equal('open', circuit())
    assert.equal(since, script 'routing/moody.lua'.circuit_since_ms)
    publish('PUB x good', '^ERR rule .*%(not called again: ')
    assert.is_true(wait.poll(function() return circuit() == 'half-open' end))
    publish('PUB x good', '^OK %x+ 1$')
    broker:expect_log "routing/moody%.lua works again for exchange 'x'"
    local s = script 'routing/moody.lua'
    assert.same({ 'closed', 11, 1 }, { s.circuit, s.errors, s.skipped })
    assert.is_nil(s.circuits and s.circuits[1])
    publish('PUB x good', '^OK %x+ 1$')
    assert.equal(2, c:stats('q').ready)
  end)

  it('with one client\'s messages works for the messages of others', function()
    c:ok 'DECLARE exchange x moody'
    c:ok 'BIND q x any'
    for _ = 1, 200 do
      publish('PUB x bad', '^ERR rule routing/moody%.lua:6: moody$')
      publish('PUB x good', '^OK %x+ 1$')
    end
    assert.same({ 'closed', 0 }, { script 'routing/moody.lua'.circuit, script 'routing/moody.lua'.skipped })
  end)

  it('for the patterns of one vhost works for another vhost', function()
    local other = broker:connect()
    other:enter_vhost 'other'
    for _, client in ipairs { c, other } do client:ok 'DECLARE exchange f fanout' end
    local hostile = ('PUB f %s h:pattern=%s'):format(('a'):rep(39), ('a?'):rep(40) .. ('a'):rep(40))
    for i = 1, 30 do
      publish(hostile, i <= 10 and '^ERR rule filter/50%-pattern%.lua:2: .* its budget'
        or '^ERR rule filter/50%-pattern%.lua:2: .*%(not called again')
      other:send 'PUB f k h:pattern=k 1\r\nx\r\n'
      other:expect '^OK %x+ 0$'
    end
    local s = script 'filter/50-pattern.lua'
    assert.equal("vhost '/'", s.circuits[1].user)
    broker:expect_log "filter/50%-pattern%.lua uses up its time or memory too often for vhost '/'; paused there"
  end)

  it('is not what a client makes of a topic with its patterns', function()
    c:ok 'DECLARE exchange t topic'
    c:send 'BIND q t #.a.#.b.#\r\n'
    c:expect "^ERR rule .*a topic pattern may have '#' 2 times, not 3: '#%.a%.#%.b%.#'"
    math.randomseed(1)
    for i = 1, 400 do
      local words = { '#' }
      for n = 2, 100 do words[n] = math.random(2) == 1 and 'a' or '*' end
      c:ok(('BIND q t %s.%d'):format(table.concat(words, '.'), i))
    end
    c:ok 'BIND q t b.#'
    for _ = 1, 30 do
      publish('PUB t ' .. ('a.'):rep(127) .. 'a', '^ERR rule .*the topic patterns take more than 100000 steps')
      publish('PUB t b.c', '^OK %x+ 1$')
    end
    local topic = script 'shipped/routing/topic.lua'
    assert.same({ 'closed', 0 }, { topic.circuit, topic.overruns })
  end)

  it('for a pattern that never ends costs its publisher an error', function()
    c:ok 'DECLARE exchange x slow'
    publish(('PUB x %s h:pattern=%s'):format(('a'):rep(39), ('a?'):rep(40) .. ('a'):rep(40)),
      '^ERR rule routing/slow%.lua:6: string%.find: the pattern needs more than its budget')
    assert.equal(0, script 'routing/slow.lua'.overruns)
    c:ok 'PING'
  end)

  it('is no worse for being touched: that makes no generation', function()
    local before = c:document 'RULES status'
    broker:write_rule('routing/moody.lua', routing "if msg.key == 'bad' then error 'moody' end")
    broker:write_rule('routing/new.lua', routing '')
    local after
    assert.is_true(wait.poll(function()
      after = c:document 'RULES status'
      return after.generation > before.generation
    end))
    assert.equal(before.generation + 1, after.generation)
    assert.is_true(after.build.turns > 0 and after.build.longest_turn_us > 0)
    assert.is_true(after.build.longest_turn_cpu_us > 0)
    assert.is_true(after.build.longest_turn_cpu_us <= after.build.longest_turn_us)
  end)

  it('has the figures of its generation, and those since the start', function()
    local counts = {}
    local function expect(wanted)
      local s = script 'routing/moody.lua'
      counts = { s.calls, s.errors, s.this_generation.calls, s.this_generation.errors }
      assert.same(wanted, counts)
      for _, figures in ipairs { s, s.this_generation } do
        local sum = 0
        for _, bucket in ipairs(figures.histogram) do sum = sum + bucket[2] end
        assert.equal(figures.calls, sum)
        assert.equal(figures.calls == 0, figures.max_ns == 0)
      end
    end
    c:ok 'DECLARE exchange x moody'
    c:ok 'BIND q x k'
    for _ = 1, 3 do publish('PUB x bad', '^ERR rule') end
    expect { 3, 3, 3, 3 }
    broker:write_rule('routing/moody.lua', routing '')
    c:document 'RULES reload'
    expect { 3, 3, 0, 0 }
    publish('PUB x good', '^OK')
    expect { 4, 3, 1, 0 }
    -- A script that was away keeps what it has cost.
    c:ok 'UNBIND q x k'
    c:ok 'DELETE exchange x'
    broker:remove_rule 'routing/moody.lua'
    c:document 'RULES reload'
    assert.is_nil(script 'routing/moody.lua')
    broker:write_rule('routing/moody.lua', routing '')
    c:document 'RULES reload'
    expect { 4, 3, 0, 0 }
    assert.matches('routing/moody%.lua +4 ', (broker:cli('rules', 'top')))
    assert.matches('routing/moody%.lua +0 ', (broker:cli('rules', 'top', '--this-generation')))
  end)

  it('has the figures of the last minute, over generations', function()
    broker:write_rule('routing/brief.lua', routing "if msg.key == 'bad' then error 'brief' end")
    c:document 'RULES reload'
    c:ok 'DECLARE exchange b brief'
    c:ok 'BIND q b k'
    publish('PUB b bad', '^ERR rule')
    broker:write_rule('routing/brief.lua', routing '')
    c:document 'RULES reload'
    publish('PUB b good', '^OK')
    local minute = script 'routing/brief.lua'.last_minute
    assert.same({ 2, 1 }, { minute.calls, minute.errors })
    assert.is_true(minute.time_us > 0 and minute.max_ns > 0)
    assert.is_true(minute.p50_ns <= minute.p99_ns and minute.p99_ns <= minute.max_ns)
    assert.matches('routing/brief%.lua +2 +1 ', (broker:cli('rules', 'top', '--last-minute')))
    assert.matches('MEMORY', (broker:cli('rules', 'top')))
  end)
end)
