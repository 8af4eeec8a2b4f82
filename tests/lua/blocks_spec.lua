-- The building blocks of scripts that are neither for tokens (auth_spec.lua) nor shared
-- (shared_spec.lua), in the real engine.

local support = require "lua.support.engine"

local dir

-- An engine with one filter that refuses each message with what `body` returns, as a text.
local function open(body, options)
  dir = support.make_dir { ["filter/a.lua"] = ([[
    return { match = {}, publish = function(msg)
      local function value() %s end
      local found = table.pack(value())
      for i = 1, found.n do found[i] = tostring(found[i]) end
      return false, "<" .. table.concat(found, " | ") .. ">"
    end }]]):format(body) }
  options = options or {}
  options.rules = dir
  local engine = assert(support.luatide.open(options))
  support.remove_dir(dir)
  finally(function() engine:close() end)
  return engine
end

local function ask(engine)
  local _, reason = engine:filter { exchange = "x", key = "a.b", headers = { id = "7" } }
  return reason:match "^<(.*)> %(filter/a.lua%)$" or reason
end

local function value(expression)
  return ask(open("return " .. expression))
end

local function they_are(expressions)
  for expression, result in pairs(expressions) do
    it(expression, function()
      local found = value(expression)
      if result:find "^%^" then
        assert.matches(result, found)
      else
        assert.equal(result, found)
      end
    end)
  end
end

describe("the blocks of texts", function()
  they_are {
    ['tide.hex.encode "\0\1\254\255"'] = "0001feff",
    ['tide.hex.encode ""'] = "",
    ['tide.hex.decode "666F6f"'] = "foo",
    ['#tide.hex.decode ""'] = "0",
    ['tide.hex.decode "666"'] = "nil | this is not hexadecimal",
    ['tide.hex.decode "6g"'] = "nil | this is not hexadecimal",
    ['tide.hex.encode(("x"):rep(1048576) .. "x")'] = "^filter/a.lua:2: .*the text has more than 1 MiB",
    ['tide.hex.encode(tide.sha256 "abc"):sub(1, 16)'] = "ba7816bf8f01cfea",
    ['tide.crc32 "123456789"'] = "3421780262",
    ['tide.crc32 ""'] = "0",
    ['math.type(tide.crc32 "x")'] = "integer",
    ['#tide.random_bytes(16)'] = "16",
    ['tide.random_bytes(16) == tide.random_bytes(16)'] = "false",
    ['tide.random_bytes(0)'] = "^filter/a.lua:2: bad argument #1 to 'random_bytes' %(expected 1 to 1024%)",
    ['tide.random_bytes(1025)'] = "^filter/a.lua:2: bad argument #1 to 'random_bytes' %(expected 1 to 1024%)",
    ['pcall(function() tide.hex.encode = print end)'] = "^false | .*this table is read%-only",
  }
end)

describe("tide.uuid", function()
  it("sorts by time, has version 7, and is repeated by a seed", function()
    local engine = open "return tide.uuid()"
    engine:set_now(0x0123456789ab)
    engine:seed(1)
    local first = ask(engine)
    assert.matches("^01234567%-89ab%-7%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$", first)
    assert.not_equal(first, ask(engine))
    engine:seed(1)
    assert.equal(first, ask(engine))
    engine:set_now(0x0123456789ac)
    assert.is_true(ask(engine) > first)
  end)

  it("is nothing for a pure script, nor are random bytes", function()
    for _, name in ipairs { "uuid", "random_bytes" } do
      local rules = support.make_dir { ["routing/r.lua"] = ([[
        return { pure = true, new = function() return {} end, bind = function() end, unbind = function() end,
          route = function() tide.%s(1) end }]]):format(name) }
      local engine = support.open { rules = rules }
      support.remove_dir(rules)
      local _, message = assert(engine:index "r"):route { key = "k" }
      assert.matches("a pure script may look at msg.key and msg.exchange alone, not at tide%." .. name, message)
      engine:close()
    end
  end)
end)

