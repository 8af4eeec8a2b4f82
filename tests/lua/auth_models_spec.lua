-- The models of rules/auth/, used as an administrator would.

local support = require "lua.support.engine"

local function open(name, given, secrets)
  local file = assert(io.open("rules/auth/" .. name .. ".lua"))
  local dir = support.make_dir {
    ["auth/" .. name .. ".lua"] = file:read("a"),
    ["auth/10-" .. name .. ".lua"] = ('return tide.use("%s", { options = { %s } })'):format(name, given or ""),
  }
  file:close()
  local engine, message = support.luatide.open { rules = dir, secrets = secrets }
  support.remove_dir(dir)
  return engine, message
end

local KEY <const> = "0123456789abcdef0123456789abcdef"
local NOW_S <const> = 1790000000

-- Signed by `openssl dgst -sha256 -hmac` with the key above.
local HEADER <const> = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" -- {"alg":"HS256","typ":"JWT"}
-- {"sub":"bob","aud":"tidemq","exp":1790003600,"scope":"write read"}
local BOB <const> = HEADER .. "."
  .. "eyJzdWIiOiJib2IiLCJhdWQiOiJ0aWRlbXEiLCJleHAiOjE3OTAwMDM2MDAsInNjb3BlIjoid3JpdGUgcmVhZCJ9."
  .. "6nzB037eG1gaaOpDiyY9Oj_k4xXLaiqdoP0h2gTvPKc"

describe("a JSON Web Token", function()
  local engine

  before_each(function()
    engine = open("jwt", "", { jwt = KEY })
    engine:set_now(NOW_S * 1000)
  end)
  after_each(function() engine:close() end)

  local function login(password, user)
    return engine:authenticate { user = user, password = password }
  end

  it("says who logs in, and what he may do", function()
    local verdict, user, file = login(BOB)
    assert.equal("allow", verdict)
    assert.same({ name = "bob", tags = {}, write = ".*", read = ".*", limits = {} }, user)
    assert.equal("auth/10-jwt.lua", file)
    assert.equal("allow", (login(BOB, "bob")))
  end)

  it("is for nobody else", function()
    assert.same({ "refuse", "the token is for another user", "auth/10-jwt.lua" }, { login(BOB, "alice") })
  end)

  it("ends", function()
    engine:set_now((NOW_S + 3600 + 29) * 1000)
    assert.equal("allow", (login(BOB)))
    engine:set_now((NOW_S + 3600 + 30) * 1000)
    assert.same({ "refuse", "the token has expired", "auth/10-jwt.lua" }, { login(BOB) })
  end)

  it("is not believed when a byte of it is another", function()
    local head, body, signature = BOB:match "^(.-)%.(.-)%.(.-)$"
    local other = signature:sub(1, 1) == "A" and "B" or "A"
    for _, token in ipairs { head .. "." .. body .. "." .. other .. signature:sub(2), head .. "." .. body .. ".",
      head .. "." .. body:sub(1, -2) .. "R." .. signature } do
      local verdict, why = login(token)
      assert.same({ "refuse", "the signature of the token is wrong" }, { verdict, why })
    end
  end)

  it("of another algorithm is refused", function()
    local _, body, signature = BOB:match "^(.-)%.(.-)%.(.-)$"
    -- {"alg":"none"}, {"alg":"hs256"}, {"alg":"HS512"}
    for _, head in ipairs { "eyJhbGciOiJub25lIn0", "eyJhbGciOiJoczI1NiJ9", "eyJhbGciOiJIUzUxMiJ9" } do
      for _, end_ in ipairs { "", signature } do
        local verdict, why = login(head .. "." .. body .. "." .. end_)
        assert.same({ "refuse", "the token is not signed with HS256" }, { verdict, why })
      end
    end
  end)

  it("is no other password", function()
    for _, password in ipairs { "secret", "a.b.c", "", "eyJ" } do
      assert.equal("none", (login(password, "bob")))
    end
    assert.equal("none", (engine:authenticate { user = "bob" }))
  end)
end)

local HOUR_MS <const>, DAY_MS <const> = 3600000, 86400000
local MONDAY_MS <const> = 20717 * DAY_MS -- 2026-09-21, 0:00 UTC

