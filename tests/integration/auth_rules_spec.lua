-- Scripts of rules/auth/ decide who logs in and what he may do. Tokens are made by openssl.
local Broker = require 'support.broker'
local Clock = require 'support.clock'
local shell = require 'support.shell'
local wait = require 'support.wait'

local KEY <const> = '0123456789abcdef0123456789abcdef'

local function base64url(command)
  return (shell.run(command .. " | base64 -w0 | tr '+/' '-_' | tr -d '='"):gsub('%s', ''))
end

local function encode(text) return base64url(('printf %%s %s'):format(shell.quote(text))) end

local function sign(text, key)
  return base64url(('printf %%s %s | openssl dgst -sha256 -hmac %s -binary'):format(
    shell.quote(text), shell.quote(key)))
end

--- @param claims string members of the object
local function token(claims, header, key)
  local text = encode(header or '{"alg":"HS256","typ":"JWT"}') .. '.' .. encode('{' .. claims .. '}')
  return text .. '.' .. sign(text, key or KEY)
end

local function use(name, given)
  return ('return tide.use("%s", { options = { %s } })'):format(name, given or '')
end

describe('rules/auth', function()
  local broker

  --- @param rules table<string, string>
  local function start(rules, options)
    options = options or {}
    options.rules, options.stopped = rules, true
    options.args = { '--fsync', 'no', '--secrets', '@DIR@/secrets', table.unpack(options.args or {}) }
    broker = Broker.start(options)
    assert(os.execute('mkdir ' .. broker.dir .. '/secrets'))
    shell.write_file(broker.dir .. '/secrets/jwt', KEY .. '\n')
    return broker:run()
  end

  after_each(function()
    if broker then broker:destroy() end
    broker = nil
  end)

  --- A connection that has logged in; or what it was answered.
  local function login(words)
    local c = broker:connect()
    c:send('HELLO ' .. words .. '\r\n')
    local reply = c:expect '^.*$'
    if not reply:find '^DATA' then return nil, reply, c end
    c:expect_payload(reply:match '^DATA (%d+)$')
    return c
  end

  local REFUSED <const> = 'ERR denied the user or the password is wrong'

  describe('with the model jwt', function()
    local later

    lazy_setup(function() later = ('"exp":%d'):format(os.time() + 3600) end)

    it('lets in whom a token names, with its rights', function()
      start { ['auth/10-jwt.lua'] = use 'jwt' }
      local c = login('pass=' .. token('"sub":"bob","aud":"tidemq","scope":"write configure",' .. later))
      c:ok 'DECLARE queue jobs'
      c:ok('PUB - jobs', 'x')
      c:send 'GET jobs\r\n'
      c:expect "^ERR denied user 'bob' may not read from"
      c:send 'LIST queues\r\n'
      c:expect '^ERR denied'
      -- The name may be given, too.
      assert(login('user=jane pass=' .. token('"sub":"jane","aud":"tidemq",' .. later)))
    end)

    it('takes tokens that are longer than a password may be', function()
      start { ['auth/10-jwt.lua'] = use 'jwt' }
      local filler = ('"groups":"%s",'):format(('x'):rep(8000))
      assert(login('pass=' .. token('"sub":"bob","aud":"tidemq",' .. filler .. later)))
      local c, reply = login('user=bob pass=' .. ('x'):rep(2000))
      assert.is_nil(c)
      assert.equal(REFUSED, reply)
      broker:expect_log 'its password is too long'
      assert.equal('ERR syntax a password has 1 to 16384 bytes', select(2, login('pass=' .. ('x'):rep(16385))))
    end)

    it('limits a tenant to its names', function()
      start { ['auth/10-jwt.lua'] = use 'jwt' }
      local claims = '"sub":"bob","tenant":"acme","aud":"tidemq","scope":"write configure read",' .. later
      local c = login('pass=' .. token(claims))
      c:ok 'DECLARE queue acme.jobs'
      c:send 'DECLARE queue other.jobs\r\n'
      c:expect "^ERR denied user 'bob' may not configure"
    end)

    it('lets an admin administer', function()
      start { ['auth/10-jwt.lua'] = use 'jwt' }
      local c = login('pass=' .. token('"sub":"root","aud":"tidemq","scope":"admin",' .. later))
      c:send 'RULES status\r\n'
      assert.matches('"auth":{"authenticate":true,"authorize":false}', c:expect_data())
    end)

    it('refuses what nobody signed, who came late, and who meant others', function()
      start { ['auth/10-jwt.lua'] = use 'jwt' }
      local good = '"sub":"bob","aud":"tidemq","scope":"write",' .. later
      local tokens = {
        ['the signature of the token is wrong'] = token(good, nil, 'another key, of 32 bytes or more'),
        ['the token has expired'] = token(('"sub":"bob","aud":"tidemq","exp":%d'):format(os.time() - 60)),
        ['the token is for another audience'] = token('"sub":"bob","aud":"billing",' .. later),
        ['the token is not signed with HS256'] = encode '{"alg":"none"}' .. '.' .. encode('{' .. good .. '}') .. '.',
      }
      for why, text in pairs(tokens) do
        local c, reply = login('pass=' .. text)
        assert.is_nil(c)
        -- He is not told why; the log is.
        assert.equal(REFUSED, reply)
        broker:expect_log(why)
        assert.is_nil(broker:log():find(text, 1, true))
      end
      local c, reply = login('user=alice pass=' .. token(good))
      assert.is_nil(c)
      assert.equal(REFUSED, reply)
      broker:expect_log 'the token is for another user'
    end)

    it('makes everybody log in', function()
      start { ['auth/10-jwt.lua'] = use 'jwt' }
      local c = broker:connect()
      c:send 'DECLARE queue jobs\r\n'
      c:expect '^ERR denied log in first'
      c:ok 'PING'
    end)

    it('leaves the others to the table of users', function()
      start {}
      broker:connect():ok 'USER add root pass=for-the-table tags=admin'
      broker:write_rule('auth/10-jwt.lua', use 'jwt')
      broker:expect_log 'generation 2 is active'
      assert(login 'user=root pass=for-the-table')
      assert.equal(REFUSED, select(2, login 'user=root pass=wrong-password'))
    end)
  end)

  it('keeps tenants in their vhosts', function()
    start {}
    local c = broker:connect()
    c:ok 'USER add root pass=root-password tags=admin'
    c:ok 'USER add acme/bob pass=bobs-password'
    c:ok 'USER grant acme/bob acme configure=.* write=.* read=.*'
    c:ok 'USER grant acme/bob other configure=.* write=.* read=.*'
    assert(login 'user=acme/bob pass=bobs-password vhost=other')
    broker:write_rule('auth/10-tenants.lua', use 'tenants')
    broker:expect_log 'generation 2 is active'
    assert(login 'user=acme/bob pass=bobs-password vhost=acme'):ok 'DECLARE queue jobs'
    assert.equal(REFUSED, select(2, login 'user=acme/bob pass=bobs-password vhost=other'))
    broker:expect_log "users of 'acme' enter the vhost 'acme' alone"
  end)

  it('closes at the end of business hours, while clients are connected', function()
    if Broker.is_sanitized() then return pending 'no other clock under AddressSanitizer' end
    local clock = Clock.new()
    finally(function() clock:destroy() end)
    -- A Monday, 12:00 by the model's clock; then 20:00.
    local monday = (os.time() // 86400 + (4 - os.time() // 86400 - 4) % 7 + 7) * 86400
    while (monday // 86400 + 4) % 7 ~= 1 do monday = monday + 86400 end
    local noon = monday + 11 * 3600 - os.time()
    clock:set(noon)
    start({ ['auth/10-hours.lua'] = use('hours', 'zone = "Europe/Paris"') }, { env = clock.env })
    local root = broker:connect()
    root:ok 'USER add root pass=root-password tags=admin'
    root:ok 'USER add bob pass=bobs-password'
    root:ok 'USER grant bob / configure=.* write=.* read=.*'
    root:ok 'USER grant root / configure=.* write=.* read=.*'
    local c = login 'user=bob pass=bobs-password'
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'x')
    clock:set(noon + 8 * 3600)
    -- A decision holds for ten seconds.
    assert.is_truthy(wait.poll(function()
      c:send 'PUB - jobs 1\r\nx\r\n'
      return c:expect('^.*$'):find "^ERR denied .*queue 'jobs' is closed; it opens at 8:00"
    end, 30))
    assert.is_true(c:document 'STATS jobs'.ready >= 1)
    root:ok('PUB - jobs', 'x')
  end)

  it('is told where somebody comes from, and in which protocol', function()
    start({
      ['auth/a.lua'] = [[
        return { authenticate = function(login)
          tide.log(("%s by %s from %s local %s tls %s named %s"):format(login.user, login.protocol, login.address,
            login.is_local, login.is_tls, login.name))
          return {}
        end }]],
    }, { listen = { '127.0.0.1:0', 'unix:@DIR@/socket' } })
    local c = broker:connect()
    c:send 'HELLO user=tcp pass=x name=app\r\n'
    c:expect_data()
    broker:expect_log 'tcp by line from 127.0.0.1 local true tls false named app'
    c = broker:connect(2)
    c:send 'HELLO user=socket pass=x\r\n'
    c:expect_data()
    broker:expect_log 'socket by line from nil local true tls false named nil'
    c = broker:connect()
    c:send 'CONNECT\naccept-version:1.2\nhost:/\nlogin:frames\npasscode:x\n\n\0'
    broker:expect_log 'frames by stomp from 127.0.0.1'
  end)

  it('refuses when it throws or hangs, and the broker goes on', function()
    start {
      ['auth/a.lua'] = [[
        return {
          authenticate = function(login)
            if login.user == "throws" then error("no: " .. login.password) end
            if login.user == "hangs" then while true do end end
            return { configure = ".*", write = ".*", read = ".*" }
          end,
          authorize = function(_, _, object)
            if object.name == "throws" then error "no" end
            if object.name == "hangs" then while true do end end
          end,
        }]],
    }
    assert.equal(REFUSED, select(2, login 'user=throws pass=very-secret-word'))
    broker:expect_log 'auth/a.lua:3: an error whose text has a password'
    assert.is_nil(broker:log():find('very-secret-word', 1, true))
    assert.equal(REFUSED, select(2, login 'user=hangs pass=x'))
    broker:expect_log 'ran longer than its budget'
    local c = assert(login 'user=bob')
    c:ok 'DECLARE queue jobs'
    for _, name in ipairs { 'throws', 'hangs' } do
      c:send('DECLARE queue ' .. name .. '\r\n')
      c:expect '^ERR denied .*auth/a.lua'
    end
    c:ok('PUB - jobs', 'x')
  end)

  it('ends who has not logged in when it comes, after the answer to who brought it', function()
    start {}
    local idle, bringer = broker:connect(), broker:connect()
    idle:ok 'PING'
    broker:write_rule('auth/a.lua', 'return { authenticate = function() return true end }')
    bringer:send 'RULES reload\r\n'
    bringer:expect_data()
    for _, c in ipairs { idle, bringer } do
      c:expect_line 'EVT closed denied from now on everybody has to log in'
      c:expect_closed()
    end
  end)

  it('leaves no trace of passwords and secrets', function()
    start {
      ['auth/a.lua'] = [[
        local key <const> = tide.secret "jwt"
        return { authenticate = function(login)
          tide.log("password", login.password)
          tide.log("key", key)
          if login.user == "reason" then return false, login.password end
          if login.user == "error" then error(key) end
          return { tags = { "admin" } }
        end }]],
    }
    local PASSWORD <const> = 'correct-horse-battery-staple'
    for _, user in ipairs { 'reason', 'error' } do
      assert.equal(REFUSED, select(2, login(('user=%s pass=%s'):format(user, PASSWORD))))
    end
    local c = assert(login('user=root pass=' .. PASSWORD))
    broker:expect_log 'auth/a.lua:3: this line has a password or a secret in it'
    broker:expect_log 'auth/a.lua:4: this line has a password or a secret in it'
    broker:expect_log 'a script refused it, for a reason with a password or a secret'
    broker:expect_log 'auth/a.lua:6: an error whose text has a password or a secret in it'
    local shown = broker:log()
    for _, request in ipairs { 'RULES status', 'RULES log', 'RULES recent', 'STATS', 'LIST connections' } do
      c:send(request .. '\r\n')
      shown = shown .. c:expect_data()
    end
    c:close()
    broker:expect_clean_stop()
    for _, text in ipairs { PASSWORD, KEY } do
      assert.is_nil(shown:find(text, 1, true))
      -- Redis keeps the rules, but neither of these.
      assert.equal('', (shell.run(("grep -rlF -e %s '%s'"):format(text, broker.data))))
    end
    assert.is_truthy((shell.run(("grep -rlF -e 'tide.secret' '%s'"):format(broker.data))):find '%S')
  end)

  it('protect a broker that others can reach, even when they are gone', function()
    local listen = { '0.0.0.0:0' }
    local other, why = Broker.start { listen = listen, args = { '--store', 'none' }, may_fail = true }
    assert.is_nil(other)
    assert.matches('others can reach 0%.0%.0%.0:0', why)
    start({ ['auth/10-jwt.lua'] = use 'jwt' }, { listen = listen })
    broker.address = broker.address:gsub('^.*:', '127.0.0.1:')
    broker.addresses[1] = broker.address
    assert(login('pass=' .. token(('"sub":"root","aud":"tidemq","scope":"admin","exp":%d'):format(os.time() + 3600))))
    broker:remove_rule 'auth/10-jwt.lua'
    broker:expect_log 'generation 2 is active'
    local c = broker:connect()
    c:send 'LIST queues\r\n'
    c:expect '^ERR denied log in first'
  end)

  it('do not let the broker start without a secret that it had', function()
    start { ['auth/10-jwt.lua'] = use 'jwt' }
    broker:expect_clean_stop()
    os.remove(broker.dir .. '/secrets/jwt')
    broker:launch()
    assert.equal(1, broker:wait_ready())
    assert.matches("auth/jwt.lua:%d+: there is no secret 'jwt'", broker:log())
  end)

  it('takes effect while clients are connected', function()
    local function rule(name)
      return ([[return {
        authenticate = function() return { configure = ".*", write = ".*", read = ".*" } end,
        authorize = function(_, _, object) if object.name == %q then return false, "closed" end end }]]):format(name)
    end
    start { ['auth/a.lua'] = rule 'nothing' }
    local c = assert(login 'user=bob pass=x')
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'x')
    broker:write_rule('auth/a.lua', rule 'jobs')
    broker:expect_log 'generation 2 is active'
    c:send 'PUB - jobs 1\r\nx\r\n'
    c:expect '^ERR denied .*closed'
    broker:write_rule('auth/a.lua', rule 'nothing')
    broker:expect_log 'generation 3 is active'
    c:ok('PUB - jobs', 'x')
  end)

  it('reads a secret anew at a reload, and refuses rules whose secret is gone', function()
    start { ['auth/10-jwt.lua'] = use 'jwt' }
    local later = ('"exp":%d'):format(os.time() + 3600)
    local claims = '"sub":"root","aud":"tidemq","scope":"admin",' .. later
    local c = assert(login('pass=' .. token(claims)))
    shell.write_file(broker.dir .. '/secrets/jwt', 'another key of more than 16 bytes')
    c:send 'RULES reload\r\n'
    c:expect_data()
    assert.is_nil((login('pass=' .. token(claims))))
    assert(login('pass=' .. token(claims, nil, 'another key of more than 16 bytes')))
    os.remove(broker.dir .. '/secrets/jwt')
    c:send 'RULES reload\r\n'
    c:expect "^ERR rule shipped/auth/jwt.lua:%d+: there is no secret 'jwt': .*/secrets/jwt: No such file"
    assert(login('pass=' .. token(claims, nil, 'another key of more than 16 bytes')))
  end)

  describe('is asked without doing anything', function()
    it('about a login', function()
      start {}
      local c = broker:connect()
      assert.same({ vhost = '/', verdict = 'allow', by = 'open',
        reason = 'nobody has to log in, since there are no users' }, c:document 'RULES simulate login user=jane pass=x')
      c:ok 'USER add root pass=root-password tags=admin'
      assert.same({ vhost = '/', verdict = 'refuse', by = 'table', reason = 'there is no such user' },
        c:document 'RULES simulate login user=jane pass=x')
      assert.same({ vhost = '/', verdict = 'password', by = 'table', reason = 'its password is asked' },
        c:document 'RULES simulate login user=root pass=x')
      broker:write_rule('auth/10-jwt.lua', use 'jwt')
      broker:expect_log 'generation 2 is active'
      local place = 'auth/10-jwt.lua:1'
      local text = token(('"sub":"bob","aud":"tidemq","scope":"write","exp":%d'):format(os.time() + 3600))
      local jwt = {}
      for line in io.lines 'rules/auth/jwt.lua' do jwt[#jwt + 1] = line end
      -- The line that decided is one of the model.
      local function ask(words)
        local d = c:document('RULES simulate login ' .. words)
        assert.equal('shipped/auth/jwt.lua', d.model)
        local line = jwt[d.line]
        d.model, d.line, d.lines = nil, nil, nil
        return d, line
      end
      local d, line = ask('pass=' .. text)
      assert.matches('return user', line)
      assert.same({ vhost = '/', verdict = 'allow', by = place,
        user = { name = 'bob', tags = {}, configure = '', write = '.*', read = '', limits = {} } },
        d)
      d, line = ask('user=jane vhost=shop pass=' .. text)
      assert.matches('the token is for another user', line)
      assert.same({ vhost = 'shop', verdict = 'refuse', by = place, reason = 'the token is for another user' }, d)
    end)

    it('about a permission', function()
      start {
        ['auth/a.lua'] = [[return { authorize = function(user, action, object)
          tide.counter("asked"):incr()
          if object.name == "fails" then error "no" end
          if object.name == "x" then return false, user.name .. " " .. action .. " " .. object.kind end
        end }]],
      }
      local c = broker:connect()
      local function ask(words) return c:document('RULES simulate access user=bob action=write ' .. words) end
      local asked = { user = 'bob', vhost = '/', action = 'write', kind = 'lock', name = 'x', verdict = 'refuse',
        by = 'auth/a.lua:4', line = 4, lines = { { 2, 4 } }, reason = 'bob write lock' }
      assert.same(asked, ask 'kind=lock name=x')
      assert.equal('open', ask 'kind=queue name=jobs'.by)
      assert.equal('auth/a.lua:3: no', ask 'kind=queue name=fails'.error)
      assert.equal('auth/a.lua:3', ask 'kind=queue name=fails'.by)
      assert.is_nil(c:document 'RULES status'.counters.asked)
      assert.matches('verdict +refuse', (broker:cli('rules', 'simulate', 'access', 'user=bob', 'action=write',
        'kind=lock', 'name=x')))
      c:ok 'USER add root pass=root-password tags=admin'
      assert.equal('there is no such user', ask 'kind=queue name=jobs'.reason)
    end)

    for words, why in pairs {
      ['login usr=x'] = "RULES simulate login has no option 'usr'; it takes: user pass",
      ['login vhost=%20'] = 'vhost must be 1%-255 bytes',
      ['login tls=perhaps'] = 'tls=perhaps: expected true or false',
      ['access user=bob action=write kind=queue'] = 'name= is missing: expected a name',
      ['access user=bob action=write kind=queue name=%20'] = 'name must be 1%-255 bytes',
      ['access user=bob action=drink kind=queue name=q'] = 'action=drink: expected configure, write or read',
      ['access user=bob action=write kind=queue name=q x=1'] = "has no option 'x'",
      ['logout'] = 'RULES simulate takes retry',
    } do
      it('in right words: ' .. words, function()
        broker = Broker.start { args = { '--store', 'none' } }
        local c = broker:connect()
        c:send('RULES simulate ' .. words .. '\r\n')
        assert.matches('^ERR syntax .*' .. why, (c:expect '^.*$'))
      end)
    end
  end)
end)