describe("tide.match", function()
  they_are {
    ['tide.match("orders.*.paid", "orders.eu.paid")'] = "true",
    ['tide.match("orders.#", "orders")'] = "true",
    ['tide.match("orders.*", "orders")'] = "false",
    ['tide.match("#", "")'] = "true",
    ['tide.match(msg.key, "a.b")'] = "true",
    ['tide.match("a..b", "a..b")'] = "true",
    ['tide.match("a.", "a")'] = "false",
    ['tide.match("a.b*", "a")'] = "^filter/a.lua:2: the topic pattern 'a.b%*' has a word with a wildcard in it",
    ['tide.match("#.a.#.b.#", "a")'] = "^filter/a.lua:2: the topic pattern '#.a.#.b.#' has '#' more than twice",
    ['tide.match(("a"):rep(256), "a")'] = "^.*the pattern has more than 255 bytes",
    ['tide.match("a", ("a"):rep(1025))'] = "^.*the text has more than 1024 bytes",
  }
end)

describe("tide.cidr", function()
  they_are {
    ['tide.cidr("10.0.0.0/8, fd00::/8"):has "10.1.2.3"'] = "true",
    ['tide.cidr("10.0.0.0/8, fd00::/8"):has "::ffff:10.1.2.3"'] = "true",
    ['tide.cidr("10.0.0.0/8 fd00::/8"):has "fd12::1"'] = "true",
    ['tide.cidr("10.0.0.0/8,fd00::/8"):has "192.0.2.1"'] = "false",
    ['tide.cidr("10.0.0.0/8"):has "jobs"'] = "nil | 'jobs' is not an IP address",
    ['tide.cidr "10.0.0.1/8"'] =
      "^filter/a.lua:2: '10.0.0.1/8' has bits behind its prefix; the network is 10.0.0.0/8",
    ['tide.cidr "10.0.0.0/8, here"'] = "^filter/a.lua:2: 'here' is not a network",
    ['tide.cidr " , "'] = "^.*there is no network in it",
    ['tide.cidr(("::1,"):rep(1025))'] = "^.*there are more than 1024 networks",
    ['#tostring(tide.cidr(("::1,"):rep(1024)))'] = "9",
    ['tide.cidr("::1").has({}, "::1")'] = "^.*call it as networks:has%(address%)",
    ['getmetatable(tide.cidr "::1")'] = "false",
  }

  it("refuses the rules when the list at the top of a file is wrong", function()
    local rules = support.make_dir { ["auth/a.lua"] =
      'local inside = tide.cidr "10.0.0.0/33"\nreturn { authenticate = function() return inside end }' }
    local _, message = support.luatide.open { rules = rules }
    support.remove_dir(rules)
    assert.equal("auth/a.lua:1: the prefix of '10.0.0.0/33' must be a number from 0 to 32", message)
  end)
end)