describe("business hours", function()
  local engine

  before_each(function() engine = open("hours", [[zone = "Etc/GMT-1"]]) end)
  after_each(function() engine:close() end)

  local function ask(ms, action, user)
    engine:set_now(ms)
    return engine:authorize(user or { name = "bob" }, action or "write", { kind = "queue", name = "jobs" })
  end

  it("begin at eight and end at six, an hour ahead of UTC", function()
    for hour = 0, 23 do
      local is_open = hour + 1 >= 8 and hour + 1 < 18
      assert.equal(is_open and "none" or "refuse", (ask(MONDAY_MS + hour * HOUR_MS)), hour)
    end
    assert.equal("refuse", (ask(MONDAY_MS + 17 * HOUR_MS)))
    assert.equal("none", (ask(MONDAY_MS + 17 * HOUR_MS - 1)))
  end)

  it("are on working days", function()
    local days = {}
    for day = 0, 6 do
      days[#days + 1] = ask(MONDAY_MS + day * DAY_MS + 12 * HOUR_MS)
    end
    assert.same({ "none", "none", "none", "none", "none", "refuse", "refuse" }, days)
  end)

  it("are not for readers and admins", function()
    assert.equal("none", (ask(MONDAY_MS, "read")))
    assert.equal("none", (ask(MONDAY_MS, "write", { name = "root", is_admin = true })))
    assert.equal("refuse", (ask(MONDAY_MS, "configure")))
  end)

  it("say when they begin", function()
    assert.equal("queue 'jobs' is closed; it opens at 8:00", (select(2, ask(MONDAY_MS))))
  end)
end)

describe("a tenant", function()
  local engine

  before_each(function() engine = open("tenants") end)
  after_each(function() engine:close() end)

  it("enters its own vhost, if the table of users lets it in", function()
    assert.equal("none", (engine:authenticate { user = "acme/bob", vhost = "acme" }))
  end)

  it("enters no other", function()
    for _, vhost in ipairs { "/", "acme2", "acm", "other" } do
      assert.same({ "refuse", "users of 'acme' enter the vhost 'acme' alone", "auth/10-tenants.lua" },
        { engine:authenticate { user = "acme/bob", vhost = vhost } })
    end
  end)

  it("reaches nothing elsewhere", function()
    local function ask(vhost)
      return engine:authorize({ name = "acme/bob", vhost = vhost }, "read", { kind = "queue", name = "jobs" })
    end
    assert.equal("none", (ask "acme"))
    assert.equal("refuse", (ask "other"))
  end)

  it("is not who has no tenant in his name", function()
    for _, user in ipairs { "root", "/bob", "acme/" } do
      assert.equal("none", (engine:authenticate { user = user, vhost = "/" }))
    end
    assert.equal("none", (engine:authenticate { vhost = "/" }))
  end)
end)

describe("a model of rules/auth", function()
  it("decides nothing by itself, and needs no secret", function()
    local engine = support.open()
    assert.equal("none", (engine:authenticate { user = "acme/bob", password = "x", vhost = "other" }))
    assert.matches('"auth":{"authenticate":false,"authorize":false}', engine:status())
    engine:close()
  end)

  it("refuses options that cannot be", function()
    local engine, message = open("hours", [[zone = "Mars/Olympus"]])
    assert.is_nil(engine)
    assert.matches("^auth/hours.lua:%d+: .*Mars/Olympus.*%(for auth/10%-hours.lua%)$", message)
    engine, message = open("jwt", [[secret = "short"]], { short = "123" })
    assert.is_nil(engine)
    assert.matches("the secret 'short' is too short to sign with", message)
  end)

  it("takes tokens for another audience, of one issuer, if it is told so", function()
    local engine = open("jwt", [[audience = "billing"]], { jwt = KEY })
    engine:set_now(NOW_S * 1000)
    assert.same({ "refuse", "the token is for another audience", "auth/10-jwt.lua" },
      { engine:authenticate { password = BOB } })
    engine:close()
    engine = open("jwt", [[audience = "", issuer = "https://login.example.com"]], { jwt = KEY })
    engine:set_now(NOW_S * 1000)
    assert.same({ "refuse", "the token is of another issuer", "auth/10-jwt.lua" },
      { engine:authenticate { password = BOB } })
    engine:close()
  end)
end)
