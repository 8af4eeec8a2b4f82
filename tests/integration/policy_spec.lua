-- declare/: policies decide what options queues and topics have, at any time.
local Broker = require 'support.broker'
local traffic = require 'support.traffic'
local wait = require 'support.wait'

--- A policy whose body sees `what`.
local broker

local function policy(body, match)
  match = match or ("{ vhost = '%s' }"):format(broker.vhost)
  return ('return { match = %s, declare = function(what)\n%s\nend }\n'):format(match, body)
end

describe('policies', function()
  local c

  setup(function()
    broker = Broker.start {
      rules = { ['declare/10-first.lua'] = policy('', "{ queue = 'nothing' }") }, -- makes the directory
      args = { '--window-messages', '16', '--fsync', 'no' },
    }
  end)
  teardown(function() broker:destroy() end)
  before_each(function()
    c = broker:enter_vhost()
    broker:write_rule('declare/20-test.lua', policy('', "{ queue = 'nothing' }"))
    c:document 'RULES reload'
  end)
  after_each(function() c:close() end)

  local function list(name, kind)
    for _, q in ipairs(c:document('LIST ' .. (kind or 'queues'))) do
      if q.name == name then return q end
    end
  end
  local function options(name) return list(name or 'q').options end

  --- These rules are active when it returns; what they ask of queues may follow.
  local function activate(text)
    if text then broker:write_rule('declare/20-test.lua', text) else broker:remove_rule 'declare/20-test.lua' end
    return c:document 'RULES reload'
  end

  local function restart()
    c:close()
    broker:restart()
    c = broker:connect()
  end

  it('set, bound and refuse when something is declared', function()
    activate(policy [[
      if what.name:find 'bad' then return false, 'no bad names' end
      assert(what.kind == 'queue' and what.vhost:find '^test')
      what.options.ttl = what.options.ttl or '1h'
      what.options['max-length'] = 1000
      what.options['auto-delete'] = false
      what.options.rate = nil
    ]])
    c:expect_answer('DECLARE queue bad', 'ERR rejected no bad names (declare/20-test.lua)')
    assert.is_nil(list 'bad')
    c:ok 'DECLARE queue q rate=5/s max-length=5'
    local q = list 'q'
    assert.same({ ttl = '1h', ['max-length'] = '1000' }, q.options)
    assert.same({ rate = '5/s', ['max-length'] = '5' }, q.declared)
    assert.equal('declare/20-test.lua', q.policy)
    c:ok 'DECLARE queue r ttl=2h max-length=1000'
    q = list 'r'
    assert.same({ ttl = '2h', ['max-length'] = '1000' }, q.options)
    assert.same({ ttl = '2h', ['max-length'] = '1000' }, q.declared)
    activate(policy "what.options.ttl = '2h'")
    c:ok 'DECLARE queue s ttl=2h'
    assert.is_nil(list('s').policy)
    assert.is_nil(list('s').declared)
  end)

  it('are refused with options that there are not, when they are loaded', function()
    local function use(option)
      broker:write_rule('declare/20-test.lua',
        ('return tide.use("bounds", { match = {}, options = { defaults = "%s=5" } })\n'):format(option))
      c:send 'RULES reload\r\n'
    end
    use 'max-lenght'
    c:expect "^ERR rule .*bounds.lua:%d+: a queue has no option 'max%-lenght'; it takes: .*%(for declare/20%-test.lua%)"
    use 'max-length'
    c:expect '^DATA '
    c:expect '^{'
  end)

  it('know what DECLARE gives', function()
    -- The values in `bounds`, given, are no other than those that are left out.
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue q ack-timeout=60s ack-timeout-max=1d delivery-limit=20 death-limit=100'
    c:ok 'DECLARE topic t'
    c:ok 'DECLARE topic t retention=1d'
    assert.same({}, options())
    activate 'return tide.use("bounds", { match = {}, options = { most = "delivery-limit=100,death-limit=9" } })\n'
    c:ok 'DECLARE queue r'
    assert.same({ ['death-limit'] = '9' }, options 'r')
  end)

  it('cannot say where messages lie', function()
    activate(policy "what.options.reshard = 1 what.options.ttl = '1h'")
    c:send 'DECLARE queue q\r\n'
    c:expect "^ERR rule declare/20%-test.lua: queue 'q': it keeps its shards and its sharding"
  end)

  it('leave what a client said as it is', function()
    activate(policy "what.options.ttl = '1h'")
    c:ok 'DECLARE queue q max-length=5'
    c:ok 'DECLARE queue q max-length=5'
    c:expect_answer('DECLARE queue q ttl=1h max-length=5',
      "ERR mismatch queue 'q' exists with other options: it has ttl=0, not ttl=1h; the option update changes that")
    c:ok 'DECLARE queue q max-length= rate=5/s update'
    assert.same({ ttl = '1h', rate = '5/s' }, options())
    assert.same({ rate = '5/s' }, list('q').declared)
    restart()
    assert.same({ ttl = '1h', rate = '5/s' }, options())
    assert.same({ rate = '5/s' }, list('q').declared)
    activate(nil)
    wait.poll(function() return not options().ttl end)
    assert.same({ rate = '5/s' }, options())
    c:ok 'DECLARE queue q rate=5/s'
  end)

  it('change queues that are in use', function()
    c:ok 'DECLARE queue q retry=none'
    traffic.publish(c, 'q', 30)
    activate(policy [[
      what.options['max-length'], what.options.overflow, what.options.retry = '10', 'drop-head', 'fixed'
    ]])
    wait.poll(function() return c:stats('q').ready == 10 end)
    assert.same({ ['max-length'] = '10', overflow = 'drop-head', retry = 'fixed' }, options())
    c:ok('NACK ' .. c:get('q')[1].tag)
    assert.equal(0, c:stats('q').buried)
    activate(policy "what.options['max-length'] = '20' what.options.overflow = 'drop-head'")
    wait.poll(function() return options()['max-length'] == '20' end)
    assert.same({ ['max-length'] = '20', overflow = 'drop-head', retry = 'none' }, options())
    broker:expect_log "queue 'q' of vhost '[^']+' has other options:.* max%-length=20.* %(with declare/20%-test.lua%)"
  end)

  it('tell subscriptions of another lease', function()
    c:ok 'DECLARE queue q'
    local other = broker:connect()
    other:ok 'SUB q s'
    activate(policy "what.options['ack-timeout'] = '5m'")
    other:expect_line 'EVT updated s ack-timeout=5m'
    activate(nil)
    other:expect_line 'EVT updated s ack-timeout=1m'
    other:close()
  end)

  it('change topics, too', function()
    c:ok 'DECLARE topic t partitions=1'
    for i = 1, 30 do c:ok('PUB - t', tostring(i)) end
    activate(policy "if what.kind == 'topic' then what.options['retention-count'] = 10 end")
    wait.poll(function() return list('t', 'topics').messages == 10 end)
    assert.equal('declare/20-test.lua', list('t', 'topics').policy)
  end)

  it('may refuse an exchange', function()
    activate(policy("if what.type == 'fanout' then return false, 'no fanouts' end", "{ exchange = 'eu.#' }"))
    c:expect_answer('DECLARE exchange eu.a fanout', 'ERR rejected no fanouts (declare/20-test.lua)')
    c:ok 'DECLARE exchange us.a fanout'
    c:ok 'DECLARE exchange eu.a topic'
    activate(policy("return false, 'as it is'", "{ exchange = '#' }"))
    c:ok 'DECLARE exchange eu.a topic'
    c:expect_answer('DECLARE exchange eu.a topic internal update', 'ERR rejected as it is (declare/20-test.lua)')
  end)

  it('set and bound what an exchange does', function()
    activate(policy([[
      what.options.alternate = what.options.alternate or 'lost'
      what.options['auto-delete'] = nil
      assert(what.kind == 'exchange' and what.type == 'topic')
    ]], "{ exchange = 'eu.#' }"))
    c:ok 'DECLARE exchange lost fanout'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q lost -'
    c:ok 'DECLARE exchange eu.a topic auto-delete=1'
    local x = list('eu.a', 'exchanges')
    assert.same({ alternate = 'lost' }, x.options)
    assert.same({ ['auto-delete'] = '1' }, x.declared)
    assert.is_false(x.auto_delete)
    assert.equal('declare/20-test.lua', x.policy)
    assert.matches(' 1$', c:ok('PUB eu.a k', 'm'))
    -- A client that says what it said before is content.
    c:ok 'DECLARE exchange eu.a topic auto-delete=1'
    assert.matches('it has auto%-delete=1, not auto%-delete=0', c:request 'DECLARE exchange eu.a topic')
    c:ok 'DECLARE exchange eu.b topic alternate=other'
    assert.is_nil(list('eu.b', 'exchanges').policy)
    c:ok 'DECLARE exchange eu.a topic internal auto-delete= update'
    assert.same({ alternate = 'lost', internal = '1' }, list('eu.a', 'exchanges').options)
    assert.same({ internal = '1' }, list('eu.a', 'exchanges').declared)
  end)

  it('change exchanges that are in use', function()
    c:ok 'DECLARE exchange x topic internal'
    c:ok 'DECLARE exchange lost fanout'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q lost -'
    assert.matches('^ERR denied ', c:request('PUB x a', 'm'))
    activate(policy("what.options.internal, what.options.alternate = nil, 'lost'", "{ exchange = 'x' }"))
    wait.poll(function() return list('x', 'exchanges').policy end)
    assert.matches(' 1$', c:ok('PUB x a', 'm'))
    assert.equal('1', list('x', 'exchanges').declared.internal)
    broker:expect_log "exchange 'x' of vhost '[^']+' has other options: .* %(with declare/20%-test.lua%)"
    broker:kill9_all()
    broker:run()
    c:close()
    c = broker:connect()
    assert.matches(' 1$', c:ok('PUB x a', 'm'))
    activate(nil)
    wait.poll(function() return not list('x', 'exchanges').policy end)
    assert.matches('^ERR denied ', c:request('PUB x a', 'm'))
  end)

  it('cannot set what an exchange is made of', function()
    c:ok 'DECLARE exchange x topic'
    for _, body in ipairs { "what.options.durable = '0'", 'what.options.by = 1' } do
      activate(policy(body, "{ exchange = '#' }"))
      c:expect_answer('DECLARE exchange y topic', "ERR rule declare/20-test.lua: exchange 'y': a policy sets " ..
        'auto-delete, internal and alternate; it can only refuse durable and the options of a type, because ' ..
        'bindings are kept and indexed by them')
      assert.is_nil(list('y', 'exchanges'))
    end
    broker:expect_log "exchange 'x' of vhost '[^']+' keeps its options, whatever its policies say: "
    activate(policy("what.options.internal = 'soon'", "{ exchange = '#' }"))
    assert.matches("^ERR rule declare/20%-test.lua: exchange 'y': internal=soon: expected 0 or 1",
      c:request 'DECLARE exchange y topic')
  end)

  it('are found by name, vhost and exception', function()
    activate(policy("what.options.ttl = '1h'",
      ("{ queue = 'jobs.#', vhost = '%s', except = { queue = 'jobs.slow.*' } }"):format(broker.vhost)))
    c:ok 'DECLARE queue jobs.a'
    c:ok 'DECLARE queue jobs.slow.a'
    c:ok 'DECLARE queue other'
    assert.same({ ttl = '1h' }, options 'jobs.a')
    assert.same({}, options 'jobs.slow.a')
    assert.same({}, options 'other')
  end)

  it('run one after the other', function()
    broker:write_rule('declare/30-later.lua', policy "what.options.ttl = what.options.ttl .. 'h'")
    activate(policy "what.options.ttl = '2'")
    c:ok 'DECLARE queue q'
    broker:remove_rule 'declare/30-later.lua'
    assert.same({ ttl = '2h' }, options())
    assert.equal('declare/20-test.lua, declare/30-later.lua', list('q').policy)
  end)

  it('that fail refuse a DECLARE and leave what there is', function()
    activate(policy "what.options.ttl = '1h'")
    c:ok 'DECLARE queue q'
    for body, answer in pairs {
      ["error 'no'"] = 'ERR rule declare/20%-test.lua:2: no',
      ['while true do end'] = 'ERR rule declare/20%-test.lua:%d: .*',
      ["what.options.ttl = 'soon'"] = "ERR rule declare/20%-test.lua: queue 'r': ttl=soon: expected a duration",
      ["what.options.ttl = {}"] = "ERR rule declare/20%-test.lua:%d: the option 'ttl' must be a text, a number or",
      ["what.options.durable = '0'"] =
        "ERR rule declare/20%-test.lua: queue 'r': it keeps durable=1, because messages do not move " ..
        'between memory and Redis; a policy can only refuse that$',
      ["what.options.shards = 4"] = "ERR rule declare/20%-test.lua: queue 'r': it keeps its shards and its " ..
        'sharding, because messages are found by them; a policy can only refuse that$',
      ["what.options['sharding.by'] = 'h'"] = 'ERR rule .* it keeps its shards and its sharding',
      ["what.options['retry.no'] = '1'"] = "ERR rule declare/20%-test.lua: retry=immediate: .* has no option 'no'",
      ["what.name = 'x'"] = 'ERR rule declare/20%-test.lua:2: ',
      ["return true, 'why'"] = 'ERR rule declare/20%-test.lua:%d: declare returned a second value, a string',
    } do
      activate(policy(body))
      assert.matches('^' .. answer, c:request 'DECLARE queue r')
      assert.is_nil(list 'r')
      assert.same({ ttl = '1h' }, options())
    end
    broker:expect_log "queue 'q' of vhost '[^']+' keeps its options, whatever its policies say: "
  end)

  it('that cannot be carried out now wait', function()
    c:ok 'DECLARE queue q'
    c:ok 'SUB q s'
    activate(policy "what.options['single-active'] = true")
    c:ok 'DECLARE queue other'
    assert.same({ ['single-active'] = '1' }, options 'other')
    assert.same({}, options())
    c:ok 'UNSUB s'
    c:ok 'DECLARE queue q update'
    assert.same({ ['single-active'] = '1' }, options())
  end)

  it('are asked again about an update that Redis has not answered', function()
    c:ok 'DECLARE queue q'
    local pid = broker:redis_pid()
    local other = broker:connect()
    broker:write_rule('declare/20-test.lua', policy "what.options.ttl = '1h'")
    os.execute('kill -STOP ' .. pid)
    c:send 'DECLARE queue q rate=5/s update\r\n'
    other:send 'RULES reload\r\n'
    os.execute('kill -CONT ' .. pid)
    c:expect_line 'OK'
    other:expect_data()
    other:close()
    wait.poll(function() return options().ttl end)
    assert.same({ ttl = '1h', rate = '5/s' }, options())
  end)

  it('know who declares, and that nobody does', function()
    activate(policy "what.options['delivery-limit'] = what.user and 5 or 6")
    c:ok 'DECLARE queue q'
    assert.same({ ['delivery-limit'] = '6' }, options()) -- nobody has to log in
  end)

  it('apply after kill -9 with the options that the client gave', function()
    activate(policy "what.options.ttl = '1h'")
    c:ok 'DECLARE queue q rate=5/s'
    traffic.publish(c, 'q', 20)
    broker:kill9_all()
    broker:run()
    c:close()
    c = broker:connect()
    assert.same({ ttl = '1h', rate = '5/s' }, options())
    assert.equal(20, c:stats('q').ready)
  end)

  it('may change with a rollback', function()
    activate(policy "what.options.ttl = '1h'")
    c:ok 'DECLARE queue q'
    activate(policy "what.options.ttl = '2h'")
    wait.poll(function() return options().ttl == '2h' end)
    c:document 'RULES rollback'
    wait.poll(function() return options().ttl == '1h' end)
    assert.same({ ttl = '1h' }, options())
  end)

  it('tidemq rules simulate declare prints a table, and fails as DECLARE would', function()
    activate(policy [[
      if what.name == 'bad' then return false, 'no bad names' end
      what.options.ttl = '1h'
      what.options['max-length'] = nil
    ]])
    local function simulate(...)
      return broker:cli('rules', 'simulate', 'declare', 'vhost=' .. broker.vhost, 'kind=queue', ...)
    end
    local text, status = simulate('name=jobs', 'ttl=2h', 'max-length=7')
    assert.equal(0, status)
    assert.matches('\npolicies\n  SCRIPT +DECIDED +SETS\n'
      .. '  declare/20%-test.lua +declare/20%-test.lua:%d+ +max%-length=%(default%) %(was 7%), ttl=1h %(was 2h%)', text)
    text, status = simulate 'name=bad'
    assert.equal(1, status)
    assert.matches(' refuses: no bad names\n', text)
    assert.matches('tidemq: rejected: no bad names %(declare/20%-test.lua%)\n', text)
    text, status = simulate('name=q', 'ttl=3x')
    assert.equal(1, status)
    assert.matches('tidemq: ttl=3x: expected a duration', text)
    text, status = simulate('name=bad', '--json')
    assert.equal(1, status)
    assert.matches('"rejected":"no bad names %(declare/20%-test.lua%)"', text)
    assert.matches("^tidemq: not%-found: there is no vhost 'none', only '/', .*; DECLARE vhost none makes it\n$",
      (broker:cli('rules', 'simulate', 'declare', 'kind=queue', 'name=q', 'vhost=none')))
  end)

  it('are named in tidemq list', function()
    c:ok 'DECLARE queue q'
    assert.is_nil(broker:cli('list', 'queues'):find('POLICY', 1, true))
    activate(policy "what.options.ttl = '1h'")
    assert(wait.poll(function() return options().ttl == '1h' end))
    assert.matches('^NAME [^\n]* POLICY\nq [^\n]* ttl=1h +declare/20%-test.lua\n', (broker:cli('list', 'queues')))
  end)

  it('RULES simulate declare says what policies make of a declaration, and which line; it declares nothing', function()
    activate(policy [[
      if what.name:find 'bad' then
        return false, 'no bad names, ' .. (what.user or 'nobody')
      end
      if what.options.ttl == '13' then error 'unlucky' end
      what.options.ttl = what.options.ttl or '1h'
      what.options['max-length'] = nil
    ]])
    local function calls()
      for _, script in ipairs(c:document('RULES status').scripts) do
        if script.file == 'declare/20-test.lua' then return script.calls end
      end
    end
    local before = calls()
    local d = c:document 'RULES simulate declare kind=queue name=jobs max-length=7'
    assert.same({ kind = 'queue', name = 'jobs', vhost = broker.vhost, exists = false,
      declared = { ['max-length'] = '7' }, options = { ttl = '1h' },
      policies = { { script = 'declare/20-test.lua', line = 7, lines = d.policies[1].lines,
        changes = { { option = 'max-length', from = '7' },
          { option = 'ttl', to = '1h' } } } } }, d)
    assert.is_nil(list 'jobs')

    d = c:document 'RULES simulate declare kind=topic name=bad user=eve'
    assert.equal('no bad names, eve (declare/20-test.lua)', d.rejected)
    assert.equal(3, d.policies[1].line)
    assert.equal('no bad names, eve', d.policies[1].rejected)
    assert.is_nil(d.options)
    assert.matches('^declare/20%-test.lua:5: .*unlucky',
      c:document('RULES simulate declare kind=queue name=q ttl=13').error)

    c:ok 'DECLARE queue mine max-length=9 ttl=2d'
    d = c:document 'RULES simulate declare kind=queue name=mine max-length=10'
    assert.is_true(d.exists)
    assert.same({ ['max-length'] = '10', ttl = '2d' }, d.declared)
    assert.same({ ttl = '2d' }, d.options)

    d = c:document 'RULES simulate declare kind=exchange name=bad type=topic'
    assert.equal('no bad names, nobody (declare/20-test.lua)', d.rejected)
    assert.matches("^retry=expontial: there is no retry script 'expontial'; there are: ",
      c:document('RULES simulate declare kind=queue name=q retry=expontial').error)
    assert.matches("^retry=fixed: retry/fixed has no option 'dealy'; it has delay max$",
      c:document('RULES simulate declare kind=queue name=q retry=fixed retry.dealy=1s').error)
    assert.matches("no option 'tttl'", c:document('RULES simulate declare kind=queue name=q tttl=1h').error)
    assert.equal(before + 1, calls(), 'of DECLARE alone')
    c:expect_answer('RULES simulate declare kind=queue',
      'ERR syntax name= is missing: expected a name')
    c:expect_answer('RULES simulate declare name=q', 'ERR syntax kind= is missing: expected exchange, queue or topic')
    for _, wrong in ipairs { 'kind=exchange', 'kind=queue type=topic' } do
      c:expect_answer('RULES simulate declare name=q ' .. wrong,
        'ERR syntax an exchange needs a type, and nothing else has one')
    end
    assert.matches("^ERR not%-found there is no vhost 'none', only '/', .*; DECLARE vhost none makes it$",
      c:request 'RULES simulate declare kind=queue name=q vhost=none')
    activate(policy("what.options.alternate = 'lost' what.options.durable = what.options.internal"))
    d = c:document 'RULES simulate declare kind=exchange name=x type=topic auto-delete=1'
    assert.same({ ['auto-delete'] = '1' }, d.declared)
    assert.same({ ['auto-delete'] = '1', alternate = 'lost' }, d.options)
    assert.same({ 'alternate' }, { d.policies[1].changes[1].option })
    d = c:document 'RULES simulate declare kind=exchange name=x type=topic internal=1 durable=0'
    assert.matches('a policy sets auto%-delete, internal and alternate; it can only refuse', d.error)
  end)
end)
