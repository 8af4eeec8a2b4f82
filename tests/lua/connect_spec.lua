-- Scripts of connect/ in the real engine, and the models limits and shed.

local support = require "lua.support.engine"

describe("a rules directory with models", function()
  local engine, dir

  after_each(function()
    if engine then engine:close() end
    if dir then support.remove_dir(dir) end
    engine, dir = nil, nil
  end)

  local function open(files)
    for _, name in ipairs { "connect/limits.lua", "filter/shed.lua" } do
      local file = assert(io.open("rules/" .. name))
      files[name] = file:read "a"
      file:close()
    end
    dir = support.make_dir(files)
    engine = support.open { rules = dir }
  end

  it("lets everybody in as they are without a script that matches", function()
    open { ["connect/10-x.lua"] = [[
      return { match = { vhost = "shop" }, connect = function() return false, "no" end }]] }
    assert.same({}, engine:connect { user = "bob" })
    local result, reason, file = engine:connect { user = "bob", vhost = "shop" }
    assert.same({ nil, "no", "connect/10-x.lua" }, { result, reason, file })
    assert.equal(1, tonumber(engine:status():match '"file":"connect/10%-x.lua".-"rejected":(%d+)'))
  end)

  it("shows a script who comes", function()
    open { ["connect/10-x.lua"] = [[return { match = {}, connect = function(c)
      return false, table.concat({ c.user, c.name, c.vhost, c.address, c.certificate, c.protocol,
        tostring(c.is_tls), tostring(c.is_local) }, " ")
    end }]] }
    local _, reason = engine:connect { user = "bob", name = "n", vhost = "v", address = "10.0.0.1", certificate = "c",
      protocol = "stomp", is_tls = true }
    assert.equal("bob n v 10.0.0.1 c stomp true false", reason)
  end)

  it("asks one script after the other; each sees what those before it chose", function()
    open {
      ["connect/10-x.lua"] = [[return { match = {}, connect = function(c)
        return { vhost = "v2", limits = { publish_rate = 5, max_channels = 1 } } end }]],
      ["connect/20-x.lua"] = [[return { match = { except = { user = "eve" } }, connect = function(c)
        return { name = "in-" .. c.vhost, limits = { publish_rate = 7 } } end }]],
      ["connect/30-x.lua"] = [[return { match = { user = "eve" }, connect = function(c) return false end }]],
    }
    assert.same({ vhost = "v2", name = "in-v2", file = "connect/20-x.lua",
      limits = { publish_rate = 7, max_channels = 1 } }, engine:connect { user = "bob" })
    local _, reason, file = engine:connect { user = "eve" }
    assert.same({ "a script refused it", "connect/30-x.lua" }, { reason, file })
  end)

  it("limits connections by the model", function()
    open {
      ["connect/10-all.lua"] = [[return tide.use("limits", { match = {},
        options = { publish_rate = 50, tenant = "@(.+)$", tls = true } })]],
    }
    assert.same({ vhost = "acme", limits = { publish_rate = 50 }, file = "connect/10-all.lua" },
      engine:connect { user = "x@acme", is_local = true })
    assert.same({ limits = { publish_rate = 50 }, file = "connect/10-all.lua" }, engine:connect { is_tls = true })
    local _, reason = engine:connect { user = "x@acme", address = "10.0.0.1" }
    assert.equal("this broker wants TLS", reason)
  end)

  it("sheds load by the model", function()
    open {
      ["filter/10-refuse.lua"] = [[return tide.use("shed", { match = { exchange = "-" },
        options = { ready = 10, oldest = "1m" } })]],
      ["filter/20-reroute.lua"] = [[return tide.use("shed", { match = { exchange = "orders" },
        options = { queue = "jobs", ready = 10, keep = 9, to = "later" } })]],
    }
    local function refused(priority, facts)
      engine:set_queue("jobs", facts)
      return (select(2, engine:filter { key = "jobs", priority = priority }))
    end
    local BEHIND <const> = "queue 'jobs' is behind; try again later (filter/10-refuse.lua)"
    assert.is_nil(refused(0, { ready = 10 }))
    assert.equal(BEHIND, refused(0, { ready = 11 }))
    assert.equal(BEHIND, refused(4, { ready = 1, oldest_ms = 60001 }))
    assert.is_nil(refused(5, { ready = 11 }))
    engine:set_queue("jobs", { ready = 11 })
    assert.equal("later", engine:filter({ exchange = "orders", key = "x", priority = 8 }).exchange)
    assert.equal("orders", engine:filter({ exchange = "orders", key = "x", priority = 9 }).exchange)
    engine:set_queue "jobs"
    assert.equal("orders", engine:filter({ exchange = "orders", key = "x" }).exchange)
  end)
end)
