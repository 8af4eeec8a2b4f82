-- A reason of a refusal, for every kind of scripts that may refuse: no client sees a secret or a
-- password in it.

local support = require "lua.support.engine"

-- What asks, and where the reason is then.
local KINDS = {
  filter = { "publish", "a filter refused the message", function(engine)
    local _, reason = engine:filter { key = "k" }
    return reason:match "^(.*) %(filter/a.lua%)$"
  end },
  deliver = { "deliver", "a script refused it", function(engine) return engine:deliver({ key = "k" }, {}).reason end },
  declare = { "declare", "a policy refuses it", function(engine)
    local _, reason = engine:declare { name = "jobs" }
    return reason:match "^(.*) %(declare/a.lua%)$"
  end },
  connect = { "connect", "a script refused it", function(engine)
    return (select(2, engine:connect { user = "bob" }))
  end },
  auth = { "authenticate", "a script refused it", function(engine)
    return (select(2, engine:authenticate { user = "bob" }))
  end },
}

describe("the reason of a refusal", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  local function reason_of(kind, reason)
    local row = KINDS[kind]
    local dir = support.make_dir { [kind .. "/a.lua"] = ([[
      local key <const> = tide.secret "jwt"
      return { %s %s = function() return false%s end }]])
      :format(kind == "auth" and "" or "match = {},", row[1], reason) }
    engine = support.open { rules = dir, secrets = { jwt = "do-not-show-me" } }
    support.remove_dir(dir)
    return row[3](engine)
  end

  for kind, row in pairs(KINDS) do
    it("of " .. kind .. "/ shows no secret", function()
      local withheld = row[2] .. ", for a reason with a password or a secret"
      assert.equal(withheld, reason_of(kind, ", key"))
      engine:close()
      assert.equal(withheld, reason_of(kind, ", 'wrong: ' .. key .. '!'"))
      assert.is_nil(engine:status():find("do-not-show", 1, true))
    end)

    it("of " .. kind .. "/ is told, or has a text of its own", function()
      assert.equal("not today", reason_of(kind, ", 'not today'"))
      engine:close()
      assert.equal(kind ~= "deliver" and row[2] or nil, reason_of(kind, ", ' '"))
    end)
  end

  it("of a delay shows no secret either", function()
    local dir = support.make_dir { ["deliver/a.lua"] = [[
      local key <const> = tide.secret "jwt"
      return { match = {}, deliver = function() return "5s", key end }]] }
    engine = support.open { rules = dir, secrets = { jwt = "do-not-show-me" } }
    support.remove_dir(dir)
    local answer = engine:deliver({ key = "k" }, {})
    assert.same({ "delay", "a script refused it, for a reason with a password or a secret" },
      { answer.verdict, answer.reason })
  end)
end)
