-- Exchanges of the type consistent-hash: a key keeps its queue, also over a restart in which the
-- bindings come in another order.
local Broker = require 'support.broker'

describe('a consistent-hash exchange', function()
  local broker, c

  setup(function()
    broker = Broker.start()
    c = broker:connect()
  end)
  teardown(function() broker:destroy() end)

  local function queue_of(key)
    local found = c:document('EXPLAIN work ' .. key)
    assert.equal(1, #found.queues)
    return found.queues[1].queue
  end

  local function owners()
    local found = {}
    for i = 1, 100 do found[i] = queue_of('k' .. i) end
    return found
  end

  it('keeps the queue of a key over a restart, whatever the order of its bindings', function()
    c:ok 'DECLARE exchange work consistent-hash'
    for _, name in ipairs { 'c', 'a', 'b' } do
      c:ok('DECLARE queue ' .. name)
      c:ok(('BIND %s work 2'):format(name))
    end
    local before = owners()
    c:ok 'UNBIND c work 2'
    c:ok 'BIND c work 2'
    assert.same(before, owners())
    broker:restart()
    c = broker:connect()
    assert.same(before, owners())
    local seen = {}
    for _, name in ipairs(before) do seen[name] = true end
    assert.same({ a = true, b = true, c = true }, seen)
    c:ok 'DELETE queue b'
    for i, name in ipairs(owners()) do
      if before[i] ~= 'b' then assert.equal(before[i], name) end
    end
  end)

  it('refuses a pattern that is no weight', function()
    c:ok 'DECLARE exchange odd consistent-hash by=customer'
    c:ok 'DECLARE queue other'
    c:send 'BIND other odd orders.#\r\n'
    c:expect "^ERR rule .*'orders%.#' is no weight: write 1 to 1000000, or %- for 1$"
  end)
end)
