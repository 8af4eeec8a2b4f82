local tidemq = require "tidemq"

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
    engine = assert(tidemq.open { secrets = { jwt = KEY } })
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
    assert.equal("auth/jwt.lua", file)
    assert.equal("allow", (login(BOB, "bob")))
  end)

  it("is for nobody else", function()
    assert.same({ "deny", "the token is for another user", "auth/jwt.lua" }, { login(BOB, "alice") })
  end)

  it("ends", function()
    engine:set_now((NOW_S + 3600 + 29) * 1000)
    assert.equal("allow", (login(BOB)))
    engine:set_now((NOW_S + 3600 + 30) * 1000)
    assert.same({ "deny", "the token has expired", "auth/jwt.lua" }, { login(BOB) })
  end)

  it("is not believed when a byte of it is another", function()
    local head, body, signature = BOB:match "^(.-)%.(.-)%.(.-)$"
    local other = signature:sub(1, 1) == "A" and "B" or "A"
    for _, token in ipairs { head .. "." .. body .. "." .. other .. signature:sub(2), head .. "." .. body .. ".",
      head .. "." .. body:sub(1, -2) .. "R." .. signature } do
      local verdict, why = login(token)
      assert.same({ "deny", "the signature of the token is wrong" }, { verdict, why })
    end
  end)

  it("of another algorithm is refused", function()
    local _, body, signature = BOB:match "^(.-)%.(.-)%.(.-)$"
    -- {"alg":"none"}, {"alg":"hs256"}, {"alg":"HS512"}
    for _, head in ipairs { "eyJhbGciOiJub25lIn0", "eyJhbGciOiJoczI1NiJ9", "eyJhbGciOiJIUzUxMiJ9" } do
      for _, end_ in ipairs { "", signature } do
        local verdict, why = login(head .. "." .. body .. "." .. end_)
        assert.same({ "deny", "the token is not signed with HS256" }, { verdict, why })
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
