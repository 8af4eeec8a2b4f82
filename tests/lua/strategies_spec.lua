-- The shipped strategies in the real engine: what holds for whatever is thrown at
-- them. Seeds are printed; TIDE_TEST_SEED repeats a run.

local support = require "lua.support.engine"
local json = require "dkjson"

local seed = math.tointeger(tonumber(os.getenv("TIDE_TEST_SEED"))) or 1
local HOUR <const> = 3600000
local DAY <const> = 24 * HOUR

-- One shard of a queue, as the broker keeps it: the least rank first, equals in the
-- order of arrival. A binary heap.
local function new_shard(strategy, number)
  local shard = { served = 0, heap = {}, arrivals = 0 }
  local heap = shard.heap

  local function is_before(a, b)
    return a.rank < b.rank or a.rank == b.rank and a.arrival < b.arrival
  end

  function shard.push(msg)
    shard.arrivals = shard.arrivals + 1
    local rank = assert(strategy:rank(msg,
      { served = shard.served, ready = #heap, shard = number }))
    local e = { msg = msg, rank = rank, arrival = shard.arrivals }
    local i = #heap + 1
    while i > 1 and is_before(e, heap[i // 2]) do
      heap[i] = heap[i // 2]
      i = i // 2
    end
    heap[i] = e
    return rank
  end

  function shard.pop()
    local first, e = heap[1], table.remove(heap)
    if #heap > 0 then
      local i = 1
      while true do
        local child = 2 * i
        if child < #heap and is_before(heap[child + 1], heap[child]) then
          child = child + 1
        end
        if child > #heap or not is_before(heap[child], e) then
          break
        end
        heap[i] = heap[child]
        i = child
      end
      heap[i] = e
    end
    shard.served = first.rank
    return first.msg
  end

  return shard
end

describe("a shipped strategy (seed " .. seed .. ")", function()
  local engine, opened

  before_each(function()
    engine, opened = support.open(), {}
    engine:seed(seed)
    math.randomseed(seed)
  end)

  after_each(function()
    for _, object in ipairs(opened) do
      object:close()
    end
    engine:close()
  end)

  local function strategy(...)
    local s = assert(engine:strategy(...))
    opened[#opened + 1] = s
    return s
  end

  local function refused(...)
    local s, message = engine:strategy(...)
    assert.is_nil(s)
    return message
  end

  -- ---- sharding ----------------------------------------------------------------

  local function random_keys(count)
    local keys = {}
    for i = 1, count do
      keys[i] = ("%x.%d"):format(math.random(0), i)
    end
    return keys
  end

  -- How far the counts are from even, as chi squared over its degrees of freedom:
  -- about 1 for what is thrown by chance.
  local function unevenness(counts, total, n)
    local sum = 0
    for shard = 0, n - 1 do
      sum = sum + ((counts[shard] or 0) - total / n) ^ 2 / (total / n)
    end
    return sum / (n - 1)
  end

  for _, name in ipairs { "hash", "consistent", "random" } do
    it("sharding/" .. name .. " spreads keys evenly, whatever their number", function()
      local s = strategy("sharding", name)
      for _, n in ipairs { 2, 3, 8, 17, 64 } do
        local counts, total = {}, 200 * n
        for i = 1, total do
          local shard = assert(s:pick({ key = "customer." .. i }, n))
          assert.is_true(shard >= 0 and shard < n)
          counts[shard] = (counts[shard] or 0) + 1
        end
        assert.is_true(unevenness(counts, total, n) < (n < 5 and 22 or 6), n)
      end
    end)
  end

  for _, name in ipairs { "hash", "consistent" } do
    it("sharding/" .. name .. " keeps a key where it is, in every process", function()
      local s = strategy("sharding", name)
      local other = support.open()
      local t = assert(other:strategy("sharding", name))
      for _, key in ipairs(random_keys(300)) do
        local shard = s:pick({ key = key }, 16)
        assert.equal(shard, s:pick({ key = key, priority = 3 }, 16))
        assert.equal(shard, t:pick({ key = key }, 16))
      end
      t:close()
      other:close()
      assert.is_true(s:is_pure())
      assert.is_false(strategy("sharding", name, { by = "customer" }):is_pure())
    end)
  end

  it("sharding/consistent moves one key in n when the n-th shard is added, and all to it", function()
    local s = strategy("sharding", "consistent")
    local keys, before = random_keys(4000), {}
    for _, key in ipairs(keys) do
      before[key] = s:pick({ key = key }, 1)
      assert.equal(0, before[key])
    end
    for n = 2, 33 do
      local moved = 0
      for _, key in ipairs(keys) do
        local shard = s:pick({ key = key }, n)
        if shard ~= before[key] then
          assert.equal(n - 1, shard)
          moved = moved + 1
        end
        before[key] = shard
      end
      -- The number is binomial: five deviations are a chance of one in a million.
      local share = 1 / n
      local tolerance = 5 * math.sqrt(share * (1 - share) / #keys)
      assert.is_true(moved / #keys <= share + tolerance, n .. ": " .. moved)
      assert.is_true(moved / #keys >= share - tolerance, n .. ": " .. moved)
    end
  end)

  it("sharding/consistent goes by a header when told", function()
    local s = strategy("sharding", "consistent", { by = "customer" })
    local a = s:pick({ key = "x", headers = { customer = "7" } }, 16)
    assert.equal(a, s:pick({ key = "y", headers = { customer = "7" } }, 16))
    assert.is_number(s:pick({ key = "y" }, 16))
  end)

  it("sharding/least_loaded picks a shard that has the least", function()
    local s = strategy("sharding", "least_loaded")
    for _ = 1, 500 do
      local n, loads, least = math.random(1, 64), {}, math.huge
      for shard = 0, n - 1 do
        loads[shard] = math.random(0, 20)
        least = math.min(least, loads[shard])
      end
      assert.equal(least, loads[s:pick({}, n, loads)])
    end
  end)

  it("sharding/least_loaded takes turns among equals", function()
    local s = strategy("sharding", "least_loaded")
    local picked = {}
    for i = 1, 7 do
      picked[i] = s:pick({}, 3, {})
    end
    assert.same({ 0, 1, 2, 0, 1, 2, 0 }, picked)
  end)

  it("sharding/least_loaded keeps a shard with a slow consumer from filling up", function()
    local s = strategy("sharding", "least_loaded")
    local loads = { [0] = 0, 0, 0, 0 }
    for _ = 1, 10000 do
      local shard = s:pick({}, 4, loads)
      loads[shard] = loads[shard] + 1
      for other = 0, 3 do
        if math.random() < (other == 2 and 0.05 or 0.3) then
          loads[other] = math.max(0, loads[other] - 1)
        end
      end
    end
    for shard = 0, 3 do
      assert.is_true(math.abs(loads[shard] - loads[0]) < 30, shard .. ": " .. loads[shard])
    end
  end)

  it("sharding/random repeats itself with the same seed alone", function()
    local s = strategy("sharding", "random")
    local function sequence(with)
      local picked = {}
      engine:seed(with)
      for i = 1, 50 do
        picked[i] = s:pick({}, 64)
      end
      return picked
    end
    assert.same(sequence(seed), sequence(seed))
    assert.not_same(sequence(seed), sequence(seed + 1))
  end)

  -- ---- priority ------------------------------------------------------------------

  local function random_message()
    return {
      ts = 100 * DAY + math.random(0, 60000), priority = math.random(0, 9),
    }
  end

  it("priority/aging: a point of priority is worth a step of age", function()
    for _, step in ipairs { "1ms", "250ms", "10s", "1h" } do
      local s = strategy("priority", "aging", { step = step })
      local step_ms = ({ ["1ms"] = 1, ["250ms"] = 250, ["10s"] = 10000, ["1h"] = HOUR })[step]
      for _ = 1, 300 do
        local a, b = random_message(), random_message()
        local head_start = (a.priority - b.priority) * step_ms
        assert.equal(a.ts - b.ts < head_start, s:rank(a) < s:rank(b))
      end
      local old = { ts = 100 * DAY }
      assert.is_true(s:rank { ts = old.ts + 3 * step_ms - 1, priority = 3 } < s:rank(old))
      assert.equal(s:rank(old), s:rank { ts = old.ts + 3 * step_ms, priority = 3 })
      assert.is_true(s:rank(old) < s:rank { ts = old.ts + 255 * step_ms + 1, priority = 255 })
    end
    assert.matches("at least", refused("priority", "aging", { step = "0" }))
  end)

  it("priority/due_time: by when it was due, and by priority where that is close", function()
    local s = strategy("priority", "due_time")
    for _ = 1, 2000 do
      local a, b = random_message(), random_message()
      a.due, b.due = a.ts + math.random(0, 60000), b.ts + math.random(0, 60000)
      local wanted = a.due / 1000 - a.priority / 100 < b.due / 1000 - b.priority / 100
      assert.equal(wanted, s:rank(a) < s:rank(b))
    end
    local at = 100 * DAY
    assert.is_true(s:rank { ts = at + 99, priority = 10 } < s:rank { ts = at })
    assert.is_true(s:rank { ts = at } < s:rank { ts = at + 101, priority = 10 })
    assert.equal(s:rank { ts = at, due = at + 5000 }, s:rank { ts = at + 5000 })
  end)

  it("priority/deadline: the earliest first, however it is said", function()
    local s = strategy("priority", "deadline")
    for _ = 1, 500 do
      local shard, wanted, deadline_of = new_shard(s, 0), {}, {}
      for i = 1, 8 do
        local m = { ts = 100 * DAY + math.random(0, 1000), headers = {} }
        local left = math.random(1, 9 * DAY)
        local deadline = m.ts + left
        local how = math.random(1, 4)
        if how == 1 then
          m.expires = deadline
        elseif how == 2 then
          m.headers.deadline = tostring(deadline)
        elseif how == 3 then
          m.headers.deadline = left .. "ms"
        else
          deadline = m.ts + 7 * DAY -- it has none
        end
        shard.push(m)
        wanted[i], deadline_of[m] = deadline, deadline
      end
      table.sort(wanted)
      for i = 1, 8 do
        assert.equal(wanted[i], deadline_of[shard.pop()])
      end
    end
  end)

  it("priority/deadline: of a header and a ttl the earlier, and nonsense counts as none", function()
    local s = strategy("priority", "deadline", { header = "by", otherwise = "1h" })
    local at = 100 * DAY
    assert.equal(at + 1000, s:rank { ts = at, expires = at + 1000, headers = { by = "2s" } })
    assert.equal(at + 2000, s:rank { ts = at, expires = at + 3000, headers = { by = "2s" } })
    for _, text in ipairs { "soon", "", "-5", "1e99", "nan", ("9"):rep(400), "5 m" } do
      assert.equal(at + HOUR, s:rank { ts = at, headers = { by = text } }, text)
    end
  end)

  describe("priority/fair", function()
    local function message(tenant, cost)
      return { headers = { tenant = tenant, cost = cost and tostring(cost) } }
    end

    -- Serve `count` messages of tenants that always have some waiting; gives how
    -- many (and what cost) each got.
    local function serve(s, count, tenants, cost, on_turn)
      local shard, got = new_shard(s, 0), {}
      local function publish(tenant)
        shard.push(message(tenant, cost and cost(tenant)))
      end
      for _, tenant in ipairs(tenants) do
        got[tenant] = 0
        for _ = 1, 5 do
          publish(tenant)
        end
      end
      for turn = 1, count do
        if on_turn then on_turn(turn) end
        local m = shard.pop()
        local tenant = m.headers.tenant
        got[tenant] = got[tenant] + (tonumber(m.headers.cost) or 1)
        publish(tenant)
      end
      return got
    end

    it("keeps weights of 3 to 1 within 5 % over 100,000 messages", function()
      local s = strategy("priority", "fair", { weights = "a:3,b:1" })
      local got = serve(s, 100000, { "a", "b" })
      assert.is_true(math.abs(got.a / got.b / 3 - 1) < 0.05, got.a / got.b)
    end)

    it("keeps any weights, and all along the way", function()
      for _ = 1, 5 do
        local tenants, weights, list, sum = {}, {}, {}, 0
        for i = 1, math.random(2, 6) do
          tenants[i] = "t" .. i
          weights[tenants[i]] = math.random(1, 40) / 4
          list[i] = ("t%d:%.2f"):format(i, weights[tenants[i]])
          sum = sum + weights[tenants[i]]
        end
        local s = strategy("priority", "fair", { weights = table.concat(list, ",") })
        for _, count in ipairs { 500, 2000 } do
          local got = serve(s, count, tenants)
          for _, tenant in ipairs(tenants) do
            local share = count * weights[tenant] / sum
            assert.is_true(math.abs(got[tenant] - share) <= 6 + 0.01 * share,
              ("%s of %s: %d, not %.1f"):format(tenant, list[1], got[tenant], share))
          end
        end
      end
    end)

    it("counts what messages cost when told", function()
      local s = strategy("priority", "fair", { cost = "cost", weights = "a:2" })
      local got = serve(s, 20000, { "a", "b", "c" }, function(tenant)
        return tenant == "b" and math.random(1, 40) or math.random(1, 3)
      end)
      assert.is_true(math.abs(got.a / got.b / 2 - 1) < 0.05, got.a / got.b)
      assert.is_true(math.abs(got.c / got.b - 1) < 0.05, got.c / got.b)
    end)

    it("counts bytes when told, and no cost is free or without end", function()
      local s = strategy("priority", "fair", { cost = "size" })
      assert.equal(500, s:rank { headers = { tenant = "a" }, payload = ("x"):rep(500) })
      assert.equal(1, s:rank { headers = { tenant = "b" }, payload = "" })
      local t = strategy("priority", "fair", { cost = "cost" })
      for i, cost in ipairs { "0", "-7", "nan", "x", "", "0x", "-1e999" } do
        assert.equal(1, t:rank(message("t" .. i, cost)), cost)
      end
      assert.equal(1e9, t:rank(message("inf", "1e999")))
    end)

    it("lets no flood delay another tenant beyond its share", function()
      for _, flood in ipairs { 1, 100, 20000 } do
        local s = strategy("priority", "fair")
        local shard = new_shard(s, 0)
        for _ = 1, flood do
          shard.push(message("flood"))
        end
        for _ = 1, math.min(flood, 50) do -- it has begun
          assert.equal("flood", shard.pop().headers.tenant)
        end
        -- Two quiet ones come with ten messages each; three are at it, so each
        -- gets every third turn, also while the flood goes on.
        for _ = 1, 10 do
          shard.push(message("quiet"))
          shard.push(message("calm"))
        end
        local last = {}
        for turn = 1, 33 do
          for _ = 1, 5 do
            shard.push(message("flood"))
          end
          last[shard.pop().headers.tenant] = turn
        end
        assert.is_true(last.quiet <= 30 and last.calm <= 30, flood)
      end
    end)

    it("gives the share of who is away to the others, and nobody saves up", function()
      local s = strategy("priority", "fair")
      local shard = new_shard(s, 0)
      for _ = 1, 300 do
        shard.push(message("a"))
      end
      for _ = 1, 200 do
        assert.equal("a", shard.pop().headers.tenant)
      end
      for _ = 1, 100 do
        shard.push(message("b"))
      end
      local got = { a = 0, b = 0 }
      for _ = 1, 100 do
        local tenant = shard.pop().headers.tenant
        got[tenant] = got[tenant] + 1
      end
      assert.is_true(math.abs(got.a - 50) <= 1, got.a)
    end)

    it("keeps the order of each tenant's messages", function()
      local s = strategy("priority", "fair", { weights = "t1:7,t2:0.5" })
      local shard, sent, seen = new_shard(s, 0), {}, {}
      for _ = 1, 20000 do
        if #shard.heap == 0 or math.random() < 0.52 then
          local tenant = "t" .. math.random(1, 4)
          sent[tenant] = (sent[tenant] or 0) + 1
          shard.push { headers = { tenant = tenant, n = tostring(sent[tenant]) } }
        else
          local headers = shard.pop().headers
          assert.equal((seen[headers.tenant] or 0) + 1, tonumber(headers.n))
          seen[headers.tenant] = tonumber(headers.n)
        end
      end
    end)

    it("is not fooled by an old message that is served again", function()
      local s = strategy("priority", "fair")
      for i = 1, 100 do
        assert.equal(i, s:rank(message("a"), { served = i - 1, ready = 1 }))
      end
      -- A retried message has the rank that it had: the time does not go back.
      assert.equal(100, s:rank(message("b"), { served = 5, ready = 1 }))
    end)

    it("lets nobody pay for what was purged", function()
      local s = strategy("priority", "fair")
      for i = 1, 1000 do
        assert.equal(i, s:rank(message("flood"), { ready = i - 1 }))
      end
      assert.equal(1, s:rank(message("quiet"), { ready = 0 }))
      assert.equal(1, s:rank(message("flood"), { ready = 1 }))
    end)

    it("is fair in each shard by itself", function()
      local s = strategy("priority", "fair")
      for i = 1, 1000 do
        assert.equal(i, s:rank(message("a"), { shard = 0, ready = 1 }))
      end
      assert.equal(1, s:rank(message("a"), { shard = 1, ready = 1 }))
      assert.equal(8, s:rank(message("a"), { shard = 1, ready = 1, served = 7 }))
    end)

    it("remembers a bounded number of tenants, and forgets those that are done", function()
      local s = strategy("priority", "fair", { tenants = 10 })
      for i = 1, 10 do
        for _ = 1, 5 do
          s:rank(message("t" .. i), { ready = 1 })
        end
      end
      -- All are waiting: who comes now shares an account, and delays none of them.
      for i = 1, 100 do
        assert.equal(i, s:rank(message("new" .. i), { ready = 1 }))
      end
      assert.equal(6, s:rank(message("t3"), { ready = 1 }))
      -- All are done: newcomers have accounts of their own again.
      for i = 1, 10 do
        assert.equal(201, s:rank(message("later" .. i), { served = 200, ready = 1 }))
      end
    end)

    it("does not grow with tenants that come and go", function()
      local s = strategy("priority", "fair", { tenants = 1000 })
      local function memory()
        return json.decode(engine:status()).memory_bytes
      end
      local served = 0
      local function come_and_go(count)
        for _ = 1, count do
          served = s:rank(message("t" .. math.random(1, 1 << 40)), { served = served, ready = 1 })
        end
      end
      come_and_go(20000)
      local before = memory()
      come_and_go(20000)
      assert.is_true(memory() < before + 400 * 1024, memory() - before)
    end)

    it("keeps 3 to 1 within 5 % over 100,000 messages with reloads in between", function()
      local s = strategy("priority", "fair", { weights = "a:3,b:1" })
      local got = serve(s, 100000, { "a", "b" }, nil, function(turn)
        if turn % 10000 == 5000 then assert(engine:reload()) end
      end)
      assert.is_true(math.abs(got.a / got.b / 3 - 1) < 0.05, got.a / got.b)
    end)

    it("lets no flood begin afresh at a reload", function()
      local s = strategy("priority", "fair")
      local shard = new_shard(s, 0)
      for _ = 1, 1000 do
        shard.push(message("flood"))
      end
      for _ = 1, 50 do
        shard.pop()
      end
      for _ = 1, 3 do
        assert(engine:reload())
      end
      -- The same messages get the same ranks as without a reload.
      assert.equal(1001, shard.push(message("flood")))
      assert.equal(51, shard.push(message("quiet")))
      assert(engine:reload())
      assert.equal(1002, shard.push(message("flood")))
      assert.equal(52, shard.push(message("quiet")))
    end)

    it("gives every rank as if there had been no reload", function()
      local options = { weights = "t1:7,t2:0.5", tenants = 6 }
      local s = strategy("priority", "fair", options)
      local other = support.open()
      local t = assert(other:strategy("priority", "fair", options))
      local served, ready = 0, 0
      for i = 1, 5000 do
        ready = math.max(0, ready + math.random(-3, 4))
        served = served + math.random() * (ready > 0 and 1 or 0)
        local m = message("t" .. math.random(1, 9))
        local queue = { served = served, ready = ready, shard = math.random(0, 2) }
        assert.equal(t:rank(m, queue), s:rank(m, queue))
        if i % 100 == 0 then assert(engine:reload()) end
      end
      t:close()
      other:close()
    end)

    it("refuses weights that make no sense", function()
      for _, list in ipairs { "a", "a:", "a:x", "a:0", "a:-1", "a:1e3", "a:1,b", "a:1.2.3" } do
        assert.matches("tenant:weight", refused("priority", "fair", { weights = list }))
      end
      strategy("priority", "fair", { weights = "a:b:2,:3,c d:.5" })
    end)
  end)

  -- ---- retry -----------------------------------------------------------------------

  local function timetable(name, options, spec)
    local text, message = engine:simulate(name, options, spec)
    assert(text, message)
    local document = json.decode(text)
    local delays = {}
    for i, row in ipairs(document.attempts) do
      delays[i] = row.delay_ms or row.happens
    end
    return delays, document
  end

  it("retry/fixed waits the same each time", function()
    assert.same({ 5000, 5000, 5000, "dead-letter" },
      (timetable("fixed", { delay = "5s", max = 4 })))
    assert.equal(20, #timetable("fixed"))
    assert.equal(10000, timetable("fixed")[1])
  end)

  it("retry/schedule follows its list, then gives up", function()
    assert.same({ 1000, 0, 7200000, "dead-letter" },
      (timetable("schedule", { delays = "1s,0,2h" })))
    assert.same({ 1000, 10000, 60000, 600000, 3600000, "dead-letter" }, (timetable("schedule")))
  end)

  it("retry/none gives up at once", function()
    assert.same({ "dead-letter" }, (timetable("none")))
  end)

  it("retry/immediate and retry/exponential keep their timetables", function()
    assert.same({ 0, 0, "dead-letter" }, (timetable("immediate", { max = 3 })))
    -- From the fourth return on the broker paces it.
    assert.same({ 0, 0, 0, 10, 20, "dead-letter" }, (timetable("immediate", { max = 6 })))
    for _ = 1, 50 do
      local base, factor = math.random(1, 5000), math.random(10, 40) / 10
      local cap, jitter = math.random(5000, HOUR), math.random()
      local delays = timetable("exponential", { base = base, factor = factor, cap = cap,
                                                jitter = jitter, max = 30 })
      assert.equal("dead-letter", delays[30])
      for i = 1, 29 do
        local longest = math.min(base * factor ^ (i - 1), cap)
        local paced = i > 3 and math.min(10 * 2 ^ (i - 4), 1000) or 0
        assert.is_true(delays[i] <= math.max(longest, paced) + 0.5)
        assert.is_true(delays[i] >= math.max(longest * (1 - jitter), paced) - 0.5)
      end
    end
  end)

  -- ---- simulation ----------------------------------------------------------------------

  local function with_rule(text, body)
    local dir = support.make_dir { ["retry/mine.lua"] = text }
    local mine = support.open { rules = dir }
    support.remove_dir(dir)
    body(mine, function(...) return json.decode(assert(mine:simulate(...))) end)
    mine:close()
  end

  describe("a simulated retry", function()
    it("adds up the delays, and the time that a consumer holds it", function()
      local _, document = timetable("schedule", { delays = "1s,5s" }, { held = 60000 })
      local at = {}
      for i, row in ipairs(document.attempts) do
        assert.equal(i, row.attempt)
        at[i] = row.at_ms
      end
      assert.same({ 0, 61000, 126000 }, at)
      assert.equal("dead-letter", document["end"])
      assert.equal(126000, document.end_ms)
    end)

    it("ends where the delivery limit does, or the number asked for", function()
      local delays, document = timetable("fixed", nil, { limit = 3 })
      assert.same({ 10000, 10000, "dead-letter" }, delays)
      assert.equal("delivery-limit", document.attempts[3].by)
      delays, document = timetable("fixed", nil, { failures = 3 })
      assert.same({ 10000, 10000, 10000 }, delays)
      assert.equal("failures", document["end"])
      assert.equal(30000, document.end_ms)
    end)

    it("sees where the message of a topic lies", function()
      with_rule([[return { decide = function(msg)
        if not msg.offset then return tide.BURY end
        return msg.partition * 1000 + msg.offset
      end }]], function(mine)
        local s = assert(mine:strategy("retry", "mine"))
        assert.equal(3017, s:decide({ partition = 3, offset = 17 }, { failures = 1 }))
        assert.equal(0, s:decide({ partition = 0, offset = 0 }, { failures = 1 }))
        assert.equal("bury", s:decide({}, { failures = 1 }))
        s:close()
      end)
    end)

    it("goes by a clock of its own", function()
      with_rule([[return { decide = function(msg, failure)
        assert(failure.reason == "gone" and failure.attempts == failure.failures)
        if tide.now() - msg.ts >= 3600000 then return tide.BURY end
        return 20 * 60000
      end }]], function(mine, simulate)
        mine:set_now(5 * DAY)
        local document = simulate("mine", {}, { reason = "gone" })
        assert.equal(4, #document.attempts)
        assert.equal("bury", document["end"])
      end)
    end)

    it("has no effect on what comes after it", function()
      with_rule([[return {
        new = function() return { calls = 0 } end,
        decide = function(_, _, _, state)
          state.calls = state.calls + 1
          return state.calls * 1000000 + tide.random(0, 999999)
        end }]], function(mine, simulate)
        local s = assert(mine:strategy("retry", "mine"))
        mine:seed(seed)
        local first, second = s:decide({}, {}), s:decide({}, {})
        s:close()
        s = assert(mine:strategy("retry", "mine"))
        mine:seed(seed)
        assert.equal(first, s:decide({}, {}))
        local before = mine:status()
        local document = simulate("mine", {}, { failures = 10 })
        assert.equal(10, #document.attempts)
        -- The memory may have changed: garbage is none of its effects.
        local function without_memory(text) return (text:gsub('"memory_bytes":%d+', "")) end
        assert.equal(without_memory(before), without_memory(mine:status()))
        assert.equal(second, s:decide({}, {}))
        s:close()
      end)
    end)

    it("shows where a script fails, and bounds what one may take", function()
      with_rule([[return { decide = function(_, failure)
        return failure.failures < 3 and 1000 or nil .. "x"
      end }]], function(_, simulate)
        local document = simulate("mine")
        assert.equal(3, #document.attempts)
        assert.equal("error", document["end"])
        assert.matches("retry/mine.lua:2:", document.attempts[3].error)
      end)
      with_rule([[return { decide = function()
        for _ = 1, 1000000 do end
        return 1
      end }]], function(_, simulate)
        local document = simulate("mine", {}, { failures = 1000 })
        assert.equal("time", document["end"])
        assert.is_true(#document.attempts < 1000)
      end)
      with_rule([[return { decide = function() return 1e300 end }]], function(_, simulate)
        local document = simulate("mine", {}, { failures = 1000 })
        assert.equal("time", document["end"])
      end)
    end)

    it("refuses what DECLARE would refuse", function()
      local none, message, code = engine:simulate("nope")
      assert.is_nil(none)
      assert.matches("there are: exponential fixed immediate none schedule", message)
      assert.equal("not-found", code)
      none, message, code = engine:simulate("fixed", { dely = "1s" })
      assert.is_nil(none)
      assert.matches("it has delay max", message)
      assert.equal("mismatch", code)
    end)
  end)

  -- ---- loads ------------------------------------------------------------------------------

  describe("loads", function()
    local function with_pick(body, test)
      local dir = support.make_dir { ["sharding/mine.lua"] =
        "local kept\nreturn { pick = function(_, n, _, _, loads)\n" .. body .. "\nend }" }
      local mine = support.open { rules = dir }
      support.remove_dir(dir)
      local s = assert(mine:strategy("sharding", "mine"))
      test(s)
      s:close()
      mine:close()
    end

    it("speaks of the shards that there are", function()
      with_pick("return loads(n)", function(s)
        local none, message = s:pick({}, 3, { [0] = 1, 1, 1 })
        assert.is_nil(none)
        assert.matches("sharding/mine.lua:3: there is no shard 3; the shards are 0 to 2", message)
      end)
      with_pick("return loads('x')", function(s) assert.is_nil((s:pick({}, 3, {}))) end)
      with_pick("return loads(1)", function(s)
        assert.equal(2, s:pick({}, 3, { [1] = 5 }))
        assert.equal(0, s:pick({}, 3))
      end)
    end)

    it("is good for the call that it was given to", function()
      local dir = support.make_dir { ["sharding/mine.lua"] = [[
        local kept
        return {
          new = function() return kept and kept(0) end,
          pick = function(_, _, _, _, loads) kept = loads return loads(0) end,
        }]] }
      local mine = support.open { rules = dir }
      support.remove_dir(dir)
      local s = assert(mine:strategy("sharding", "mine"))
      assert.equal(2, s:pick({}, 3, { [0] = 2 }))
      local none, message = mine:strategy("sharding", "mine")
      assert.is_nil(none)
      assert.matches("'loads' has expired", message)
      s:close()
      mine:close()
    end)
  end)
end)
