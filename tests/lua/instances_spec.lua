-- Options and states of scripts that nobody declares, and tide.use: a script used again
-- with settings of its own.

local support = require "lua.support.engine"

describe("a script of the broker itself", function()
  local dir, engine

  after_each(function()
    if engine then engine:close() end
    if dir then support.remove_dir(dir) end
    engine, dir = nil, nil
  end)

  local function open(files)
    dir = support.make_dir(files)
    local message
    engine, message = support.luatide.open { rules = dir, secrets = { key = "hush hush" } }
    if engine then return engine end
    support.remove_dir(dir)
    dir = nil
    return nil, message
  end

  local function refused(files)
    local ok, message = open(files)
    assert.is_nil(ok)
    return message
  end

  local function write(name, text)
    local file = assert(io.open(dir .. "/" .. name, "w"))
    assert(file:write(text))
    file:close()
  end

  local STAMP = [[
    return {
      doc = "stamps messages",
      options = {
        text = { required = true, doc = "what it writes" },
        times = { type = "integer", default = 1, min = 1 },
        words = { type = "list" },
        pause = { type = "duration", default = "1s" },
      },
      new = function(opts, name) return { count = 0, name = name .. opts.text } end,
      carry = function(old) return { count = old.count, name = "carried" } end,
      publish = function(msg, opts, state)
        state.count = state.count + opts.times
        msg.headers.stamp = ("%s %d %s %s"):format(opts.text, state.count, state.name,
          opts.words and table.concat(opts.words, "+") or opts.pause)
        if msg.key == "bad" then return 5 end
        if msg.key == "worse" then error "no stamp" end
      end,
    }]]

  it("has options and a state", function()
    open {
      ["filter/10-a.lua"] = [[return { match = {}, options = { by = { default = "k" } },
        new = function(opts) return { n = 0 } end,
        publish = function(msg, opts, state)
          state.n = state.n + 1
          msg.headers[opts.by] = tostring(state.n)
        end }]],
      ["schedule/s.lua"] = [[return { every = "1s", options = { to = { default = "jobs" } },
        new = function() return { n = 0 } end,
        run = function(broker, tick, opts, state)
          state.n = state.n + 1
          broker.publish { key = opts.to, payload = tostring(state.n) }
        end }]],
    }
    assert.equal("1", engine:filter({}).headers.k)
    assert.equal("2", engine:filter({}).headers.k)
    engine:run("s", 0)
    local sent = engine:run("s", 1000)
    assert.same({ "jobs", "2" }, { sent[1].key, sent[1].payload })
  end)

  it("takes the declarations of its options from a module", function()
    open {
      ["lib/opts.lua"] = [[return { times = { type = "integer", default = 7 },
        days = { type = "list", default = { "mon", "fri" } }, words = { "a", "b" } }]],
      ["filter/10-a.lua"] = [[
        local declared = require "lib.opts"
        return { match = {}, options = { times = declared.times, days = declared.days,
            words = { type = "list", default = declared.words } },
          publish = function(msg, opts)
            msg.headers.all = opts.times + 1 .. table.concat(opts.days) .. table.concat(opts.words)
          end }]],
    }
    assert.equal("8monfriab", assert(engine:filter {}).headers.all)
  end)

  it("may give an empty list, which has no element", function()
    open { ["filter/10-x.lua"] = 'return tide.use("schema", { match = {}, options = { required = {} } })' }
    assert(engine:filter {})
  end)

  it("gets its values whole, or they are refused", function()
    local function declare(value)
      return refused { ["filter/10-a.lua"] = ([[
        return { match = {}, options = { x = { type = "list", default = %s } }, publish = print }]]):format(value) }
    end
    assert.matches("option 'x': an element of a list cannot have a comma", declare '{ "a,b" }')
    assert.matches("option 'x': the value has a zero byte", declare [["a\0b"]])
    assert.matches("option 'x': the value has a zero byte", declare [[{ "a\0b" }]])
  end)

  it("is used again with other options, each use with a state of its own", function()
    open {
      ["filter/stamp.lua"] = STAMP,
      ["filter/10-eu.lua"] = [[return tide.use("stamp", { match = { exchange = "eu" },
        options = { text = "EU", times = 2, words = { "a", "b" } } })]],
      ["filter/20-us.lua"] = [[return tide.use("stamp", { doc = "for the US",
        match = { exchange = "us" }, options = { text = "US", pause = 500 } })]],
    }
    assert.equal("EU 2 10-euEU a+b", engine:filter({ exchange = "eu" }).headers.stamp)
    assert.equal("EU 4 10-euEU a+b", engine:filter({ exchange = "eu" }).headers.stamp)
    assert.equal("US 1 20-usUS 500", engine:filter({ exchange = "us" }).headers.stamp)
    assert.is_nil(engine:filter({ exchange = "asia" }).headers.stamp)
    local status = engine:status()
    assert.matches('"file":"filter/10%-eu.lua",.-"model":"filter/stamp.lua",'
      .. '"given":{"text":"EU","times":"2","words":"a,b"}', (status:gsub('"given":{.-}', function(given)
        local pairs_ = {}
        for pair in given:gmatch '"[a-z]+":"[^"]*"' do pairs_[#pairs_ + 1] = pair end
        table.sort(pairs_)
        return '"given":{' .. table.concat(pairs_, ",") .. "}"
      end)))
    assert.matches('"doc":"for the US"', status)
    assert.matches('"file":"filter/10%-eu.lua".-"doc":"stamps messages"', status)
    assert.matches('"file":"filter/stamp.lua".-"active":false', status)
  end)

  it("keeps its state over a reload if it carries it", function()
    open { ["filter/stamp.lua"] = STAMP,
      ["filter/10-x.lua"] = 'return tide.use("stamp", { match = {}, options = { text = "x" } })' }
    engine:filter {}
    write("filter/10-x.lua", 'return tide.use("stamp", { match = {}, options = { text = "y" } })')
    assert(engine:reload())
    assert.equal("y 2 carried 1000", engine:filter({}).headers.stamp)
  end)

  it("uses a shipped script that the directory does not have", function()
    open { ["filter/10-x.lua"] = [[return tide.use("schema", { match = {},
      options = { required = { "color" } } })]] }
    assert.matches("color", select(2, engine:filter {}))
    assert(engine:filter { headers = { color = "red" } })
    assert.matches('"model":"shipped/filter/schema.lua"', (engine:status()))
  end)

  it("changes when its model does", function()
    open { ["filter/stamp.lua"] = STAMP,
      ["filter/10-x.lua"] = 'return tide.use("stamp", { match = {}, options = { text = "x" } })' }
    local function hash()
      return engine:status():match '"file":"filter/10%-x.lua","hash":"(%x+)"'
    end
    local before = hash()
    write("filter/stamp.lua", STAMP .. " -- changed")
    assert(engine:reload())
    assert.not_equal(before, hash())
    write("filter/stamp.lua", STAMP)
    assert(engine:reload())
    assert.equal(before, hash())
  end)

  it("fails with the line of the model, and says which use of it failed", function()
    open { ["filter/stamp.lua"] = STAMP,
      ["filter/10-x.lua"] = 'return tide.use("stamp", { match = {}, options = { text = "x" } })' }
    local _, message = engine:filter { key = "worse" }
    assert.equal("filter/stamp.lua:16: no stamp (for filter/10-x.lua)", message)
    _, message = engine:filter { key = "bad" }
    assert.equal("filter/stamp.lua:11: publish must return nothing, or false and a reason, not a number "
      .. "(for filter/10-x.lua)", message)
    local _, _, errors = engine:status():find '"file":"filter/10%-x.lua".-"errors":(%d+)'
    assert.equal("2", errors)
  end)

  it("is refused with one sentence", function()
    local function use(settings)
      return refused {
        ["filter/stamp.lua"] = STAMP,
        ["filter/20-eu.lua"] = "\nreturn tide.use(" .. settings .. ")",
        ["filter/plain.lua"] = "return { publish = function() end }",
        ["filter/again.lua"] = 'return tide.use("plain", { match = {} })' }
    end
    for settings, message in pairs {
      ['"stamp", { match = {}, options = { text = "x", times = 0 } }'] =
        "filter/20-eu.lua:2: option 'times' of filter/stamp.lua must be an integer, at least 1, not '0'",
      ['"stamp", { match = {}, options = { text = "x", pause = "soon" } }'] =
        "filter/20-eu.lua:2: option 'pause' of filter/stamp.lua must be a duration such as 500ms, 30s or 5m, "
        .. "not 'soon'",
      ['"stamp", { match = {} }'] = "filter/20-eu.lua:2: filter/stamp.lua needs the option 'text'",
      ['"stamp", { match = {}, options = { test = "x" } }'] =
        "filter/20-eu.lua:2: filter/stamp.lua has no option 'test'; it has pause text times words",
      ['"stamp", { match = {}, options = { words = { "a,b" } } }'] =
        "filter/20-eu.lua:2: option 'words': an element of a list cannot have a comma",
      ['"stamp", { match = {}, options = { text = print } }'] =
        "filter/20-eu.lua:2: option 'text': the value cannot be a function",
      ['"stamp", { match = {}, options = 5 }'] =
        "filter/20-eu.lua:2: 'options' must be a table of values by name, not a number",
      ['"plain", { match = {}, options = { x = 1 } }'] =
        "filter/20-eu.lua:2: filter/plain.lua has no option 'x'; it has none",
      ['"stamp", { mtach = {} }'] =
        "filter/20-eu.lua:2: tide.use in filter/ has no 'mtach'; it has doc, options, match",
      ['"stamp", { match = {}, text = "x" }'] =
        "filter/20-eu.lua:2: 'text' is an option of filter/stamp.lua: write options = { text = … }",
      ['"stamp", { match = { keys = "x" } }'] = "filter/20-eu.lua:2: 'match' of a filter script has no 'keys'; it has "
        .. "exchange, key, vhost, user, headers, min_size, max_size, except",
      ['"stamp", { options = { text = "x" } }'] =
        "filter/20-eu.lua:2: tide.use in filter/ needs 'match': write match = {} for everything",
      ['"nothing", { match = {} }'] = "filter/20-eu.lua:2: tide.use: there is no filter/nothing.lua; "
        .. "shipped are content_route, dedupe, mirror, rate_limit, record, schema, shed",
      ['"again", { match = {} }'] =
        "filter/20-eu.lua:2: tide.use: filter/again.lua is itself an instance of another script; use that one",
      ['"../plain", {}'] = "filter/20-eu.lua:2: bad argument #1 to 'use' (not the name of a script: write it as in "
        .. "DECLARE, without folder and .lua)",
    } do
      assert.equal(message, (use(settings)))
    end
    assert.equal("filter/stamp.lua:1: boom (for filter/20-eu.lua)", refused {
      ["filter/stamp.lua"] = "return { new = function() error 'boom' end, publish = print }",
      ["filter/20-eu.lua"] = 'return tide.use("stamp", { match = {} })' })
    assert.equal("routing/mine.lua:1: a routing script cannot use another: its options are given where it is declared",
      refused { ["routing/mine.lua"] = 'return tide.use("topic")' })
    assert.matches("filter/10%-x.lua:1: filter/10%-x.lua needs the option 'text'", refused {
      ["filter/10-x.lua"] = "return { match = {}, options = { text = { required = true } }, publish = print }" })
  end)

  it("may be a schedule with another time", function()
    open {
      ["schedule/model.lua"] = [[return { active = false, every = "30s", missed = "skip",
        options = { to = { required = true } },
        run = function(broker, tick, opts) broker.publish { key = opts.to } end }]],
      ["schedule/mine.lua"] = 'return tide.use("model", { cron = "0 6 * * *", options = { to = "jobs" } })',
      ["schedule/off.lua"] = 'return tide.use("model", { active = false, options = { to = "jobs" } })',
    }
    assert.equal(6 * 3600000, engine:next_run("mine", 0))
    assert.equal(30000, engine:next_run("off", 0))
    assert.equal("jobs", engine:run("mine", 0)[1].key)
  end)

  it("may decide about logins, and read a secret by its name", function()
    open {
      ["auth/model.lua"] = [[return { active = false, options = { secret = { required = true } },
        new = function(opts) return { key = tide.secret(opts.secret) } end,
        authenticate = function(login, opts, state)
          return login.password == state.key
        end }]],
      ["auth/10-mine.lua"] = 'return tide.use("model", { options = { secret = "key" } })',
    }
    assert.same({ "allow" }, { (engine:authenticate { user = "bob", password = "hush hush" }) })
    local verdict, _, file = engine:authenticate { user = "bob", password = "x" }
    assert.same({ "refuse", "auth/10-mine.lua" }, { verdict, file })
    assert.matches('"file":"auth/model.lua".-"active":false', engine:status())
  end)

  it("counts for nothing while it is not active", function()
    open { ["auth/model.lua"] = "return { active = false, authenticate = function() return false, 'no' end }" }
    assert.equal("none", (engine:authenticate { user = "bob" }))
    assert.matches('"auth":{"authenticate":false,', engine:status())
  end)
end)
