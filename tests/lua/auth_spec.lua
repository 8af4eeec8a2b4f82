-- Scripts of auth/ in the real engine, and the functions of tide that they need.

local support = require "lua.support.engine"

describe("a script of auth/", function()
  local engine

  after_each(function()
    if engine then engine:close() end
    engine = nil
  end)

  local function try_open(files, options)
    local dir = support.make_dir(files)
    options = options or {}
    options.rules = dir
    local e, message = support.luatide.open(options)
    support.remove_dir(dir)
    return e, message
  end

  local function open(files, options)
    engine = assert(try_open(files, options))
  end

  local function refused(files, options)
    local e, message = try_open(files, options)
    assert.is_nil(e)
    return message
  end

  -- An engine with one script whose authenticate has this body.
  local function authenticate(body, options)
    open({ ["auth/a.lua"] = "return { authenticate = function(login)\n" .. body .. "\nend }" }, options)
  end

  local function authorize(body)
    open { ["auth/a.lua"] = "return { authorize = function(user, action, object)\n" .. body .. "\nend }" }
  end

  describe("with authenticate", function()
    it("sees who logs in, and how", function()
      authenticate [[
        return false, ("%s %s %s %s %s %s %s %s %s"):format(login.user, #login.password, login.vhost,
          login.name, login.address, login.certificate, login.protocol, login.is_tls, login.is_local)]]
      assert.same({ "refuse", "bob 10 /shop app 10.1.2.3 cn stomp true false", "auth/a.lua" },
        { engine:authenticate { user = "bob", password = "top-secret", vhost = "/shop", name = "app",
          address = "10.1.2.3", certificate = "cn", protocol = "stomp", is_tls = true } })
    end)

    it("sees nil for what is not given", function()
      authenticate [[return false, tostring(login.user) .. tostring(login.password) .. tostring(login.certificate)]]
      assert.equal("nilnilnil", select(2, engine:authenticate {}))
    end)

    it("has no opinion with nil, and the next one is asked, in the order of the files", function()
      open {
        ["auth/10-first.lua"] = [[return { authenticate = function(l)
          if l.user == "first" then return true end end }]],
        ["auth/9-last.lua"] = [[return { authenticate = function() return false, "last" end }]],
      }
      assert.same({ "allow", nil, "auth/10-first.lua" }, { engine:authenticate { user = "first" } })
      assert.same({ "refuse", "last", "auth/9-last.lua" }, { engine:authenticate { user = "bob" } })
    end)

    it("says nothing at all", function()
      authenticate "return nil"
      assert.same({ "none", nil, nil }, { engine:authenticate { user = "bob" } })
    end)

    it("makes a user", function()
      authenticate [[return { name = "jane", tags = { "monitor" }, configure = "^tmp", write = ".*",
        limits = { max_connections = 3, publish_rate = 10 } }]]
      local verdict, user = engine:authenticate { user = "token" }
      assert.equal("allow", verdict)
      assert.same({ name = "jane", tags = { "monitor" }, configure = "^tmp", write = ".*",
        limits = { max_connections = 3, publish_rate = 10 } }, user)
    end)

    it("makes a user of the name that logs in", function()
      authenticate "return {}"
      assert.same({ name = "bob", tags = {}, limits = {} }, (select(2, engine:authenticate { user = "bob" })))
    end)

    local wrong = {
      ["return 1"] = "^auth/a.lua:1: authenticate must return nil, true, false and a reason, "
        .. "or a table that is the user, not a number",
      ["return 'bob'"] = "authenticate must return",
      ["return nil, 'why'"] = "^auth/a.lua:1: authenticate returned a second value, a string: to refuse",
      ["return true, 'why'"] = "returned a second value",
      ["return false, {}"] = "returned a second value, a table",
      ["return { user = 'bob' }"] =
        "the user that authenticate returned has no 'user'; it has name, tags, configure, write, read, limits",
      ["return { name = '' }"] = "^auth/a.lua:1: authenticate returned a wrong 'name'",
      ["return { name = 'a b' }"] = "wrong 'name'",
      ["return { name = {} }"] = "wrong 'name'",
      ["return { tags = 'admin' }"] = "wrong 'tags': a list of \"admin\" and \"monitor\"",
      ["return { tags = { 'root' } }"] = "wrong 'tags'",
      ["return { tags = { 1 } }"] = "wrong 'tags'",
      ["return { read = 1 }"] = "wrong 'read': a pattern is a text of at most 1024 bytes",
      ["return { read = ('x'):rep(1025) }"] = "wrong 'read'",
      ["return { write = '(' }"] = "^auth/a.lua:1: authenticate returned a wrong 'write': ",
      ["return { write = '((a{1,250}){1,250}){250}' }"] =
        "^auth/a.lua:1: authenticate returned a wrong 'write': the pattern .* repeats too much with {}",
      ["return { read = [[(a*)\\1]] }"] = "wrong 'read': the pattern .* has a back%-reference",
      ["return { limits = 1 }"] = "wrong 'limits': a table, not a number",
      ["return { limits = { max_channels = -1 } }"] = "wrong 'limits.max_channels'",
      ["return { limits = { queues = 1 } }"] = "limits has no 'queues'; it has max_connections, max_channels",
      ["return login.pass"] = "there is no 'login.pass'; it has user password vhost",
      ["login.user = 'root'"] = "'login' is read%-only",
      ["error 'no'"] = "^auth/a.lua:2: no",
      ["while true do end"] = "ran longer than its budget",
    }
    for body, text in pairs(wrong) do
      it("refuses when it fails: " .. body, function()
        authenticate(body, { budget_ms = 20 })
        local verdict, message, code = engine:authenticate { user = "bob" }
        assert.is_nil(verdict)
        assert.equal("rule", code)
        assert.matches(text, message)
      end)
    end

    it("does not have its login after the call", function()
      authenticate [[
        if kept then return false, kept.user end
        kept = login]]
      engine:authenticate { user = "bob" }
      assert.matches("'login' has expired", select(2, engine:authenticate { user = "bob" }))
    end)

    describe("never shows the password", function()
      local PASSWORD <const> = "correct horse battery staple"

      local function message_of(body)
        authenticate(body)
        return select(2, engine:authenticate { user = "bob", password = PASSWORD })
      end

      for _, body in ipairs { "error('wrong: ' .. login.password)", "error(login.password, 0)",
        "return login[login.password]", "error(('wrong: %.14s'):format(login.password))",
        "local t <const> = { [login.password] = 1 } return t[login.password].x.y",
        "error(setmetatable({}, { __tostring = function() return login.password end }))" } do
        it("in an error: " .. body, function()
          local message = message_of(body)
          assert.is_nil(message:find("correct", 1, true))
          assert.matches("^auth/a.lua:2", message)
          assert.is_nil(engine:status():find("correct", 1, true))
        end)
      end

      it("in a reason", function()
        local reason = message_of "return false, 'wrong: ' .. login.password"
        assert.equal("a script refused it, for a reason with a password or a secret", reason)
      end)

      it("of one byte", function()
        authenticate "error('wrong: ' .. login.password)"
        assert.equal("auth/a.lua:2: an error whose text has a password or a secret in it",
          (select(2, engine:authenticate { user = "bob", password = "w" })))
      end)
    end)

    it("stops to be called for an address, and goes on for others", function()
      authenticate([[
        if login.user == "bad" then while true do end end
        return true]], { budget_ms = 20 })
      for _ = 1, 10 do engine:authenticate { user = "bad", address = "10.0.0.1" } end
      local verdict, message = engine:authenticate { user = "bob", address = "10.0.0.1" }
      assert.is_nil(verdict)
      assert.matches("not called again", message)
      assert.equal("allow", (engine:authenticate { user = "bob", address = "10.0.0.2" }))
      assert.matches('"user":"logins from \'10.0.0.1\'"', engine:status())
    end)
  end)

  describe("with authorize", function()
    it("sees who wants what", function()
      authorize [[
        return false, ("%s %s %s %s %s / %s / %s %s %s"):format(user.name, user.vhost, user.address,
          user.is_admin, user.is_monitor, action, object.kind, object.name, object.vhost)
      ]]
      assert.same({ "refuse", "bob v 10.0.0.1 true true / write / topic t v", "auth/a.lua" },
        { engine:authorize({ name = "bob", vhost = "v", address = "10.0.0.1", is_admin = true }, "write",
          { kind = "topic", name = "t" }) })
    end)

    it("allows, refuses or has no opinion", function()
      authorize [[
        if object.name == "yes" then return true end
        if object.name == "no" then return false, "because" end]]
      local function ask(name)
        return { engine:authorize({ name = "bob" }, "read", { kind = "queue", name = name }) }
      end
      assert.same({ "allow", nil, "auth/a.lua" }, ask "yes")
      assert.same({ "refuse", "because", "auth/a.lua" }, ask "no")
      assert.same({ "none", nil, nil }, ask "other")
    end)

    it("makes no user", function()
      authorize "return {}"
      assert.matches("^auth/a.lua:1: authorize must return nil, true, or false and a reason, not a table",
        (select(2, engine:authorize({ name = "bob" }, "read", { name = "q" }))))
    end)

    it("has an empty reason", function()
      authorize "return false"
      assert.equal("a script refused it", (select(2, engine:authorize({ name = "bob" }, "read", { name = "q" }))))
    end)

    it("reads the clock, and nothing of a dry run remains", function()
      authorize [[
        tide.counter("asked"):incr()
        return tide.now() > 1000]]
      engine:set_now(2000)
      local function ask() return (engine:authorize({ name = "bob" }, "read", { name = "q" })) end
      assert.equal("allow", engine:dry_run(ask))
      assert.is_nil(engine:status():find('"asked"', 1, true))
      engine:set_now(1000)
      assert.equal("refuse", ask())
      assert.matches('"asked":1', engine:status())
    end)
  end)

  it("is counted in the status", function()
    authorize "return object.name ~= 'no'"
    engine:authorize({ name = "bob" }, "read", { name = "no" })
    engine:authorize({ name = "bob" }, "read", { name = "yes" })
    local status = engine:status()
    assert.matches('"kind":"auth","name":"a","file":"auth/a.lua"', status)
    assert.matches('"authenticate":false,"authorize":true,"rejected":1,"calls":2', status)
    assert.matches('"auth":{"authenticate":false,"authorize":true}', status)
  end)

  it("needs one of its functions", function()
    local function why(text) return refused { ["auth/a.lua"] = text } end
    assert.matches("^auth/a.lua:1: an auth script needs a function 'authenticate' or 'authorize', or both",
      why "return {}")
    assert.matches("an auth script has no 'login'; it has authorize, new, authenticate, doc, options, active",
      why "return { login = 1 }")
    assert.matches("needs a function 'authorize'; here it is number", why "return { authorize = 1 }")
    assert.matches("options must be a table, not a number", why "return { options = 5, authorize = print }")
    assert.matches("'active' must be true or false, not a number", why "return { active = 1, authorize = print }")
    assert.matches("an auth script has no 'match'", why "return { match = {}, authorize = print }")
  end)

  describe("asks tide.secret", function()
    local ASK <const> = [[
      local key <const> = tide.secret "jwt"
      return { authenticate = function() return { name = tide.base64.encode(key) } end }]]

    local dirs = {}
    after_each(function()
      for _, dir in ipairs(dirs) do support.remove_dir(dir) end
      dirs = {}
    end)

    local function secret_dir(files)
      dirs[#dirs + 1] = support.make_dir(files)
      return dirs[#dirs]
    end

    local function given(options)
      open({ ["auth/a.lua"] = ASK }, options)
      return engine:dry_run(function() return select(2, engine:authenticate {}).name end)
    end

    it("which is a file without its last line end", function()
      assert.equal("YQpi", given { secrets = secret_dir { jwt = "a\nb\n" } })
      engine:close()
      assert.equal("YQpi", given { secrets = secret_dir { jwt = "a\nb\r\n" } })
    end)

    it("which a spec gives", function()
      assert.equal("YQpi", given { secrets = { jwt = "a\nb" } })
    end)

    it("which is made up in a spec that gives none", function()
      assert.equal("c3RhbmQtaW4gZm9yIGp3dA==", given())
    end)

    it("which is not there", function()
      local dir = secret_dir { other = "x" }
      assert.matches("^auth/a.lua:1: there is no secret 'jwt': " .. dir .. "/jwt: No such file",
        refused({ ["auth/a.lua"] = ASK }, { secrets = dir }))
      assert.matches("^auth/a.lua:1: there is no secret 'jwt': tide.secret needs serve %-%-secrets DIR",
        refused({ ["auth/a.lua"] = ASK }, { secrets = {} }))
    end)

    it("which is empty, too large, or no file", function()
      local dir = secret_dir { jwt = "\n" }
      assert.matches("jwt is empty", refused({ ["auth/a.lua"] = ASK }, { secrets = dir }))
      dir = secret_dir { jwt = ("x"):rep(65537) }
      assert.matches("jwt is larger than 64 KiB", refused({ ["auth/a.lua"] = ASK }, { secrets = dir }))
      dir = secret_dir { ["jwt/x"] = "" }
      assert.matches("jwt is not a regular file", refused({ ["auth/a.lua"] = ASK }, { secrets = dir }))
    end)

    it("by a name that is one", function()
      for _, name in ipairs { "../x", ".x", "a/b", "", "a b" } do
        local text = ("tide.secret %q"):format(name)
        assert.matches("the name of a secret has letters", refused { ["auth/a.lua"] = text })
      end
    end)

    it("while it is loaded, not later", function()
      authenticate 'return { name = tide.secret "jwt" }'
      assert.matches("^auth/a.lua:2: tide.secret is for the top of a file", (select(2, engine:authenticate {})))
    end)

    it("which no error shows", function()
      local options = { secrets = { jwt = "do-not-show-me" } }
      assert.equal("auth/a.lua:1: an error whose text has a password or a secret in it",
        refused({ ["auth/a.lua"] = 'error(tide.secret "jwt")' }, options))
      open({ ["auth/a.lua"] = [[
        local key <const> = tide.secret "jwt"
        return { authenticate = function() return false, key end,
          authorize = function() error(key) end }]] }, options)
      local _, reason = engine:authenticate {}
      assert.equal("a script refused it, for a reason with a password or a secret", reason)
      local _, message = engine:authorize({ name = "bob" }, "read", { name = "q" })
      assert.equal("auth/a.lua:3: an error whose text has a password or a secret in it", message)
    end)
  end)
end)

describe("the functions of tide for tokens", function()
  local dir, engine

  -- What the expression is, as a reason.
  local function value(expression)
    dir = support.make_dir { ["auth/a.lua"] = ([[
      local function hex(s) return (s:gsub(".", function(c) return ("%%02x"):format(c:byte()) end)) end
      return { authenticate = function(login) return false, tostring(%s) end, doc = hex and "" }]]):format(expression) }
    engine = support.open { rules = dir }
    support.remove_dir(dir)
    finally(function() engine:close() end)
    return select(2, engine:authenticate { user = "bob" })
  end

  local expressions = {
    -- FIPS 180-4 and RFC 4231, test case 2
    ['hex(tide.sha256 "abc")'] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    ['hex(tide.sha256 "")'] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ['hex(tide.hmac_sha256("Jefe", "what do ya want for nothing?"))'] =
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    ['tide.hmac_sha256("", "x")'] = "^auth/a.lua:2: bad argument #1 to 'hmac_sha256' %(the key is empty%)",
    ['tide.sha256(("x"):rep(1048576) .. "x")'] = "the text has more than 1 MiB",
    ['tide.equal("abc", "abc")'] = "true",
    ['tide.equal("abc", "abd")'] = "false",
    ['tide.equal("abc", "abcd")'] = "false",
    ['tide.equal("", "")'] = "true",
    -- RFC 4648, section 10
    ['tide.base64.encode "foobar" .. tide.base64.encode "fooba" .. tide.base64.encode "foob"'] =
      "Zm9vYmFyZm9vYmE=Zm9vYg==",
    ['tide.base64.encode("\\255\\254\\253\\255")'] = "//79/w==",
    ['tide.base64.encode("\\255\\254\\253\\255", "url")'] = "__79_w",
    ['tide.base64.encode ""'] = "a script refused it",
    ['tide.base64.decode "Zm9vYg=="'] = "foob",
    ['tide.base64.decode("Zm9vYg", "url")'] = "foob",
    ['tide.base64.decode("Zm9vYg==", "url")'] = "foob",
    ['hex(tide.base64.decode("__79_w", "url"))'] = "fffefdff",
    ['select(2, tide.base64.decode "Zm9vYg")'] = "this is not base64",
    ['tide.base64.decode "Zm9vYg="'] = "nil",
    ['tide.base64.decode "Zm9vYh=="'] = "nil", -- bits are left over
    ['tide.base64.decode "Zm9v\\n"'] = "nil",
    ['tide.base64.decode "Zm9v===="'] = "nil",
    ['tide.base64.decode "Z==="'] = "nil",
    ['tide.base64.decode "=="'] = "nil",
    ['tide.base64.decode("Z", "url")'] = "nil",
    ['tide.base64.decode "Zm-_"'] = "nil",
    ['tide.base64.decode("Zm+/", "url")'] = "nil",
    ['tide.base64.decode("Zm9v", "hex")'] = "invalid option 'hex'",
    ['tide.json.decode([[{"a":{"b":[1,2.5,"x",true]}}]]).a.b[2]'] = "2.5",
    ['math.type(tide.json.decode "1")'] = "integer",
    ['tide.json.decode([[{"a":null}]]).a'] = "nil",
    ['#tide.json.decode("[]")'] = "0",
    ['#tide.json.decode(("["):rep(32) .. ("]"):rep(32))'] = "1",
    ['select(2, tide.json.decode(("["):rep(100000)))'] = "this is not JSON: wrong at byte 100001",
  }
  for expression, result in pairs(expressions) do
    it(expression, function()
      local found = value(expression)
      local is_pattern = result:find "^%^" or result:find "invalid option" or result:find "more than"
      if is_pattern then
        assert.matches(result, found)
      else
        assert.equal(result, found)
      end
    end)
  end

  it("are not to be changed", function()
    assert.matches("read%-only", value [[(function() tide.base64.encode = print end)()]])
  end)
end)
