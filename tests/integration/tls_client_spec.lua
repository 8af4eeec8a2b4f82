-- The C library and the command line over TLS: tides://.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

describe('a client with tides://', function()
  local tls = Certs.fixture()
  local certs, broker

  before_each(function() certs = tls.certs end)

  local function start(args)
    broker = tls.start { args = args }
  end

  local function cli(verb, ...)
    return broker:cli(verb, '--tls-ca', certs:cert 'ca', ...)
  end

  local function done(verb, ...)
    local output, status = cli(verb, ...)
    assert(status == 0, output)
    return output
  end

  local function fails(pattern, verb, ...)
    local output, status = broker:cli(verb, ...)
    assert.equal(1, status)
    assert.matches(pattern, output)
  end

  it('does what it does without', function()
    start()
    assert.matches('^tides://127.0.0.1:%d+$', broker:url())
    done('declare', 'queue', 'jobs')
    done('pub', '-', 'jobs', 'hello')
    assert.matches('hello', done('get', 'jobs'))
    local large = broker.dir .. '/large'
    shell.write_file(large, ('0123456789abcdef'):rep(1 << 18))
    local tidemq = ('%s %%s --url %s --tls-ca %s'):format(Broker.binary(), broker:url(), certs:cert 'ca')
    local output, status = shell.run(("%s - jobs - <%s && %s --format '%%p' jobs | cmp - %s"):format(
      tidemq:format 'pub', large, tidemq:format 'get', large))
    assert(status == 0, output)
    local rows = done('list', '--json', 'connections')
    assert.matches('"tls":"TLSv1.3"', rows)
  end)

  it('publishes and consumes many messages in order', function()
    start { '--fsync', 'no' }
    local output = done('bench', '--count', 20000, '--producers', 3, '--consumers', 3)
    assert.matches('missing 0, duplicates 0, out of order 0', output)
    output = done('bench', '--count', 200, '--size', 200000)
    assert.matches('missing 0, duplicates 0, out of order 0', output)
  end)

  it('verifies the broker', function()
    start()
    fails("^tidemq: cannot connect to 127.0.0.1:%d+: the other side's certificate is not accepted: ", 'stats')
    fails('^tidemq: TLS: cannot read the CA certificate \'/nowhere\': No such file', 'stats', '--tls-ca', '/nowhere')
    fails('^tidemq: TLS: a certificate needs its key: give both', 'stats', '--tls-cert', certs:cert 'server')
    broker:expect_log 'TLS: the other side has ended TLS: unknown CA'
    certs:issue('server', { san = 'DNS:broker.example' })
    broker:signal 'HUP'
    broker:expect_log 'now using'
    fails("^tidemq: cannot connect to 127.0.0.1:%d+: the other side's certificate is not for '127.0.0.1'", 'stats',
      '--tls-ca', certs:cert 'ca')
  end)

  it('is told of a limit, though not over TLS', function()
    start { '--max-connections', 1 }
    local c = broker:connect(2)
    fails("^tidemq: cannot connect to 127.0.0.1:%d+: the other side does not speak TLS: it began with "
      .. "'ERR limit the limit of 1 connections is reached'", 'stats', '--tls-ca', certs:cert 'ca')
    c:ok 'PING'
  end)

  it('finds its files in the environment', function()
    certs:issue 'alice'
    start { '--tls-ca', certs:cert 'ca', '--tls-client', 'required' }
    fails('the other side has ended TLS: it requires a certificate', 'stats', '--tls-ca', certs:cert 'ca')
    local env = ('TIDEMQ_TLS_CA=%s TIDEMQ_TLS_CERT=%s TIDEMQ_TLS_KEY=%s'):format(certs:cert 'ca', certs:cert 'alice',
      certs:key 'alice')
    local output = shell.run(('%s %s list --json --url %s connections 2>&1'):format(env, Broker.binary(), broker:url()))
    assert.matches('"certificate":"alice"', output)
  end)

  it('connects again, to a broker with another certificate', function()
    local last = 20000
    broker = tls.start { listen = { 'tls:127.0.0.1:' .. Redis.free_port(), '127.0.0.1:0' } }
    broker:connect(2):ok 'DECLARE queue lines'
    local status = broker.dir .. '/status'
    os.execute(('( seq %d | %s pub --url %s --tls-ca %s --reconnect --lines - lines; echo $? ) >%s 2>&1 &'):format(last,
      Broker.binary(), broker:url(), certs:cert 'ca', status))
    assert(wait.poll(function() return broker:connect(2):stats('lines').ready > last // 10 end))
    broker:kill9()
    certs:issue('ca', { is_ca = true })
    certs:issue 'server'
    broker:run()
    local text
    assert(wait.poll(function()
      text = shell.read_file(status)
      return text:find '%f[%d]%d\n$'
    end, 60), text)
    assert.matches('connecting again\ntidemq: connected again\npublished 20000 messages\n0\n$', text)
    assert.equal(last, broker:connect(2):stats('lines').ready)
  end)

  it('may be told to go to another port', function()
    start()
    local plain = broker.addresses[2]
    local output = shell.run(('%s stats --url tide://%s 2>&1'):format(Broker.binary(), broker.address:sub(5)))
    assert.equal('tidemq: syntax: this port speaks TLS: connect with tides://HOST:PORT\n', output)
    output = shell.run(('%s stats --tls-ca %s --url tides://%s 2>&1'):format(Broker.binary(), certs:cert 'ca', plain))
    assert.equal(("tidemq: cannot connect to %s: the other side does not speak TLS: it began with "
      .. "'ERR syntax this port does not speak TLS: connect with tide://HOST:PORT'\n"):format(plain), output)
    -- Of several URLs the one that answers is taken.
    output = shell.run(('%s stats --tls-ca %s --url tides://%s,tides://%s 2>&1'):format(Broker.binary(),
      certs:cert 'ca', plain, broker.address:sub(5)))
    assert.matches('connections', output)
  end)
end)
