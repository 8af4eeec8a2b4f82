-- Every block of Lua in the documents loads: those that name a file of the rules
-- directory in their first line in the real engine, the others as Lua.

local support = require "lua.support.engine"
local json = require "dkjson"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

local function blocks_of(...)
  local blocks = {}
  for _, path in ipairs({ ... }) do
    for block in read(path):gmatch("\n```lua\n(.-)\n```") do
      blocks[#blocks + 1] = { text = block, file = block:match("^%-%- rules/(%S+)") }
    end
  end
  return blocks
end

describe("docs/rules.md and its reference", function()
  local blocks = blocks_of("docs/rules.md", "docs/rules-reference.md")

  -- An instance needs the shipped script that it names.
  local function add_models(files)
    local models = {}
    for file, text in pairs(files) do
      local model = text:match('tide%.use%("([%w_]+)"')
      if model then models[#models + 1] = ("%s/%s.lua"):format(file:match("^%l+"), model) end
    end
    for _, model in ipairs(models) do files[model] = files[model] or read("rules/" .. model) end
  end

  it("has blocks that load as the rules they are", function()
    local files, count = {}, 0
    for _, block in ipairs(blocks) do
      if block.file then
        assert.is_nil(files[block.file])
        files[block.file], count = block.text, count + 1
      else
        assert(load(block.text))
      end
    end
    assert.is_true(count >= 5)
    add_models(files)
    local dir = support.make_dir(files)
    local engine, message = support.luatide.open { rules = dir }
    support.remove_dir(dir)
    assert(engine, message)
    engine:close()
  end)

  local function with_rule(name, body)
    local files = {}
    for _, block in ipairs(blocks) do
      if block.file then
        files[block.file] = block.text
      end
    end
    assert(files[name], name)
    add_models(files)
    local dir = support.make_dir(files)
    local engine = support.open { rules = dir }
    support.remove_dir(dir)
    body(engine)
    engine:close()
  end

  it("has a routing type that routes", function()
    with_rule("routing/country.lua", function(engine)
      local x = assert(engine:index("country"))
      assert(x:bind("de,at,ch", 1))
      assert(x:bind("at", 2))
      assert.same({ 1, 2 }, support.route(x, { key = "at.order.new" }))
      assert.same({ 1 }, support.route(x, { key = "de" }))
      assert(x:unbind("at", 2))
      assert.same({ 1 }, support.route(x, { key = "at.x" }))
      assert.same({}, support.route(x, { key = "fr.x" }))
      x:close()
    end)
  end)

  it("has a retry policy that waits for the morning", function()
    with_rule("retry/flaky_api.lua", function(engine)
      local hour, day = 3600000, 86400000
      local s = assert(engine:strategy("retry", "flaky_api", { slow = "5m" }))
      local function decide(now, failures)
        engine:set_now(now)
        return s:decide({ ts = 100 * day }, { failures = failures })
      end
      local quick = decide(100 * day + 12 * hour, 3)
      assert.is_true(quick >= 100 and quick <= 2000)
      assert.equal(300000, decide(100 * day + 12 * hour, 4))
      assert.equal(4 * hour, decide(101 * day + 2 * hour, 4))
      assert.equal("bury", decide(103 * day, 4))
      s:close()
      -- What the text has simulated.
      local document = json.decode(assert(engine:simulate("flaky_api", { slow = "8h" })))
      assert.equal("bury", document["end"])
      assert.is_true(document.end_ms > 2 * day and document.end_ms <= 2 * day + 14 * hour)
      assert.is_true(#document.attempts >= 8 and #document.attempts <= 14)
    end)
  end)

  it("has a retry policy that keeps office hours", function()
    with_rule("retry/office_hours.lua", function(engine)
      local minute, hour = 60000, 3600000
      local s = assert(engine:strategy("retry", "office_hours"))
      local friday = 1774598400000 -- 2026-03-27T08:00Z, 9 o'clock in Berlin; clocks change on Sunday
      for now, delay in pairs { [friday] = minute, [friday - 3 * hour] = 2 * hour,
        [friday + 10 * hour] = 12 * hour + 2 * 24 * hour, [friday + 30 * hour] = 40 * hour } do
        engine:set_now(now)
        assert.equal(delay, s:decide({}, { failures = 1 }))
      end
      s:close()
    end)
  end)

  it("has a priority that serves tenants in turn", function()
    with_rule("priority/per_tenant.lua", function(engine)
      local s = assert(engine:strategy("priority", "per_tenant"))
      local function rank(tenant, served)
        return s:rank({ headers = { tenant = tenant } }, { served = served })
      end
      for i = 1, 1000 do
        assert.equal(i, rank("loud", 0))
      end
      assert.equal(6, rank("quiet", 5))
      assert.equal(7, rank("quiet", 5))
      s:close()
    end)
  end)

  it("has a filter that sorts orders", function()
    with_rule("filter/20-orders.lua", function(engine)
      local function publish(headers)
        return engine:filter { exchange = "orders", key = "orders.new", headers = headers }
      end
      local _, message, code = publish {}
      assert.same({ "rejected", "an order has a header 'amount' that is a number (filter/20-orders.lua)" },
        { code, message })
      assert.equal("sandbox", publish({ amount = "5", customer = "test" }).exchange)
      assert.same({ amount = "5", currency = "EUR" }, publish({ amount = "5" }).headers)
      local copy = publish({ amount = "10000" }).copies[1]
      assert.same({ "-", "review", 9 }, { copy.exchange, copy.key, copy.priority })
    end)
  end)

  it("has a filter that reads JSON", function()
    with_rule("filter/30-total.lua", function(engine)
      local function publish(payload)
        return engine:filter { exchange = "invoices", key = "k", payload = payload }
      end
      assert.equal("this is not JSON: wrong at byte 1 (filter/30-total.lua)", select(2, publish "hello"))
      assert.equal("an invoice has items (filter/30-total.lua)", select(2, publish "{}"))
      assert.equal("30", publish('{"items":[{"cents":5,"count":2},{"cents":20,"count":1}]}').headers.total)
      assert.equal('{"customer":{"name":"x"},"free":true,"items":[]}',
        publish('{"items":[],"x":1,"customer":{"name":"x"}}').payload)
    end)
  end)

  it("has a policy that notices an outage", function()
    with_rule("retry/outage.lua", function(engine)
      local s = assert(engine:strategy("retry", "outage"))
      engine:set_now(0)
      for _ = 1, 100 do
        assert.equal(1000, s:decide({}, { failures = 1 }))
      end
      assert.equal(60000, s:decide({}, { failures = 1 }))
      engine:set_now(60000)
      assert.equal(1000, s:decide({}, { failures = 1 }))
      s:close()
    end)
  end)

  it("has filters that limit, sample and prefer", function()
    with_rule("filter/30-sample.lua", function(engine)
      local copies, passed = 0, 0
      engine:set_now(1000)
      for i = 1, 300 do
        local m = engine:filter { exchange = "orders", key = "orders.new", id = i, headers = { amount = "5" } }
        passed = passed + (m and 1 or 0)
        for _, copy in ipairs(m and m.copies or {}) do copies = copies + (copy.key == "samples" and 1 or 0) end
      end
      assert.same({ 100, 1 }, { passed, copies })
      local gold = engine:filter { exchange = "x", vhost = "shop", headers = { tier = "silver" } }
      assert.equal(9, gold.priority)
      assert.not_equal(9, engine:filter({ exchange = "x", vhost = "shop", user = "probe",
        headers = { tier = "silver" } }).priority)
    end)
  end)

  it("has a schedule that reminds", function()
    with_rule("schedule/reminder.lua", function(engine)
      assert.equal(600000, engine:next_run("reminder", 300000))
      engine:set_queue("jobs", { ready = 1 })
      local messages = assert(engine:run("reminder", 600000))
      assert.equal("wake-up", messages[1].key)
      assert.equal("1 jobs at 600000", messages[1].payload)
    end)
  end)

  it("has a timetable that follows its list", function()
    with_rule("retry/timetable.lua", function(engine)
      local s = assert(engine:strategy("retry", "timetable", { delays = "5s,1m", last = "drop" }))
      assert.equal(5000, s:decide({}, { failures = 1 }))
      assert.equal(60000, s:decide({}, { failures = 2 }))
      assert.equal("drop", s:decide({}, { failures = 3 }))
      s:close()
    end)
  end)
end)

describe("docs/rules.md on the shipped strategies", function()
  local engine = support.open()
  local scripts = json.decode(engine:status()).scripts
  engine:close()
  local text = read("docs/rules.md") .. read("docs/rules-reference.md")
  local section = text:match("\n# Shipped strategies\n(.-)\n# ")
  local is_strategy = { sharding = true, priority = true, retry = true }

  it("names each of them, and no other", function()
    for kind in pairs(is_strategy) do
      local shipped, listed, described = {}, {}, {}
      for _, script in ipairs(scripts) do
        if script.kind == kind then
          shipped[#shipped + 1] = script.name
        end
      end
      local row = text:match("\n| `" .. kind .. "/` |.-|.-|(.-)|\n")
      for name in row:gmatch("`([%w_]+)`") do
        listed[#listed + 1] = name
      end
      local heading = kind:sub(1, 1):upper() .. kind:sub(2)
      local part = section:match("%*%*" .. heading .. "%.%*%*.-\n(|.-)\n\n")
      for name in ("\n" .. part):gmatch("\n| `([%w_]+)` |") do
        described[#described + 1] = name
      end
      assert.same(listed, described)
      table.sort(shipped)
      table.sort(listed)
      assert.same(shipped, listed)
    end
  end)

  it("has their options as they are declared", function()
    local declared, documented = {}, {}
    for _, script in ipairs(scripts) do
      for _, o in ipairs(is_strategy[script.kind] and script.options or {}) do
        declared[#declared + 1] = ("| `%s` | `%s` | %s | %s | %s |"):format(script.name, o.name,
          o.type, o.default and "`" .. o.default .. "`" or "", o.doc)
      end
    end
    local part = section:match("\n| script | option | type | default | |\n| [-| ]+ |\n(.*)")
    for line in part:gmatch("| [^\n]+ |") do
      documented[#documented + 1] = line
    end
    table.sort(declared)
    table.sort(documented)
    assert.is_true(#declared >= 18)
    assert.same(declared, documented)
  end)

  it("declares queues as the engine takes them", function()
    local count = 0
    engine = support.open()
    for line in text:gmatch("\n(DECLARE queue [^\n]+)") do
      for kind, name in line:gmatch(" (%l+)=(%w+)") do
        if is_strategy[kind] then
          local options = {}
          for option, value in line:gmatch(" " .. kind .. "%.(%w+)=(%S+)") do
            options[option] = value
          end
          assert(engine:strategy(kind, name, options)):close()
          count = count + 1
        end
      end
    end
    engine:close()
    assert.is_true(count >= 1)
  end)
end)

describe("lua/meta/tide.lua", function()
  it("declares what tide has, and nothing else", function()
    local dir = support.make_dir {
      ["sharding/names.lua"] = [[
        local names = {}
        for name in pairs(tide) do names[#names + 1] = name end
        table.sort(names)
        return { doc = table.concat(names, " "), pick = function() return 0 end }]],
    }
    local engine = support.open { rules = dir }
    support.remove_dir(dir)
    local has = engine:status():match('"file":"sharding/names.lua".-"doc":"(.-)"')
    engine:close()
    local declared = {}
    local meta = read("lua/meta/tide.lua")
    for name in meta:gmatch("\nfunction tide%.([%w_]+)") do
      declared[#declared + 1] = name
    end
    for name in meta:match("%-%-%-@class tide\n(.-)\ntide = {}"):gmatch("@field (%S+)") do
      declared[#declared + 1] = name
    end
    table.sort(declared)
    assert.equal(table.concat(declared, " "), has)
  end)

  -- What a view has it says itself, to a script that asks for something else.
  local meta = read("lua/meta/tide.lua")

  local function declared_fields(class)
    local names = {}
    local block = meta:match("%-%-%-@class tide%." .. class .. "%f[^%w][^\n]*\n(.-)\n\n")
    for name in block:gmatch("@field (%S+)") do
      names[#names + 1] = name
    end
    local variable = block:match("local (%w+) = {}$")
    for name in meta:gmatch(variable and "\nfunction " .. variable .. "[.:]([%w_]+)" or "\0") do
      names[#names + 1] = name
    end
    return names
  end

  local function sorted(names)
    local seen, list = {}, {}
    for _, name in ipairs(names) do
      if not seen[name] then
        seen[name] = true
        list[#list + 1] = name
      end
    end
    table.sort(list)
    return table.concat(list, " ")
  end

  local function words(text)
    local names = {}
    for name in text:gmatch("%S+") do
      names[#names + 1] = name
    end
    return names
  end

  it("declares what msg, queue, failure, broker and the rest have, and nothing else", function()
    local ask = [[
      local function fields(view)
        local _, message = pcall(function() return view.no_such_field end)
        return message:match("it has (.*)$")
      end
      local function keys(object)
        local names = {}
        for name in pairs(object) do names[#names + 1] = name end
        return table.concat(names, " ")
      end
    ]]
    local dir = support.make_dir {
      ["retry/a.lua"] = ask .. [[return { decide = function(msg, f)
        error(fields(msg) .. ';' .. fields(f) .. ';' .. fields(tide.queue('q')), 0) end }]],
      ["priority/a.lua"] = ask .. [[return { rank = function(msg, queue)
        error(fields(queue) .. ';' .. fields(msg), 0) end }]],
      ["filter/a.lua"] = ask
        .. "return { match = { exchange = '*' }, publish = function(msg) return false, fields(msg) end }",
      ["schedule/a.lua"] = ask .. [[return { every = "1m", run = function(broker, tick)
        error(keys(broker) .. ";" .. keys(tick) .. ";" .. keys(tide.shared) .. ";" .. keys(tide.log), 0) end }]],
      ["connect/a.lua"] = ask .. "return { match = {}, connect = function(c) return false, fields(c) end }",
      ["auth/a.lua"] = ask .. [[return {
        authenticate = function(login)
          error(fields(login) .. ";" .. keys(tide.base64) .. ";" .. keys(tide.json), 0) end,
        authorize = function(user, _, object) error(fields(user) .. ";" .. fields(object), 0) end }]],
    }
    local engine = support.open { rules = dir }
    support.remove_dir(dir)
    local function asked(...)
      local _, message = ...
      local list = {}
      for part in message:gsub("^%l+/a%.lua:%d+: ", ""):gsub(" %(filter/a%.lua%)$", ""):gmatch("[^;]*") do
        list[#list + 1] = sorted(words(part))
      end
      return list
    end
    engine:set_queue("q", {})
    local written, failure, facts =
      table.unpack(asked(assert(engine:strategy("retry", "a")):decide({}, { failures = 1 })))
    assert.is_truthy(failure:find("reason", 1, true))
    assert.equal(sorted(declared_fields("Failure")), failure)
    assert.equal(sorted(declared_fields("QueueFacts")), facts)
    local queue, msg = table.unpack(asked(assert(engine:strategy("priority", "a")):rank({}, {})))
    assert.is_truthy(msg:find("payload", 1, true))
    assert.equal(sorted(declared_fields("Msg")), msg)
    assert.equal(sorted(declared_fields("Queue")), queue)
    local draft = declared_fields("Draft")
    table.move(declared_fields("Msg"), 1, 100, #draft + 1, draft)
    assert.equal(sorted(draft), asked(engine:filter { exchange = "x", key = "k" })[1])
    assert.equal(sorted(draft), written)
    assert.equal(sorted(declared_fields("Client")), asked(engine:connect {})[1])
    local login, base64, json_fields = table.unpack(asked(engine:authenticate {}))
    assert.equal(sorted(declared_fields("Login")), login)
    assert.equal(sorted(declared_fields("Base64")), base64)
    assert.equal(sorted(declared_fields("Json")), json_fields)
    local user, object = table.unpack(asked(engine:authorize({}, "read", {})))
    assert.equal(sorted(declared_fields("User")), user)
    assert.equal(sorted(declared_fields("Object")), object)
    local broker, tick, shared, log = table.unpack(asked(engine:run("a", 60000)))
    assert.equal(sorted(declared_fields("Broker")), broker)
    assert.equal(sorted(declared_fields("Tick")), tick)
    assert.equal(sorted(declared_fields("Shared")), shared)
    assert.equal(sorted(declared_fields("Log")), log)
    engine:close()
  end)
end)

describe("docs/architecture.md", function()
  local text = read("docs/architecture.md")

  --- The file of the tree that the page calls so, or nil.
  local function find(path)
    for _, candidate in ipairs { "core/" .. path, path } do
      local file = io.open(candidate)
      if file then
        file:close()
        return candidate
      end
    end
  end

  it("names files that exist", function()
    local count = 0
    for path in text:gmatch("`([%w_/]+/[%w_]+%.[%a]+)`") do
      assert(find(path), path)
      count = count + 1
    end
    assert.is_true(count > 50)
  end)

  it("says of each behaviour which two functions it is in", function()
    local rows = 0
    for row in text:match("## Where a behaviour is(.-)\n## "):gmatch("\n| ([^\n]*`[^\n]*)") do
      local places = 0
      for path, symbol in row:gmatch("`([%w_/]+%.%a+)` `([%w_]+)`") do
        local where = assert(find(path), path)
        assert(read(where):find("%f[%w_]" .. symbol .. "%f[^%w_]"), where .. ": " .. symbol)
        places = places + 1
      end
      assert.equal(2, places, row)
      rows = rows + 1
    end
    assert.is_true(rows >= 10, rows)
  end)
end)

describe("lua/meta/tidemq.lua", function()
  it("declares the methods that objects of specs have, and nothing else", function()
    local engine = support.open { rules = "rules" }
    local meta = read("lua/meta/tidemq.lua")
    local objects = { engine = engine, strategy = assert(engine:strategy("retry", "fixed")),
      index = assert(engine:index("topic")) }
    for name, object in pairs(objects) do
      local has, declared = {}, {}
      for method in pairs(getmetatable(object).__index) do has[#has + 1] = method end
      for method in meta:gmatch("\nfunction " .. name .. ":([%w_]+)") do declared[#declared + 1] = method end
      table.sort(has)
      table.sort(declared)
      assert.same(has, declared)
    end
    objects.strategy:close()
    objects.index:close()
    engine:close()
  end)
end)
