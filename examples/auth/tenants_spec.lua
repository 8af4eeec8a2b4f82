local tidemq = require "tidemq"

describe("a tenant", function()
  local engine

  before_each(function() engine = assert(tidemq.open()) end)
  after_each(function() engine:close() end)

  it("enters its own vhost, if the table of users lets it in", function()
    assert.equal("none", (engine:authenticate { user = "acme/bob", vhost = "acme" }))
  end)

  it("enters no other", function()
    for _, vhost in ipairs { "/", "acme2", "acm", "other" } do
      assert.same({ "deny", "users of 'acme' enter the vhost 'acme' alone", "auth/tenants.lua" },
        { engine:authenticate { user = "acme/bob", vhost = vhost } })
    end
  end)

  it("reaches nothing elsewhere", function()
    local function ask(vhost)
      return engine:authorize({ name = "acme/bob", vhost = vhost }, "read", { kind = "queue", name = "jobs" })
    end
    assert.equal("none", (ask "acme"))
    assert.equal("deny", (ask "other"))
  end)

  it("is not who has no tenant in his name", function()
    for _, user in ipairs { "root", "/bob", "acme/" } do
      assert.equal("none", (engine:authenticate { user = user, vhost = "/" }))
    end
    assert.equal("none", (engine:authenticate { vhost = "/" }))
  end)
end)
