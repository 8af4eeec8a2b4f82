-- Answers that a user relies on: what a script's slip does, and what EXPLAIN says of it.
local Broker = require 'support.broker'

local rules = {
  -- Ranks by time; a message without a header `t` has no rank.
  ['priority/by_time.lua'] = [[
return { rank = function(msg) return assert(tonumber(msg.headers.t), 'no header t') end }
]],
  ['filter/10-slip.lua'] = [[
return {
  match = { exchange = 'slips' },
  publish = function(msg)
    if msg.key == 'nil' then return nil, 'why' end
    if msg.key == 'true' then return true, 'why' end
    if msg.key == 'false' then return false, 'why' end
    if msg.key == 'yes' then return true end
  end,
}
]],
  ['routing/liar.lua'] = [[
return {
  pure = true,
  new = function() return {} end,
  bind = function(index, pattern, dest) index[#index + 1] = dest end,
  unbind = function(index) index[1] = nil end,
  route = function(index, msg, to)
    local read = {
      pri = function() return msg.priority end,
      header = function() return msg.headers.tier end,
      now = function() return tide.now() end,
      random = function() return tide.random() end,
      shared = function() return tide.shared.get('x') end,
      caught = function() return pcall(function() return msg.payload end) end,
    }
    if read[msg.key] then read[msg.key]() end
    for _, dest in ipairs(index) do to(dest) end
  end,
}
]],
  ['sharding/liar.lua'] = [[
return { pure = true, pick = function(msg, n, opts, state, loads) return loads(0) end }
]],
  ['priority/liar.lua'] = [[
return { pure = true, rank = function(msg, queue) return queue.served end }
]],
  -- Counts by key, and reads what it counted past all metamethods.
  ['sharding/counts.lua'] = [[
return {
  new = function() return { seen = {}, total = 0 } end,
  pick = function(msg, n, opts, state)
    state.seen[msg.key] = (state.seen[msg.key] or 0) + 1
    state.total = state.total + 1
    local sum = 0
    for _, count in next, rawget(state, 'seen') do sum = sum + count end
    assert(sum == state.total, 'EXPLAIN sees another state')
    state.list = state.list or {}
    state.list[#state.list + 1] = msg.key
    assert(rawlen(state.list) == state.total)
    return state.total
  end,
}
]],
}

describe('an answer', function()
  local broker, c

  setup(function()
    broker = Broker.start { args = { '--fsync', 'no' }, rules = rules }
    c = broker:connect()
  end)
  teardown(function()
    if c then c:close() end
    if broker then broker:destroy() end
  end)

  local function publish(exchange, key, options)
    c:send(('PUB %s %s %s %d\r\n%s\r\n'):format(exchange, key, options or 'pri=0', #key, key))
    return c:read_line(20)
  end

  local function take(queue)
    c:send(('GET %s ack=auto\r\n'):format(queue))
    c:expect '^OK 1$'
    return c:expect_msg()
  end

  it('to a failed rank puts the message behind the newest, and says so', function()
    c:ok 'DECLARE queue ranked priority=by_time'
    for _, t in ipairs { 1000, 2000, 3000 } do
      assert.matches('^OK', publish('-', 'ranked', 'h:n=' .. t .. ' h:t=' .. t))
    end
    assert.matches('^OK', publish('-', 'ranked', 'h:n=lost'))
    assert.matches('^OK', publish('-', 'ranked', 'h:n=4000 h:t=4000'))
    local explained = c:document 'EXPLAIN - ranked'
    assert.is_true(explained.queues[1].unranked)
    assert.equal(4000, explained.queues[1].rank)
    assert.equal('ranked', explained.unranked[1].queue)
    assert.matches('^priority/by_time%.lua:1: .*no header t', explained.unranked[1].error)
    assert.equal(1, c:stats('ranked').unranked)
    local order = {}
    for i = 1, 5 do order[i] = take('ranked').headers.n end
    assert.same({ '1000', '2000', '3000', 'lost', '4000' }, order)
    broker:expect_log "queue 'ranked' of vhost '/': the priority script failed.*priority/by_time%.lua:1:"
    assert.is_nil(c:document('EXPLAIN - ranked h:t=1').unranked)
  end)

  it('to a failed rank after a restart is the rank of the last one that waits', function()
    c:ok 'DECLARE queue kept priority=by_time'
    for _, t in ipairs { 1000, 2000 } do publish('-', 'kept', 'h:n=' .. t .. ' h:t=' .. t) end
    c:close()
    broker:restart()
    c = broker:connect()
    assert.matches('^OK', publish('-', 'kept', 'h:n=lost'))
    local order = {}
    for i = 1, 3 do order[i] = take('kept').headers.n end
    assert.same({ '1000', '2000', 'lost' }, order)
  end)

  it('of a filter that gives a reason without false is an error', function()
    c:ok 'DECLARE exchange slips fanout'
    assert.matches('^ERR rule filter/10%-slip%.lua:3: publish returned a second value, a string: to refuse it must '
      .. 'return false and a reason', publish('slips', 'nil'))
    assert.matches('^ERR rule .*returned a second value, a string', publish('slips', 'true'))
    assert.matches('^ERR rejected why', publish('slips', 'false'))
    assert.matches('^OK %x+ 0$', publish('slips', 'yes'))
    assert.matches('^OK %x+ 0$', publish('slips', 'nothing'))
  end)

  it('of a pure script that looks at more than the key is an error', function()
    c:ok 'DECLARE exchange lies liar'
    c:ok 'DECLARE queue told'
    c:ok 'BIND told lies -'
    assert.matches('^OK %x+ 1$', publish('lies', 'key'))
    for key, what in pairs { pri = 'msg.priority', header = 'msg.headers', now = 'tide.now()', random = 'tide.random()',
                             shared = 'tide.shared', caught = 'msg.payload' } do
      local answer = publish('lies', key)
      assert.matches('^ERR rule routing/liar%.lua:.*: a pure script may look at msg.key and msg.exchange', answer)
      assert.is_truthy(answer:find(what, 1, true), answer)
    end
    c:ok 'DECLARE queue spread shards=4 sharding=liar'
    assert.matches('^ERR rule sharding/liar%.lua:1: .*not at loads', publish('-', 'spread'))
    c:ok 'DECLARE queue flat priority=liar'
    assert.matches('^OK', publish('-', 'flat'))
    assert.matches('not at queue.served', c:document('EXPLAIN - flat').unranked[1].error)
  end)

  it('of EXPLAIN is the same however a strategy reads its state', function()
    c:ok 'DECLARE queue counted shards=4 sharding=counts'
    for i = 1, 5 do assert.matches('^OK', publish('-', 'counted', 'h:n=' .. i)) end
    for _ = 1, 3 do
      local explained = c:document 'EXPLAIN - counted'
      assert.is_nil(explained.error)
      assert.equal(6 % 4, explained.queues[1].shard)
    end
    assert.matches('^OK', publish('-', 'counted'))
  end)
end)
