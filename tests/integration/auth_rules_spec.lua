-- Scripts of rules/auth/ decide who logs in and what he may do. Tokens are made by openssl.
local Broker = require 'support.broker'
local shell = require 'support.shell'

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

--- The line of a model on which a function begins.
local function line_of(name, text)
  local before = assert(shell.read_file('examples/auth/' .. name .. '.lua')):match('^(.-)' .. text .. ' = function')
  return select(2, before:gsub('\n', '')) + 1
end

local function model(name) return assert(shell.read_file('examples/auth/' .. name .. '.lua')) end

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

  describe('is asked without doing anything', function()
    it('about a login', function()
      start {}
      local c = broker:connect()
      assert.same({ vhost = '/', verdict = 'deny', by = 'table', reason = 'there is no such user' },
        c:document 'RULES simulate login user=jane pass=x')
      broker:write_rule('auth/jwt.lua', model 'jwt')
      broker:expect_log 'generation 2 is active'
      local place = 'auth/jwt.lua:' .. line_of('jwt', 'authenticate')
      local text = token(('"sub":"bob","aud":"tidemq","scope":"write","exp":%d'):format(os.time() + 3600))
      assert.same({ vhost = '/', verdict = 'allow', by = place,
        user = { name = 'bob', tags = {}, configure = '', write = '.*', read = '', limits = {} } },
        c:document('RULES simulate login pass=' .. text))
      assert.same({ vhost = 'shop', verdict = 'deny', by = place, reason = 'the token is for another user' },
        c:document('RULES simulate login user=jane vhost=shop pass=' .. text))
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
      local asked = { user = 'bob', vhost = '/', action = 'write', kind = 'lock', name = 'x', verdict = 'deny',
        by = 'auth/a.lua:1', reason = 'bob write lock' }
      assert.same(asked, ask 'kind=lock name=x')
      assert.equal('there is no such user', ask 'kind=queue name=jobs'.reason)
      assert.equal('auth/a.lua:3: no', ask 'kind=queue name=fails'.error)
      assert.is_nil(c:document 'RULES status'.counters.asked)
      assert.matches('verdict +deny', (broker:cli('rules', 'simulate', 'access', 'user=bob', 'action=write',
        'kind=lock', 'name=x')))
    end)

    for words, why in pairs {
      ['login usr=x'] = "RULES simulate login has no option 'usr'; it has user, pass",
      ['login vhost=%20'] = 'vhost must be 1%-255 bytes',
      ['login tls=1'] = 'tls=1: expected no or yes',
      ['access user=bob action=write kind=queue'] = 'name must be 1%-255 bytes',
      ['access user=bob action=write name=q'] = 'needs user=, action=, kind= and name=',
      ['access user=bob action=drink kind=queue name=q'] = 'action=drink: expected configure, write or read',
      ['access user=bob action=write kind=queue name=q x=1'] = "has no option 'x'",
      ['logout'] = 'usage: RULES simulate',
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
