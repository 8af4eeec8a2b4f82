--- A Redis of several that is away holds up its own queues, and nobody else's.
local Broker = require 'support.broker'
local Cluster = require 'support.cluster'
local wait = require 'support.wait'

local BODY = ('x'):rep(100000)

describe('a master of a Redis Cluster that is away', function()
  local cluster, broker

  setup(function()
    cluster = Cluster.start { masters = 3, replicas = 0 }
    broker = Broker.start { args = { '--store', cluster.url, '--max-unstored', '6M' } }
  end)
  teardown(function() cluster:close() end)

  --- Queues of one shard: whose master it is, and those of others.
  local function declare(client, master)
    local mine, others = {}, {}
    for i = 1, 20 do
      local queue = 'q' .. i
      client:ok('DECLARE queue ' .. queue)
      local list = cluster:master_of('tide:{//' .. queue .. '#0}:msg') == master and mine or others
      list[#list + 1] = queue
    end
    return mine, others
  end

  local function publish(client, queue)
    client:send(('PUB - %s %d\n%s\n'):format(queue, #BODY, BODY))
  end

  --- The next answer that is no event.
  local function answer(client)
    while true do
      local line = client:read_line(60)
      if not line or not line:match '^EVT' then return line end
    end
  end

  it('has its publishers refused when they have their share, and the others go on', function()
    local client, its = broker:connect(), broker:connect()
    local master = cluster:master_of 'tide:{//q1#0}:msg'
    local mine, others = declare(client, master)
    assert.is_true(#mine > 0 and #others > 0)
    master:stop()
    for _ = 1, 80 do publish(its, mine[1]) end
    for i = 1, 80 do
      publish(client, others[i % #others + 1])
      assert.matches('^OK', answer(client))
    end
    local late = broker:connect()
    publish(late, mine[1])
    assert.matches('^ERR busy the Redis that keeps this message of queue \'' .. mine[1] .. '\' is away', answer(late))
    master:cont()
    local stored, refused = 0, 0
    for _ = 1, 80 do
      local line = answer(its)
      if line:match '^OK' then stored = stored + 1 else refused = refused + 1 end
    end
    assert.equal(80, stored + refused)
    assert.is_truthy(wait.poll(function()
      publish(late, mine[1])
      return answer(late):match '^OK'
    end))
    assert.equal(stored + 1, client:stats(mine[1]).ready)
  end)

  it('or a slot that is being moved: the other queues of its master go on', function()
    local client, its = broker:connect(), broker:connect()
    client:enter_vhost 'moved'
    its:document 'HELLO vhost=moved'
    local queues = {}
    for i = 1, 12 do queues[i] = 'm' .. i end
    for _, queue in ipairs(queues) do
      client:ok('DECLARE queue ' .. queue)
      client:publish(queue, 'first')
    end
    local slot = cluster:slot 'tide:{moved/m1#0}:msg'
    local from = cluster:master_of(slot)
    local to = cluster:masters()[from == cluster:masters()[1] and 2 or 1]
    cluster:migrate_slot(slot, from, to, 1)
    for _ = 1, 2 do its:send 'PUB - m1 1\nx\n' end
    for _ = 1, 5 do
      for i = 2, #queues do client:publish(queues[i], 'more') end
    end
    cluster:fix_slot(slot, from, to)
    for _ = 1, 2 do assert.matches('^OK', answer(its)) end
    assert.equal(3, client:stats('m1').ready)
  end)
end)
