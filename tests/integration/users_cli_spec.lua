-- `tidemq user`, passwords of the command line, and what a broker without users listens on.
local Broker = require 'support.broker'
local Client = require 'support.client'
local json = require 'dkjson'
local shell = require 'support.shell'
local users = require 'support.users'
local verbs = require 'support.verbs'
local wait = require 'support.wait'

local quote = shell.quote

describe('tidemq user', function()
  local broker

  before_each(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  after_each(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  --- A command as a user, whose password is in the environment; `tidemq` in it is the program.
  local function run(name, password, command)
    local at = name and ('%s:%s@'):format(name, password) or ''
    return shell.run(("export TIDEMQ_URL='tide://%s%s/'; tidemq() { %s \"$@\"; }; %s"):format(at, broker.address,
      quote(Broker.binary()), command))
  end
  local function done(...)
    local output, status = run(...)
    assert.equal(0, status, output)
    return output
  end
  local function refused(wanted, said, ...)
    local output, status = run(...)
    assert.equal(wanted, status, output)
    assert.equal(said .. '\n', output)
  end

  it('adds, changes, lists and deletes users', function()
    assert.equal('', done(nil, nil, "printf 'to be changed\\n' | tidemq user add alice --tags admin"))
    done('alice', 'to%20be%20changed', 'printf s3cret | tidemq user add bob')
    done('alice', 'to%20be%20changed', "tidemq user grant bob / --configure '^bob' --read '.*'")
    done('alice', 'to%20be%20changed', "tidemq user grant bob shop")
    done('alice', 'to%20be%20changed', 'tidemq user set bob --tags monitor --max-connections 5 --publish-bytes 1M')
    done('alice', 'to%20be%20changed', 'tidemq user add cert --no-password')
    local table = done('alice', 'to%20be%20changed', 'tidemq user list')
    assert.equal([[
NAME   TAGS     CONNECTIONS  VHOST  CONFIGURE  WRITE  READ  MAX-CONNECTIONS  PUBLISH-BYTES
alice  admin              1  /      .*         .*     .*    -                -
bob    monitor            0  /      ^bob       -      .*                  5        1048576
bob    -        -            shop   -          -      -     -                -
cert   -                  0  -      -          -      -     -                -
]], table)
    local list = json.decode(done('alice', 'to%20be%20changed', 'tidemq user list --json'))
    assert.same({ true, true, false }, { list[1].password, list[2].password, list[3].password })
    done('bob', 's3cret', 'tidemq declare queue bob-1')
    refused(1, "tidemq: denied: user 'bob' may not configure queue or topic 'other' in vhost '/'", 'bob', 's3cret',
      'tidemq declare queue other 2>&1')
    done('alice', 'to%20be%20changed', 'printf n3w | tidemq user passwd bob')
    refused(1, 'tidemq: denied: the user or the password is wrong', 'bob', 's3cret', 'tidemq list queues 2>&1')
    done('bob', 'n3w', 'tidemq list queues')
    done('alice', 'to%20be%20changed', 'tidemq user revoke bob shop')
    done('alice', 'to%20be%20changed', 'tidemq user delete bob')
    refused(1, "tidemq: not-found: there is no user 'bob'", 'alice', 'to%20be%20changed',
      'tidemq user delete bob 2>&1')
    assert.equal('{"ok":true}\n', done('alice', 'to%20be%20changed', 'tidemq user delete cert --json'))
    done('alice', 'to%20be%20changed', 'tidemq user delete alice')
    done(nil, nil, 'tidemq declare queue open')
  end)

  it('refuses what is no password', function()
    local expected = 'tidemq user: a password of 1-1024 bytes is expected on standard input; see tidemq help user'
    refused(2, expected, nil, nil, 'tidemq user add alice --tags admin 2>&1 </dev/null')
    refused(2, expected, nil, nil, 'echo | tidemq user add alice --tags admin 2>&1')
    refused(2, expected, nil, nil, 'printf %01025d 0 | tidemq user add alice --tags admin 2>&1')
    done(nil, nil, 'printf %01024d 0 | tidemq user add alice --tags admin 2>&1')
  end)

  it('asks a terminal twice, and shows nothing of it', function()
    shell.write_file(broker.dir .. '/type.py', [==[
import os, pty, signal, sys
signal.alarm(120)
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:2] + ['user', 'add', 'alice', '--tags', 'admin', '--url', sys.argv[2]])
shown = b''
for prompt, answer in ((b'password: ', sys.argv[3]), (b'again: ', sys.argv[4])):
    while not shown.endswith(prompt):
        shown += os.read(terminal, 1000)
    os.write(terminal, answer.encode() + b'\n')
try:
    while True:
        shown += os.read(terminal, 1000)
except OSError:
    pass
print(shown.decode().replace('\r', ''), end='')
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
]==])
    local function type_in(first, second)
      local text, code = shell.run(('python3 %s %s %s %s %s 2>&1'):format(quote(broker.dir .. '/type.py'),
        quote(Broker.binary()), quote(broker:url()), first, second))
      -- A busy machine takes long to hash a password.
      return text:gsub("tidemq: still waiting for the broker's answer\n", ''), code
    end
    local output, status = type_in('secret', 'secrets')
    assert.equal(1, status, output)
    assert.equal('password: \nagain: \ntidemq: the two passwords differ\n', output)
    output, status = type_in('secret', 'secret')
    assert.equal(0, status, output)
    assert.equal('password: \nagain: \n', output)
    users.connect(broker, 'alice'):close()
  end)

  it('hides the password of --url, and warns', function()
    done(nil, nil, 'printf secret | tidemq user add alice --tags admin')
    done('alice', 'secret', 'tidemq declare queue q')
    local url = ('tide://alice:secret@%s/'):format(broker.address)
    local output = shell.run(([[%s sub q --url '%s' >%s/sub 2>&1 & pid=$!
      for i in $(seq %d); do grep -q warning %s/sub && break; sleep 0.01; done
      tr '\0' ' ' </proc/$pid/cmdline; kill $pid]]):format(quote(Broker.binary()), url, broker.dir,
      wait.limit() * 100, broker.dir))
    assert.is_nil(output:find 'secret')
    assert.matches('sub q %-%-url %*+', output)
    assert.equal('tidemq: warning: the password of --url was on the command line, where every user could read it: '
      .. 'set TIDEMQ_URL\n', shell.read_file(broker.dir .. '/sub'):match '^[^\n]*\n')
    -- Not of one without.
    local said, status = verbs.run(broker, 'tidemq user list --url ' .. quote('tide://' .. broker.address) .. ' 2>&1')
    assert.equal(1, status)
    assert.equal('tidemq: denied: log in first: TIDEMQ_URL=tide://NAME:PASSWORD@HOST:PORT/\n', said)
  end)
end)

