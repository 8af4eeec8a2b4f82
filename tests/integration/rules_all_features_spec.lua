-- Rules that use every kind of script at once: live, in the shadow, in a replay, through reloads and rollbacks.
local Broker = require 'support.broker'

local function rules(generation)
  return {
    ['filter/10-state.lua'] = ([[
local sizes = tide.histogram("sizes", { buckets = { 10, 100 } })
local level = tide.gauge("level")
return {
  match = { exchange = "-", key = "work.#", except = { headers = { raw = true } } },
  options = { every = { type = "integer", default = 10, min = 1 } },
  new = function(opts, name) return { seen = 0, name = name, secret = tide.setting("secret", "s") } end,
  carry = function(old) old.seen = old.seen + 0; return old end,
  publish = function(msg, opts, state)
    state.seen = state.seen + 1
    msg.headers.seen, msg.headers.generation = state.seen, "%d"
    sizes:observe(msg.size)
    level:set(state.seen)
    tide.counter("work", { key = msg.key }):incr()
    local doc = msg.json and tide.json.decode(msg.payload)
    if doc then doc.n = (doc.n or 0) + %d; msg.json = doc end
    local q = tide.queue("work.a")
    if q and q.ready > 1e9 then return false, "full" end
    if state.seen %% opts.every == 0 then
      msg:copy { exchange = "-", key = "copies", json = { a = { 1, 2 } }, headers = { copy = "1" } }
    end
    tide.shared.incr("work", 1, "1m")
  end,
}]]):format(generation, generation),
    ['filter/20-limit.lua'] = [[
return tide.use("rate_limit", { match = { key = "work.#" },
  options = { by = "@all", rate = "100000/s", burst = 100000 } })]],
    ['filter/30-shed.lua'] = [[
return tide.use("shed", { match = { key = "work.#" }, options = { queue = "work.a", ready = 1000000 } })]],
    ['deliver/10-redact.lua'] = [[
return tide.use("redact", { match = { queue = "work.#" }, options = { headers = "raw" } })]],
    ['settled/10-follow.lua'] = [[return { match = { queue = "work.#" }, new = function() return { n = 0 } end,
      carry = function(old) return old end,
      settled = function(msg, outcome, opts, state)
        state.n = state.n + 1
        tide.counter("settled", { event = outcome.event }):incr()
        msg:copy { exchange = "-", key = "done", headers = { n = state.n, event = outcome.event } }
      end }]],
    ['declare/10-bounds.lua'] = ([[
return tide.use("bounds", { match = { queue = "work.#" }, options = { defaults = "retry=powers,max-length=%d" } })]])
      :format(1000000 + generation),
    ['connect/10-limits.lua'] = 'return tide.use("limits", { match = {}, options = { publish_rate = 1000000 } })',
    ['retry/powers.lua'] = ([[return { decide = function(msg, failure)
      msg.headers["x-last"] = failure.reason .. "%d"
      if failure.failures > 1 then msg:copy { exchange = "-", key = "copies" } return tide.dead_letter("-", "dead") end
      return 0 end }]]):format(generation),
    ['schedule/tick.lua'] = [[return { every = "50ms", run = function(broker, tick)
      local q = broker.queue("work.a")
      if q then broker.publish { key = "ticks", payload = tostring(q.ready) } end end }]],
  }
end

describe('rules of every kind at once', function()
  local broker, c

  setup(function()
    broker = Broker.start { rules = rules(1), args = { '--fsync', 'no', '--rules-set', 'secret=x' } }
    c = broker:connect()
    for _, q in ipairs { 'work.a', 'work.b', 'copies', 'done', 'dead', 'ticks' } do c:ok('DECLARE queue ' .. q) end
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local function publish(n, from)
    local lines = {}
    for i = from or 1, (from or 1) + n - 1 do
      local payload = i % 3 == 0 and '{"n":1,"x":[1,2,{}]}' or i % 3 == 1 and '{"n":' or 'text'
      lines[#lines + 1] = ('PUB - work.%s %s%d\r\n%s\r\n'):format(i % 2 == 0 and 'a' or 'b',
        i % 7 == 0 and 'h:raw=1 ' or '', #payload, payload)
    end
    c:send(table.concat(lines))
  end
  local function answers(n)
    for _ = 1, n do
      local line = c:read_line(30)
      assert(line and line:find '^OK', line)
    end
  end

  it('reload in the middle of a pipeline', function()
    local other = broker:connect()
    for round = 2, 4 do
      publish(3000)
      for path, text in pairs(rules(round)) do broker:write_rule(path, text) end
      other:document 'RULES reload'
      answers(3000)
    end
    assert.equal(9000, c:stats('work.a').ready + c:stats('work.b').ready)
  end)

  it('shadow, replay, promote, roll back', function()
    c:document('RULES shadow ' .. broker:copy_rules('next', rules(9)) .. ' share=100')
    publish(300)
    answers(300)
    for _ = 1, 2 do
      for _, m in ipairs(c:get 'work.b max=20') do c:ok('NACK ' .. m.tag) end
    end
    for _, m in ipairs(c:get 'work.a max=20') do c:ok('ACK ' .. m.tag) end
    local shadow = c:document 'RULES shadow status'
    assert.is_true(shadow.differences.messages > 0)
    assert.equal(40, shadow.failures.differing)
    assert.equal(0, shadow.differences.errors)
    assert.is_false(shadow.stopped)
    c:document('RULES replay ' .. broker.dir .. '/next')
    local other = broker:connect()
    publish(1000)
    other:document 'RULES shadow promote'
    answers(1000)
    publish(1000)
    for _ = 1, 2 do other:document 'RULES rollback' end
    answers(1000)
    local before = c:stats('work.a').ready + c:stats('work.b').ready
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    assert.equal(before, c:stats('work.a').ready + c:stats('work.b').ready)
    publish(10)
    answers(10)
    for _, script in ipairs(c:document('RULES status').scripts) do assert.equal(0, script.errors, script.last_error) end
  end)
end)