describe("tide.time", function()
  local noon = "1774785600123" -- 2026-03-29T12:00:00.123Z, a Sunday, the day of the change

  they_are {
    ['tide.time.format(0)'] = "1970-01-01T00:00:00.000Z",
    ['tide.time.format(' .. noon .. ', "Europe/Berlin")'] = "2026-03-29T14:00:00.123+02:00",
    ['tide.time.format(' .. noon .. ', "America/St_Johns")'] = "2026-03-29T09:30:00.123-02:30",
    ['tide.time.format(-1)'] = "1969-12-31T23:59:59.999Z",
    ['tide.time.format(1.75)'] = "1970-01-01T00:00:00.001Z",
    ['tide.time.format(253402300799999)'] = "9999-12-31T23:59:59.999Z",
    ['tide.time.format(253402300800000)'] = "^filter/a.lua:2: a time must be in the years 1 to 9999",
    ['tide.time.format(253402300799999, "Asia/Tokyo")'] = "^filter/a.lua:2: a time must be in the years 1 to 9999",
    ['tide.time.format(-62135596800000)'] = "0001-01-01T00:00:00.000Z",
    ['tide.time.format(0/0)'] = "^.*expected milliseconds since 1970",
    ['tide.time.format(math.mininteger)'] = "^.*expected milliseconds since 1970",
    ['tide.time.parse "2026-03-29T12:00:00.123456Z"'] = noon,
    ['tide.time.parse "2026-03-29t14:00:00.123+02:00"'] = noon,
    ['tide.time.parse("2026-03-29 14:00:00.123", "Europe/Berlin")'] = noon,
    ['tide.time.parse("2026-03-29T12:00:00.123Z", "Europe/Berlin")'] = noon,
    ['tide.time.parse "2026-03-29"'] = "1774742400000",
    ['tide.time.parse "2016-12-31T23:59:60Z"'] = "1483228800000",
    ['tide.time.parse "2026-02-29"'] = "nil | '2026-02-29' is not a time; write 2026-11-23T12:30:00Z",
    ['tide.time.fields(' .. noon .. ').weekday'] = "7",
    ['tide.time.fields(' .. noon .. ').yearday'] = "88",
    ['tide.time.fields(' .. noon .. ', "Europe/Berlin").hour'] = "14",
    ['tide.time.fields(' .. noon .. ', "Europe/Berlin").dst'] = "true",
    ['tide.time.fields(' .. noon .. ', "Europe/Berlin").offset_ms'] = "7200000",
    ['tide.time.fields(0, "Europe/Berln")'] = "^filter/a.lua:2: there is no time zone 'Europe/Berln'",
    ['tide.time.fields(0, "../../etc/passwd")'] = "^filter/a.lua:2: '../../etc/passwd' is not the name",
    ['tide.time.fields()'] = "^.*bad argument #1 to 'fields'",
    ['tide.time.of { year = 2026, month = 3, day = 29, hour = 12, ms = 123 }'] = noon,
    ['tide.time.of({ year = 2026, month = 3, day = 29, hour = 14, ms = 123 }, "Europe/Berlin")'] = noon,
    ['tide.time.format(tide.time.of({ year = 2026, month = 3, day = 29, hour = 2, min = 30 }, "Europe/Berlin"))'] =
      "2026-03-29T01:00:00.000Z",
    ['tide.time.format(tide.time.of { year = 2026, month = 14, day = 0, hour = -1 })'] = "2027-01-30T23:00:00.000Z",
    ['tide.time.of { year = 2026, month = 1 }'] = "^filter/a.lua:2: 'day' is missing",
    ['tide.time.of { year = 2026, month = 1, day = 1.5 }'] = "^filter/a.lua:2: 'day' must be an integer",
    ['tide.time.of { year = 2026, month = 1, day = 1, minute = 5 }'] = "^filter/a.lua:2: a time has no 'minute'",
    ['tide.time.of { year = 99999, month = 1, day = 1 }'] = "^filter/a.lua:2: a time must be in the years",
  }

  it("parses nothing that is no time", function()
    for _, text in ipairs { "", "2026", "2026-13-01", "2026-00-01", "2026-1-1", "2026-01-01T", "2026-01-01T12",
      "2026-01-01T12:00", "2026-01-01T24:00:00Z", "2026-01-01T12:60:00Z", "2026-01-01T12:00:61Z",
      "2026-01-01T12:00:00.Z", "2026-01-01T12:00:00+1:00", "2026-01-01T12:00:00+24:00", "2026-01-01T12:00:00Z ",
      "0000-01-01", "2026-01-01\0", "+026-01-01" } do
      assert.matches("^nil | '.*' is not a time; write", value(("tide.time.parse %q"):format(text)))
    end
  end)

  it("gives fields that make the same time", function()
    local engine = open [[
      local zone = "Australia/Lord_Howe"
      for ms = 0, 4e12, 12345678901 do
        ms = math.tointeger(ms)
        if tide.time.of(tide.time.fields(ms, zone), zone) ~= ms then return ms end
        if tide.time.parse(tide.time.format(ms, zone)) ~= ms then return ms end
      end
      return "all"]]
    assert.equal("all", ask(engine))
  end)
end)

describe("a schedule in a time zone", function()
  local function try_open(declaration)
    local rules = support.make_dir { ["schedule/s.lua"] = "return { " .. declaration .. " run = function() end }" }
    local engine, message = support.luatide.open { rules = rules }
    support.remove_dir(rules)
    return engine, message
  end

  it("runs when the clocks there show its time", function()
    local engine = assert(try_open 'cron = "30 2 * * *", zone = "Europe/Berlin",')
    local hour = 3600000
    local change = 1774746000000 -- 2026-03-29T01:00Z: 02:00 there becomes 03:00
    assert.equal(change - 23.5 * hour, engine:next_run("s", change - 30 * hour))
    assert.equal(change, engine:next_run("s", change - hour))
    assert.equal(change + 23.5 * hour, engine:next_run("s", change))
    engine:close()
  end)

  it("is refused with what is wrong", function()
    for declaration, text in pairs {
      ['cron = "0 0 * * *", zone = "Mars/Base",'] = "there is no time zone 'Mars/Base'",
      ['every = "5m", zone = "Europe/Berlin",'] = "'zone' is for 'cron': an interval has no time of day",
      ['cron = "0 0 * * *", zone = 1,'] = "'zone' must be a text, not a number",
    } do
      local engine, message = try_open(declaration)
      assert.is_nil(engine)
      assert.matches(text, message, 1, true)
    end
  end)
end)
