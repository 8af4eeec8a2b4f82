-- What somebody should look after: /health/ready, STATS, /metrics.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Clock = require 'support.clock'
local Http = require 'support.http'
local Redis = require 'support.redis'
local socket = require 'socket'
local wait = require 'support.wait'

local NO_CLOCK = 'no other clock under AddressSanitizer'

describe('a warning', function()
  local broker, redis, http, c, clock, ahead, certs

  after_each(function()
    if broker then broker:destroy() end
    if clock then clock:destroy() end
    if redis then redis:destroy() end
    if certs then certs:destroy() end
    broker, redis, clock, certs = nil, nil, nil, nil
  end)

  local function start(options)
    options = options or {}
    -- One that is sanitized bears no other clock: what needs one is left out.
    clock, ahead = not Broker.is_sanitized() and Clock.new() or nil, 0
    options.env, options.http = clock and clock.env, '127.0.0.1:0'
    options.args = options.args or { '--store', 'none' }
    broker = Broker.start(options)
    http = Http.connect(broker)
    c = broker:connect()
  end

  --- The texts of a code, by whoever may see names, and by a stranger.
  local function texts(code)
    local named, public = {}, {}
    for _, w in ipairs(c:document('STATS').health.warnings) do
      if w.code == code then named[#named + 1] = w.text end
    end
    for _, w in ipairs(http:get('/health/ready').json.warnings) do
      if w.code == code then public[#public + 1] = w.text end
    end
    return named, public
  end

  --- A warning comes; gives the lines of whoever may see names. `step` is done while it is waited for.
  local function expect_warning(code, pattern, public_pattern, step)
    local named, public
    local found = wait.poll(function()
      if step then step() end
      named, public = texts(code)
      return #named > 0 and named[1]:find(pattern)
    end, 60)
    assert(found, (named[1] or 'none') .. http:get('/health/ready').body .. broker:log())
    assert.equal(200, http:get('/health/ready').status)
    assert.equal(1, #public)
    assert.matches(public_pattern or pattern, public[1])
    return named
  end

  local function expect_none(code, step)
    assert(wait.poll(function()
      if step then step() end
      return #texts(code) == 0
    end, 60), http:get('/health/ready').body)
  end

  --- The number in /metrics, which is taken after what was seen before.
  local function metric(code)
    return http:get('/metrics').body:match('tidemq_warnings{code="' .. code:gsub('%-', '%%-') .. '"} (%d+)')
  end

  --- The wall clock goes on by a minute at each look, or once a second.
  local function minutes_pass(work)
    local next_at = 0
    return function()
      if socket.gettime() < next_at then return end
      next_at = socket.gettime() + 1
      ahead = ahead + 61
      clock:set(ahead)
      if work then work() end
    end
  end

  it('names scripts that fail, until they fail no more', function()
    start { rules = {
      ['filter/bad.lua'] = "return { match = { exchange = 'orders' }, publish = function(msg) error('broken') end }",
    } }
    c:ok 'DECLARE exchange orders fanout'
    for _ = 1, 3 do assert.matches('^ERR rule', c:request('PUB orders jobs', 'x')) end
    expect_warning('scripts', '^the script filter/bad has failed 3 times in the last two minutes: see its last error '
      .. '%(RULES status%)$', '^scripts of the rules that fail: 1; see their last error %(RULES status%)$')
    assert.equal('1', metric 'scripts')
    assert.is_nil(http:get('/health/ready').body:find('bad', 1, true))
    if not clock then return pending(NO_CLOCK) end
    expect_none('scripts', minutes_pass())
    assert.equal('0', metric 'scripts')
  end)

  it('names queues that grow and have no consumer, the first few', function()
    start()
    if not clock then return pending(NO_CLOCK) end
    for i = 1, 7 do c:ok('DECLARE queue lonely' .. i) end
    c:ok 'DECLARE queue served'
    c:ok 'DECLARE queue still'
    c:ok('PUB - still', 'x')
    local consumer = broker:connect()
    consumer:ok 'SUB served s ack=auto'
    local function publish()
      for i = 1, 7 do c:ok('PUB - lonely' .. i, 'x') end
      c:ok('PUB - served', 'x')
    end
    local named = expect_warning('consumers', "^the queue 'lonely%d' %(vhost /%) grows and has no consumer, with "
      .. '%d+ messages?: start one, or give the queue a limit %(max%-length, ttl%)$', '^queues that grow and have no '
      .. 'consumer: 7; start one, or give the queue a limit %(max%-length, ttl%)$', minutes_pass(publish))
    assert.equal(6, #named)
    assert.equal('… and 2 more', named[6])
    assert.equal('7', metric 'consumers')
    expect_none('consumers', minutes_pass())
  end)

  it('names queues whose messages become dead letters', function()
    start()
    c:ok 'DECLARE queue dead'
    c:ok 'DECLARE queue jobs delivery-limit=1 dead-letter=-/dead'
    -- One that only makes messages wait.
    c:ok 'DECLARE queue wait ttl=1ms dead-letter=-/dead'
    c:ok('PUB - wait', 'x')
    c:ok('PUB - jobs', 'x')
    c:ok 'GET jobs'
    c:ok('NACK ' .. c:expect_msg().tag)
    assert.equal(1, #expect_warning('dead-letters', "^the queue 'jobs' %(vhost /%) has sent 1 message to its "
      .. 'dead%-letter target in the last two minutes: look there for the reason$',
      '^queues and topics that send messages to their dead%-letter target: 1; look there for the reason$'))
    if not clock then return pending(NO_CLOCK) end
    expect_none('dead-letters', minutes_pass())
  end)

  it('names groups that fall behind', function()
    start()
    if not clock then return pending(NO_CLOCK) end
    c:ok 'DECLARE topic events partitions=1'
    local late, quick = broker:connect(), broker:connect()
    late:ok 'SUB events s group=late prefetch=1'
    quick:ok 'SUB events s group=quick ack=auto'
    quick:expect '^EVT assigned'
    local function publish()
      c:send(('PUB - events 1\r\nx\r\n'):rep(1000))
      for _ = 1, 1000 do c:expect '^OK' end
      for _ = 1, 1000 do quick:expect_msg() end
    end
    publish()
    expect_warning('lag', "^the group 'late' of the topic 'events' %(vhost /%) is %d+ messages behind, %d+ more than a "
      .. 'minute ago: start more consumers$', '^groups that fall behind their topics: 1; start more consumers$',
      minutes_pass(publish))
    expect_none('lag', minutes_pass())
    c:ok 'PAUSE group events late'
    expect_none('lag', minutes_pass(publish))
  end)

  it('says that memory is near its limit', function()
    start { args = { '--store', 'none', '--max-memory', '1M' } }
    c:ok 'DECLARE queue jobs'
    for _ = 1, 9 do c:ok('PUB - jobs', ('x'):rep(100000)) end
    expect_warning('memory', '^messages fill %d+ %% of %-%-max%-memory, and at 100 %% publishers are held back: start '
      .. 'consumers, or raise it$')
    assert.equal('1', metric 'memory')
    c:ok 'GET jobs max=3 ack=auto'
    for _ = 1, 3 do c:expect_msg() end
    expect_none 'memory'
  end)

  it('says that Redis is near its maxmemory', function()
    start { redis = {}, args = {} }
    local used = tonumber(broker.redis:cli('INFO', 'memory'):match 'used_memory:(%d+)')
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', math.floor(used * 1.1))
    expect_warning('store-memory', '^Redis uses %d+ %% of its maxmemory, and at its end refuses writes: raise it, or '
      .. 'consume what is stored$')
    broker.redis:cli('CONFIG', 'SET', 'maxmemory', 0)
    expect_none 'store-memory'
  end)

  it('says that the certificate ends soon, or has ended, until there is another one', function()
    certs = Certs.make()
    certs:issue('server', { days = 5 })
    start { certs = certs, listen = { 'tls:127.0.0.1:0' } }
    expect_warning('certificate',
      '^the certificate of %-%-tls%-cert ends in 4 days: put a new one in its place, and send SIGHUP$')
    assert.equal('1', metric 'certificate')
    if not clock then return pending(NO_CLOCK) end
    clock:set(6 * 86400)
    expect_warning('certificate', '^the certificate of %-%-tls%-cert has ended, and is refused: put a new one in its '
      .. 'place, and send SIGHUP$')
    certs:issue('server', { days = 60 })
    broker:signal 'HUP'
    expect_none 'certificate'
  end)

  it('says that the certificate for Redis ends soon', function()
    certs = Certs.make()
    certs:issue('client', { days = 5 })
    redis = Redis.start({}, certs)
    start { args = { '--store', ('%s&cert=%s&key=%s'):format(redis.tls_url, certs:cert 'client', certs:key 'client') } }
    expect_warning('store-certificate',
      '^the certificate of %-%-store %(cert=%) ends in 4 days: put a new one in its place$')
    -- It is read again with each connection.
    certs:issue('client', { days = 60 })
    redis:cli('CLIENT', 'KILL', 'TYPE', 'normal')
    expect_none 'store-certificate'
  end)
end)
