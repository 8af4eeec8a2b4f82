-- Scripts of rules/connect/: asked about each login, when it is known who it is.

local Broker = require 'support.broker'
local Http = require 'support.http'
local Stomp = require 'support.stomp'
local json = require 'dkjson'

describe('rules/connect', function()
  local broker

  local function start(rules, args) broker = Broker.start { rules = rules, args = args or { '--fsync', 'no' } } end

  after_each(function()
    if broker then broker:expect_clean_stop() end
    broker = nil
  end)

  --- The document of HELLO, and the connection; or nil, what it was answered, and the connection.
  local function hello(words)
    local c = broker:connect()
    c:send('HELLO ' .. words .. '\r\n')
    local reply = c:expect '^.*$'
    if not reply:find '^DATA' then return nil, reply, c end
    return json.decode((c:expect_payload(reply:match '^DATA (%d+)$'))), nil, c
  end

  it('refuse with a reason, which the log has', function()
    start { ['connect/10-no.lua'] = [[
      return { match = { user = { "bob", "eve" } }, connect = function(client)
        return false, "no " .. client.user .. " by " .. client.protocol .. " in " .. client.vhost
      end }]] }
    broker:connect():enter_vhost 'shop'
    local _, reply, c = hello 'user=bob vhost=shop'
    assert.equal('ERR denied no bob by line in shop', reply)
    broker:expect_log "login as 'bob' from 127.0.0.1:%d+ refused: no bob by line in shop %(connect/"
    -- It is where it was.
    assert.equal(0, #c:document 'LIST queues')
    assert.is_truthy(hello 'user=alice vhost=shop')
    local scripts = c:document('RULES status').scripts
    for _, script in ipairs(scripts) do
      if script.script == 'connect/10-no.lua' then assert.equal(1, script.rejected) end
    end
  end)

  it('are not asked about a vhost that cannot be, however long it is', function()
    start({ ['connect/10-slow.lua'] = [[
      local asked = tide.counter "asked"
      return { match = {}, connect = function(client)
        asked:incr()
        while client.user == "slow" do end
      end }]] }, { '--fsync', 'no', '--rules-budget', '50ms' })
    -- From here on failures of the script are remembered by vhost.
    local _, slow = hello 'user=slow'
    assert.equal('ERR denied a script failed', slow)
    local _, long = hello('user=ann vhost=' .. ('x'):rep(5000))
    assert.matches("^ERR syntax 'xxx", long)
    local _, colon = hello 'user=ann vhost=a:b'
    assert.matches("^ERR syntax 'a:b' is not a vhost: expected / or a name of 1%-255 bytes", colon)
    local _, _, ann = hello 'user=ann'
    assert.equal(2, ann:document('STATS').counters.asked)
  end)

  it('are asked once about a connection that sends no HELLO', function()
    start { ['connect/10-who.lua'] = [[
      local asked = tide.counter "asked"
      return { match = {}, connect = function(client)
        asked:incr()
        if not client.user then return false, "say who you are" end
        if client.user == "anybody" then return { vhost = "lobby" } end
      end }]] }
    local c = broker:connect()
    c:ok 'PING'
    for _ = 1, 2 do c:expect_answer('DECLARE queue q', 'ERR denied say who you are') end
    assert.equal('ERR denied say who you are', c:request('PUB - q', 'x'))
    c:expect_answer('HELLO user=ann', 'ERR denied HELLO must be the first request')
    local _, _, ann = hello 'user=ann'
    assert.equal(2, ann:document('STATS').counters.asked)
    ann:ok 'DECLARE queue q'
    assert.equal('q', ann:document('LIST queues')[1].name)
    assert.equal(2, ann:document('STATS').counters.asked)

    broker:write_rule('connect/10-who.lua', [[
      return { match = {}, connect = function(client)
        if not client.user then return { vhost = "lobby", name = "guest" } end
      end }]])
    ann:document 'RULES reload'
    local guest = broker:connect()
    guest:ok 'DECLARE queue in-lobby'
    assert.equal('in-lobby', guest:document('LIST queues')[1].name)
    assert.equal('q', ann:document('LIST queues')[1].name)
    -- One that is already there is not asked.
    c:expect_answer('DECLARE queue q', 'ERR denied say who you are')
  end)

  it('choose vhost, name and limits, one after the other', function()
    start {
      ['connect/10-tenant.lua'] = [[
        return { match = {}, connect = function(client)
          local tenant = client.user and client.user:match("@(.+)$")
          if tenant then return { vhost = tenant, name = "of-" .. tenant } end
        end }]],
      ['connect/20-limits.lua'] = [[
        return { match = { user = "x@acme" }, connect = function(client)
          assert(client.vhost == "acme" and client.name == "of-acme" and client.is_local and not client.is_tls)
          return { limits = { max_channels = 2, publish_rate = 3 } }
        end }]],
    }
    local who, _, c = hello 'user=x@acme'
    assert.equal('acme', who.vhost)
    local other = broker:connect()
    local connections = other:document 'LIST connections'
    assert.equal('of-acme', connections[1].name)
    c:ok 'DECLARE queue q'
    for _ = 1, 3 do c:ok('PUB - q', 'x') end
    local reply = c:request('PUB - q', 'x')
    while reply:find '^OK' do reply = c:request('PUB - q', 'x') end
    assert.matches('^ERR limit connection %d+ has reached publish_rate = 3; try again in %d+ ms$', reply)
    for n = 1, 2 do c:expect_answer(('@%d OPEN'):format(n), ('@%d OK'):format(n)) end
    assert.matches('^@3 ERR limit connection %d+ has reached max_channels = 2$', c:request '@3 OPEN')
    -- Another connection of the user has its own.
    local _, _, second = hello 'user=x@acme'
    for _ = 1, 3 do second:ok('PUB - q', 'x') end
  end)

  it('are asked when it is known who it is, and cannot let anybody into what he may not enter', function()
    start { ['connect/10-move.lua'] = [[
      return { match = {}, connect = function(client)
        if client.user == "bob" then return { vhost = client.name == "home" and "home" or "secret" } end
      end }]] }
    local c = broker:connect()
    c:ok 'USER add admin pass=secret1 tags=admin'
    c:ok 'USER add bob pass=secret2'
    c:ok 'USER grant bob home configure=.* write=.* read=.*'
    c:ok 'USER grant bob / configure=.* write=.* read=.*'
    local _, reply = hello 'user=bob pass=wrong'
    assert.equal('ERR denied the user or the password is wrong', reply)
    _, reply = hello 'user=bob pass=secret2'
    assert.equal("ERR denied user 'bob' may not enter vhost 'secret'", reply)
    assert.equal('home', hello('user=bob pass=secret2 name=home').vhost)
    local told = c:document 'RULES simulate login user=bob name=home protocol=stomp'
    assert.same({ verdict = 'allow', by = 'connect/10-move.lua:2', line = 2, lines = { { 2, 2 } }, vhost = 'home' },
      told.connect)
  end)

  it('are asked by each protocol', function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' }, rules = { ['connect/10-x.lua'] = [[
      return { match = {}, connect = function(client)
        if client.user == "no" then return false, "not by " .. client.protocol end
        return { name = "by-" .. client.protocol, limits = { publish_rate = 2 } }
      end }]] } }
    local refused = Stomp.open(broker)
    refused:frame('CONNECT', { ['accept-version'] = '1.2', login = 'no', passcode = 'x' })
    assert.matches('not by stomp', refused:expect('ERROR').headers.reason)
    local stomp = Stomp.connect(broker, { login = 'bob', passcode = 'x' })
    local http = Http.connect(broker, { user = 'no', password = 'x' })
    assert.matches('not by http', http:expect_error(401, 'denied', 'GET', '/api/whoami'))
    http = Http.connect(broker, { user = 'bob', password = 'x' })
    http:expect(200, 'GET', '/api/whoami')
    local names = {}
    for _, connection in ipairs(broker:connect():document 'LIST connections') do names[connection.name or ''] = true end
    assert.is_true(names['by-stomp'])
    stomp:close()
  end)

  it('that fail refuse, and say so to the log alone', function()
    start { ['connect/10-fails.lua'] = [[
      return { match = { vhost = "shop" }, connect = function(client)
        if client.user == "a" then error("broken") end
        if client.user == "b" then return { limits = { max_connections = 3 } } end
        if client.user == "c" then return true end
        if client.user == "d" then return nil, "why" end
        if client.user == "e" then return { vhots = "x" } end
        if client.user == "f" then return { vhost = "a b" } end
        if client.user == "g" then return { limits = { publish_rate = -1 } } end
      end }]] }
    for user, why in pairs {
      a = 'connect/10%-fails.lua:2: broken',
      b = "limits.max_connections', which is a limit of a user or an address",
      c = 'connect must return nothing, false and a reason, or a table with name, vhost or limits, not a boolean',
      d = 'connect returned a second value, a string: to refuse it must return false and a reason',
      e = "the table that connect returned",
      f = "connect returned a wrong 'vhost': 1 to 255 bytes",
      g = "connect returned a wrong 'limits.publish_rate': an integer from 0",
    } do
      local _, reply = hello('vhost=shop user=' .. user)
      assert.equal('ERR denied a script failed', reply)
      broker:expect_log(("login as '%s' from .* refused: .*"):format(user) .. why)
    end
    broker:connect():enter_vhost 'other'
    assert.is_truthy(hello 'vhost=other user=a')
    local c = select(3, hello 'user=z')
    assert.matches('broken', c:document('RULES simulate login user=a vhost=shop').connect.error)
  end)
end)