describe('a broker that others can reach', function()
  local EXPOSED = '0.0.0.0:0'
  local SENTENCE = 'tidemq: others can reach 0.0.0.0:0, and no user is defined: listen on 127.0.0.1 alone and add one '
    .. '(tidemq user add NAME --tags admin), or say --anonymous, so that they may do everything\n'

  it('is not without users, unless that is asked for', function()
    for _, listen in ipairs { { EXPOSED }, { '127.0.0.1:0', EXPOSED } } do
      local none, log, status = Broker.start { listen = listen, args = { '--store', 'none' }, may_fail = true }
      assert.is_nil(none)
      assert.equal(1, status)
      assert.equal(SENTENCE, log:match 'tidemq: [^\n]*\n')
    end
    local broker = Broker.start { listen = { EXPOSED }, args = { '--store', 'none', '--anonymous' } }
    broker.addresses[1] = '127.0.0.1:' .. broker.address:match '%d+$'
    local c = broker:connect()
    c:ok 'DECLARE queue q durable=0'
    c:close()
    broker:expect_clean_stop()
    for _, listen in ipairs { 'unix:@DIR@/socket', 'localhost:0', Client.has_ipv6() and '[::1]:0' or nil } do
      broker = Broker.start { listen = { listen }, args = { '--store', 'none' } }
      broker:expect_clean_stop()
    end
  end)

  it('is with users, the last of whom stays', function()
    local broker = Broker.start { redis = {}, listen = { EXPOSED }, stopped = true }
    users.restore(broker.redis, { alice = { tags = { 'admin' } } })
    broker:run()
    broker.addresses[1] = '127.0.0.1:' .. broker.address:match '%d+$'
    local c = users.connect(broker, 'alice')
    c:expect_answer('USER delete alice', "ERR denied user 'alice' is the last one, and a listener of this broker can "
      .. 'be reached by others: everybody could do everything')
    c:close()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  it('is with a script that decides who logs in, and lets nobody in when that goes', function()
    local broker = Broker.start { listen = { EXPOSED }, args = { '--store', 'none' }, rules = { ['auth/all.lua'] =
      'return { authenticate = function(login) return login.password == "x" and { name = "made" } or nil end }' } }
    broker.addresses[1] = '127.0.0.1:' .. broker.address:match '%d+$'
    local c = broker:connect()
    c:document 'HELLO pass=x'
    broker:remove_rule 'auth/all.lua'
    broker:expect_log 'generation 2 is active'
    local peer = broker:connect()
    assert.matches('^ERR denied log in first', peer:request 'LIST queues')
    assert.matches('^ERR denied the user or the password', peer:request 'HELLO user=made pass=x')
    peer:close()
    c:close()
    broker:expect_clean_stop()
  end)
end)
