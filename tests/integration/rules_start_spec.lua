-- The start with rules that do not carry what Redis has defined: the last good
-- generation serves, and where there is none, nothing is lost.
local Broker = require 'support.broker'
local json = require 'dkjson'
local wait = require 'support.wait'

local PRIORITY = 'return { rank = function() return 1 end }\n'
local ROUTING = [[
return {
  new = function() return {} end,
  bind = function(index, pattern, dest)
    if pattern == %q then error 'not this one' end
    index[dest] = true
  end,
  unbind = function(index, _, dest) index[dest] = nil end,
  route = function(index, _, to) for dest in pairs(index) do to(dest) end end,
}
]]

local function retry(option)
  return ('return { options = { %s = { type = "integer", default = 1 } }, decide = function() return 1 end }\n')
    :format(option)
end

local function start(options)
  options = options or {}
  options.rules = { ['priority/p.lua'] = PRIORITY, ['retry/o.lua'] = retry 'a', ['routing/r.lua'] = ROUTING:format '' }
  options.args = { '--fsync', 'no' }
  return Broker.start(options)
end

local function find(list, key, name)
  for _, item in ipairs(list) do
    if item[key] == name then return item end
  end
end

local function refused(c, line, payload, pattern)
  local answer = c:request(line, payload)
  assert.is_truthy(answer:find(pattern), line .. ' -> ' .. answer)
end

--- Redis no longer has the rules that were active last, as after an upgrade.
local function forget_last_good(broker)
  broker:redis_cli('DEL', '{tide}:rules:last')
end

local function get(c, queue)
  c:send('GET ' .. queue .. '\r\n')
  c:expect '^OK 1$'
  return c:expect_msg().payload
end

describe('at a start, what the directory does not carry', function()
  local broker, c
  before_each(function()
    broker = start()
    c = broker:connect()
    c:ok 'DECLARE queue q priority=p'
    c:ok 'DECLARE queue o retry=o retry.a=5'
    c:ok 'DECLARE queue plain'
    c:ok 'DECLARE exchange x r'
    c:ok 'BIND plain x all'
    c:ok('PUB - q', 'one')
    c:ok('PUB - o', 'two')
  end)
  after_each(function() broker:destroy() end)

  --- Served with the last good generation, which says why.
  local function expect_last_good(reason)
    c = broker:connect()
    local status = c:document 'RULES status'
    assert.equal('last good', status.origin)
    assert.equal(reason, status.refusal.error:sub(1, #reason))
    assert.same({}, status.unusable)
    broker:expect_log('is broken: ' .. reason:gsub('%p', '%%%0'))
    broker:expect_log 'serving with the last good generation'
    broker:expect_log 'recovered 1 exchange, 3 queues, 1 binding\n'
    assert.is_nil(broker:log():find 'cannot be used')
    local log = c:document 'RULES log'
    assert.equal('last good', log[1].origin)
    assert.equal('refused', log[2].result)
    assert.equal('start', log[2].origin)
    return status
  end

  local function expect_directory()
    assert.is_truthy(wait.poll(function()
      local status = c:document 'RULES status'
      return status.origin == 'files' and not status.refusal
    end))
  end

  it('is carried by the last good rules when the script of a queue is gone', function()
    broker:expect_clean_stop()
    broker:remove_rule 'priority/p.lua'
    broker:run()
    expect_last_good "queue 'q' of vhost '/' uses priority/p.lua, which is missing"
    assert.equal('1', c:ok('PUB - q', 'lost?'):match '%d+$')
    c:send 'RULES reload\r\n'
    c:expect "^ERR rule priority/p.lua: is missing, but queue 'q' uses it"
    broker:write_rule('priority/p.lua', PRIORITY .. '-- back\n')
    expect_directory()
    assert.equal('one', get(c, 'q'))
    assert.equal('lost?', get(c, 'q'))
  end)

  it('has the options that the policies of the last good rules give it', function()
    local policy = "return { match = { queue = '%s' }, declare = function(what) what.options['%s'] = '%s' end }"
    local function options(name) return find(c:document 'LIST queues', 'name', name).options end
    broker:write_rule('declare/10-p.lua', policy:format('#', 'max-length', '70'))
    c:document 'RULES reload'
    wait.poll(function() return options 'plain'['max-length'] == '70' end)
    broker:expect_clean_stop()
    broker:write_rule('declare/10-p.lua', policy:format('#', 'ttl', '1h'))
    broker:remove_rule 'priority/p.lua'
    broker:run()
    expect_last_good "queue 'q' of vhost '/' uses priority/p.lua, which is missing"
    for name, own in pairs { plain = {}, q = { priority = 'p' }, o = { retry = 'o', ['retry.a'] = '5' } } do
      own['max-length'] = '70'
      assert.same(own, options(name))
    end
    broker:write_rule('priority/p.lua', PRIORITY .. '-- back\n')
    expect_directory()
    wait.poll(function() return options 'plain'.ttl == '1h' end)
    assert.same({ ttl = '1h' }, options 'plain')
  end)

  it('has its own options when the last good rules have no policies, or carry no more', function()
    local policy = "return { match = { queue = '#' }, declare = function(what) what.options.ttl = '1h' end }"
    local function options(name) return find(c:document 'LIST queues', 'name', name).options end
    broker:expect_clean_stop()
    broker:write_rule('declare/10-p.lua', policy)
    broker:remove_rule 'priority/p.lua'
    broker:run()
    expect_last_good "queue 'q' of vhost '/' uses priority/p.lua, which is missing"
    assert.same({}, options 'plain')
    assert.equal('1', c:ok('PUB - q', 'x'):match '%d+$')
    broker:redis_cli('HSET', '{tide}:/:queues', 'q', 'priority=unheard-of')
    broker:expect_clean_stop()
    broker:run()
    c = broker:connect()
    assert.equal('start', c:document('RULES status').origin)
    assert.same({ ttl = '1h' }, options 'plain')
  end)

  it('is so after kill -9 of everything, too', function()
    c:ok('PUB - q', 'three')
    broker:kill9_all()
    broker:remove_rule 'priority/p.lua'
    broker:run()
    expect_last_good "queue 'q' of vhost '/' uses priority/p.lua, which is missing"
    broker:kill9()
    broker:run()
    c = broker:connect()
    assert.equal('last good', c:document('RULES status').origin)
    assert.equal(2, c:document('STATS q').ready)
  end)

  it('is so when a script does not take the options any more', function()
    broker:expect_clean_stop()
    broker:write_rule('retry/o.lua', retry 'b')
    broker:run()
    expect_last_good "queue 'o' of vhost '/' uses retry/o.lua, which refuses its options: "
    assert.equal('1', c:ok('PUB - o', 'x'):match '%d+$')
    broker:write_rule('retry/o.lua', retry 'a' .. '-- again\n')
    expect_directory()
  end)

  it('is so when a routing script refuses a binding', function()
    broker:expect_clean_stop()
    broker:write_rule('routing/r.lua', ROUTING:format 'all')
    broker:run()
    expect_last_good "exchange 'x' of vhost '/' has a binding that routing/r.lua refuses, 'queue plain x all': "
    assert.equal('1', c:ok('PUB x k', 'x'):match '%d+$')
    broker:write_rule('routing/r.lua', ROUTING:format 'other')
    expect_directory()
    assert.equal('1', c:ok('PUB x k', 'x'):match '%d+$')
  end)

  it('is counted, and named with its vhost', function()
    local v = broker:connect()
    v:enter_vhost 'shop'
    v:ok 'DECLARE queue later priority=p'
    c:ok 'DELETE queue q'
    broker:remove_rule 'priority/p.lua'
    c:send 'RULES reload\r\n'
    c:expect "^ERR rule priority/p.lua: is missing, but queue 'later' of vhost 'shop' uses it"
    broker:expect_clean_stop()
    broker:remove_rule 'routing/r.lua'
    broker:run()
    c = broker:connect()
    local text = c:document('RULES status').refusal.error
    assert.is_truthy(text:find "'later' of vhost 'shop'" or text:find "'x' of vhost '/'", text)
    assert.is_truthy(text:find '; 1 more cannot be used$', text)
  end)

  it('is told of by check, against the directory', function()
    broker:expect_clean_stop()
    broker:remove_rule 'priority/p.lua'
    broker:run()
    local output, status = broker:cli('check', broker.rules)
    assert.equal(1, status, output)
    assert.is_truthy(output:find("queue 'q': priority=p: there is no priority script 'p'", 1, true), output)
  end)

  it('is no reason to go back when the last good rules carry no more of it', function()
    broker:redis_cli('HSET', '{tide}:/:queues', 'newer', 'priority=unheard-of')
    broker:expect_clean_stop()
    broker:write_rule('filter/10-new.lua', 'return { publish = function() end }\n')
    broker:run()
    c = broker:connect()
    local status = c:document 'RULES status'
    assert.equal('start', status.origin)
    assert.equal(json.null, status.refusal or json.null)
    assert.equal('newer', status.unusable[1].name)
    refused(c, 'PUB - newer', 'x', '^ERR rule ')
    assert.equal('1', c:ok('PUB - q', 'x'):match '%d+$')
    assert.equal('1', c:ok('PUB x k', 'x'):match '%d+$')
  end)
end)

describe('without last good rules, what cannot be used', function()
  local broker, c
  local GONE = "^ERR rule queue 'q' cannot be used: it uses priority/p.lua, which is missing$"
  before_each(function()
    broker = start()
    c = broker:connect()
    c:ok 'DECLARE queue q priority=p'
    c:ok 'DECLARE queue plain dead-letter=-/q'
    c:ok 'DECLARE exchange f fanout'
    c:ok 'BIND plain f a'
    c:ok 'BIND q f b'
    c:ok 'DECLARE exchange x r'
    c:ok 'BIND plain x all'
    c:ok('PUB - q', 'one')
    c:ok('PUB - q delay=100ms', 'two')
    forget_last_good(broker)
  end)
  after_each(function() broker:destroy() end)

  local function restart_without(...)
    broker:expect_clean_stop()
    for _, path in ipairs { ... } do broker:remove_rule(path) end
    broker:run()
    c = broker:connect()
  end

  it('is refused with the reason, in every request, and nothing is dropped', function()
    restart_without 'priority/p.lua'
    broker:expect_log 'recovered 2 exchanges, 1 queue, 2 bindings\n'
    broker:expect_log 'cannot be used: 0 exchanges, 1 queue, 1 binding;'
    broker:expect_log "queue 'q' of vhost '/' cannot be used and stays in Redis: it uses priority/p.lua"
    for _, line in ipairs {
      'SUB q s', 'GET q', 'PEEK q', 'STATS q', 'BIND q f c', 'PURGE q', 'KICK q', 'DELETE queue q if-empty',
      'DECLARE queue q priority=p',
    } do
      refused(c, line, nil, GONE)
    end
    for _, line in ipairs { 'EXPLAIN - q', 'EXPLAIN f k' } do
      assert.is_truthy(('ERR rule ' .. c:document(line).error):find(GONE), line)
    end
    refused(c, 'PUB - q', 'x', GONE)
    refused(c, 'PUB f k', 'x', GONE)
    refused(c, 'DECLARE queue q', nil, "^ERR mismatch queue 'q' exists with other options: it has priority=p")
    assert.equal(0, c:document('STATS plain').ready)
    assert.equal('1', c:ok('PUB - plain', 'x'):match '%d+$')
    assert.equal('priority=p', broker:redis_cli('HGET', '{tide}:/:queues', 'q'):match 'priority=p')
  end)

  it('is shown by LIST, RULES status and check', function()
    restart_without 'priority/p.lua'
    local q = find(c:document 'LIST queues', 'name', 'q')
    assert.equal('uses priority/p.lua, which is missing', q.unusable)
    assert.is_nil(q.ready)
    assert.equal('p', q.options.priority)
    assert.is_nil(find(c:document 'LIST queues', 'name', 'plain').unusable)
    local b = find(c:document 'LIST bindings', 'destination', 'q')
    assert.equal("queue 'q' cannot be used: it uses priority/p.lua, which is missing", b.unusable)
    local status = c:document 'RULES status'
    assert.same({ { kind = 'queue', vhost = '/', name = 'q', reason = q.unusable } }, status.unusable)
    assert.equal(1, c:document('STATS').unusable)
    local output = broker:cli('list', 'queues')
    assert.is_truthy(output:find('uses priority/p.lua, which is missing', 1, true), output)
    local text, code = broker:cli('check', broker.rules)
    assert.equal(1, code, text)
    assert.is_truthy(text:find("queue 'q': priority=p: there is no priority script 'p'", 1, true), text)
  end)

  local function is_usable(queue)
    local len = c:request('STATS ' .. queue):match '^DATA (%d+)$'
    return len and c:expect_payload(len) and true
  end

  local function expect_revived()
    assert.is_truthy(wait.poll(function() return is_usable 'q' end))
    broker:expect_log "queue 'q' of vhost '/' can be used again"
    assert.same({}, c:document('RULES status').unusable)
    assert.is_truthy(wait.poll(function() return c:document('STATS q').ready == 2 end))
    assert.equal('one', get(c, 'q'))
    assert.equal('two', get(c, 'q'))
    assert.equal('2', c:ok('PUB f k', 'x'):match '%d+$')
    c:ok 'DECLARE queue q priority=p'
  end

  it('can be used, with its messages, when a reload brings the script back', function()
    restart_without 'priority/p.lua'
    c:document 'RULES reload'
    refused(c, 'GET q', nil, GONE)
    broker:write_rule('priority/p.lua', PRIORITY)
    c:document 'RULES reload'
    expect_revived()
  end)

  it('can be used when the script is put back, without a reload', function()
    restart_without 'priority/p.lua'
    broker:write_rule('priority/p.lua', PRIORITY)
    expect_revived()
  end)

  it('can be deleted while its messages are being read', function()
    local lines = {}
    for n = 1, 3000 do lines[n] = ('PUB - q 4\r\n%04d\r\n'):format(n) end
    c:send(table.concat(lines) .. 'PING\r\n')
    c:drain_until '^OK$'
    restart_without 'priority/p.lua'
    broker:write_rule('priority/p.lua', PRIORITY)
    c:document 'RULES reload'
    c:ok 'DELETE queue q'
    c:ok 'DECLARE queue q'
    c:send 'GET q\r\n'
    c:expect '^OK 0$'
    assert.equal('1', c:ok('PUB f k', 'x'):match '%d+$')
    assert.equal('', broker:redis_cli('KEYS', 'tide:{//q#*'))
  end)

  it('loses nothing by kill -9, or by a start with the script', function()
    restart_without 'priority/p.lua'
    refused(c, 'PUB - q', 'x', GONE)
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    refused(c, 'PUB - q', 'x', GONE)
    broker:kill9()
    broker:write_rule('priority/p.lua', PRIORITY)
    broker:run()
    c = broker:connect()
    assert.is_truthy(wait.poll(function() return c:document('STATS q').ready == 2 end))
    assert.equal('one', get(c, 'q'))
    assert.equal('two', get(c, 'q'))
  end)

  it('returns what consumers held when it was killed', function()
    c:send 'SUB q s prefetch=10\r\n'
    c:expect '^OK'
    c:expect_msg()
    c:expect_msg()
    broker:kill9_all()
    broker:remove_rule 'priority/p.lua'
    broker:run()
    c = broker:connect()
    refused(c, 'SUB q s', nil, GONE)
    broker:write_rule('priority/p.lua', PRIORITY)
    expect_revived()
  end)

  it('is removed from Redis, with its messages, by DELETE', function()
    restart_without 'priority/p.lua'
    assert.is_truthy(broker:redis_cli('KEYS', 'tide:{//q#*'):find 'msg')
    c:ok 'DELETE queue q'
    assert.equal('', broker:redis_cli('KEYS', 'tide:{//q#*'))
    assert.equal('', broker:redis_cli('HGET', '{tide}:/:queues', 'q'))
    assert.is_nil(broker:redis_cli('SMEMBERS', '{tide}:/:bindings'):find 'queue q f')
    assert.same({}, c:document('RULES status').unusable)
    assert.equal('1', c:ok('PUB f k', 'x'):match '%d+$')
    c:ok 'DECLARE queue q'
    c:send 'GET q\r\n'
    c:expect '^OK 0$'
  end)

  it('is a dead-letter target that takes nothing: the message is buried', function()
    restart_without 'priority/p.lua'
    c:ok('PUB - plain', 'dead')
    c:send 'GET plain\r\n'
    c:expect '^OK 1$'
    c:ok('NACK ' .. c:expect_msg().tag .. ' dead')
    assert.is_truthy(wait.poll(function() return c:document('STATS plain').buried == 1 end))
    broker:expect_log 'it uses priority/p.lua, which is missing; the message is buried instead'
  end)

  it('is a queue whose options its script does not take', function()
    c:ok 'DECLARE queue o retry=o retry.a=5'
    broker:expect_clean_stop()
    broker:write_rule('retry/o.lua', retry 'b')
    broker:run()
    c = broker:connect()
    refused(c, 'PUB - o', 'x', "^ERR rule queue 'o' cannot be used: it uses retry/o.lua, which refuses its options: ")
    broker:write_rule('retry/o.lua', retry 'a' .. '\n')
    assert.is_truthy(wait.poll(function() return is_usable 'o' end))
  end)

  it('is a queue that DECLARE with update gives other options, and keeps its messages', function()
    restart_without 'priority/p.lua'
    local none = '^ERR not%-found priority=p: there is no priority script'
    refused(c, 'DECLARE queue q update', nil, none)
    refused(c, 'DECLARE queue q ttl=1h update', nil, none)
    refused(c, 'DECLARE queue q priority=fifo retry=none.such update', nil, '^ERR not%-found retry=none.such: ')
    refused(c, 'DECLARE queue q priority=fifo durable=0 update', nil, '^ERR mismatch .* it keeps durable=1, because ')
    refused(c, 'GET q', nil, GONE)
    c:ok 'DECLARE queue q priority= shards=4 max-bytes=1000 update'
    broker:expect_log "queue 'q' of vhost '/' can be used again"
    assert.same({}, c:document('RULES status').unusable)
    local q = c:stats 'q'
    assert.same({ 2, 6 }, { q.ready + q.delayed, q.waiting_bytes })
    assert.same({ shards = '4', ['max-bytes'] = '1000' }, find(c:document 'LIST queues', 'name', 'q').options)
    for n = 1, 20 do c:ok('PUB - q', tostring(n)) end
    broker:kill9_all()
    broker:run()
    c = broker:connect()
    wait.poll(function() return c:stats('q').ready == 22 end)
    local seen = {}
    for _ = 1, 22 do seen[get(c, 'q')] = true end
    for n = 1, 20 do assert.is_true(seen[tostring(n)]) end
    assert.is_true(seen.one and seen.two)
  end)

  it('has the old options or the new ones after kill -9 during an update', function()
    restart_without 'priority/p.lua'
    local other = broker:connect()
    other:send 'DECLARE queue q priority=fifo update\r\n'
    broker:kill9_all()
    other:close()
    broker:run()
    c = broker:connect()
    c:ok 'DECLARE queue q priority=fifo update'
    wait.poll(function() return c:stats('q').ready == 2 end)
    assert.equal('one', get(c, 'q'))
    assert.equal('two', get(c, 'q'))
  end)

  it('is a queue whose script takes other options', function()
    c:ok 'DECLARE queue o retry=o retry.a=5'
    c:ok('PUB - o', 'x')
    broker:expect_clean_stop()
    broker:write_rule('retry/o.lua', retry 'b')
    broker:run()
    c = broker:connect()
    refused(c, 'DECLARE queue o retry.b=1 update', nil, "^ERR mismatch retry=o: .* has no option 'a'")
    c:ok 'DECLARE queue o retry.a= retry.b=1 update'
    assert.equal('x', get(c, 'o'))
    c:ok 'DECLARE queue o retry=o retry.b=1'
  end)

  it('is an exchange whose script takes other options', function()
    local function routing(option)
      return (ROUTING:format ''):gsub('return {', ('return { options = { %s = {} },'):format(option), 1)
    end
    broker:write_rule('routing/s.lua', (routing 'a'))
    c:document 'RULES reload'
    c:ok 'DECLARE exchange s s a=1 internal'
    c:ok 'BIND plain s all'
    forget_last_good(broker)
    broker:expect_clean_stop()
    broker:write_rule('routing/s.lua', (routing 'b'))
    broker:run()
    c = broker:connect()
    refused(c, 'DECLARE exchange s s b=2 update', nil, "^ERR mismatch exchange 's' cannot change so: it uses " ..
      "routing/s.lua, which refuses its options: .* has no option 'a'")
    c:ok 'DECLARE exchange s s a= b=2 internal= update'
    assert.equal('1', c:ok('PUB s k', 'x'):match '%d+$')
    broker:restart()
    c = broker:connect()
    assert.equal('1', c:ok('PUB s k', 'x'):match '%d+$')
    assert.same({ b = '2' }, find(c:document 'LIST exchanges', 'name', 's').options)
  end)

  it('is a queue whose policy sets what its script does not take, until the policy is mended', function()
    broker:expect_clean_stop()
    local policy = "return { match = { queue = 'q' }, declare = function(what) what.options['%s'] = '9/s' end }"
    broker:write_rule('declare/10-q.lua', policy:format 'retry.no')
    broker:run()
    c = broker:connect()
    refused(c, 'PUB - q', 'x', "^ERR rule queue 'q' cannot be used: it uses retry/immediate.lua, which refuses")
    refused(c, 'DECLARE queue q ttl=1h update', nil, '^ERR rule declare/10%-q.lua: retry=immediate: ')
    broker:write_rule('declare/10-q.lua', policy:format 'rate')
    c:document 'RULES reload'
    assert.is_truthy(wait.poll(function() return is_usable 'q' end))
    assert.equal('9/s', find(c:document 'LIST queues', 'name', 'q').options.rate)
    assert.equal('one', get(c, 'q'))
  end)

  it('is an exchange whose script is gone', function()
    c:ok 'DECLARE exchange outer fanout'
    c:ok 'BIND x outer a dest=exchange'
    restart_without 'routing/r.lua'
    local gone = "^ERR rule exchange 'x' cannot be used: it uses routing/r.lua, which is missing$"
    refused(c, 'PUB x k', 'x', gone)
    refused(c, 'PUB outer k', 'x', gone)
    refused(c, 'BIND plain x more', nil, gone)
    assert.is_truthy(('ERR rule ' .. c:document('EXPLAIN x k').error):find(gone))
    refused(c, 'DECLARE exchange x r', nil, gone)
    refused(c, 'DECLARE exchange x topic', nil, "^ERR mismatch exchange 'x' exists with type r")
    broker:expect_log 'cannot be used: 1 exchange, 0 queues, 2 bindings'
    local list = c:document 'LIST exchanges'
    assert.equal('uses routing/r.lua, which is missing', find(list, 'name', 'x').unusable)
    local b = find(c:document 'LIST bindings', 'exchange', 'outer')
    assert.equal("exchange 'x' cannot be used: it uses routing/r.lua, which is missing", b.unusable)
    broker:write_rule('routing/r.lua', ROUTING:format '')
    assert.is_truthy(wait.poll(function() return c:request('PUB x k', 'x'):find '^OK %x+ 1$' end))
    assert.equal('1', c:ok('PUB outer k', 'x'):match '%d+$')
  end)

  it('is the same to rules in the shadow, and to a schedule', function()
    restart_without 'priority/p.lua'
    c:document('RULES shadow ' .. broker.rules .. ' share=100%')
    refused(c, 'PUB - q', 'x', GONE)
    refused(c, 'PUB f k', 'x', GONE)
    local shadow = c:document 'RULES shadow status'
    assert.same({ 2, 0 }, { shadow.seen, shadow.differing }, json.encode(shadow))
    broker:write_rule('schedule/tick.lua', [[
return {
  every = "20ms",
  run = function(broker) broker.publish { key = "q", payload = "tick" } end,
}
]])
    broker:expect_log "schedule 'tick': queue 'q' cannot be used: it uses priority/p.lua, which is missing"
    broker:write_rule('priority/p.lua', PRIORITY)
    assert.is_truthy(wait.poll(function() return is_usable 'q' and c:document('STATS q').ready > 2 end))
    assert.equal('2', c:ok('PUB f k', 'x'):match '%d+$')
    -- What stands in the shadow is the directory as it was.
    shadow = c:document 'RULES shadow status'
    assert.is_truthy(shadow.differing > 0 and shadow.samples[1].shadow.error:find 'queue \'q\'', json.encode(shadow))
  end)

  it('is an exchange that DELETE removes', function()
    restart_without 'routing/r.lua'
    c:ok 'DELETE exchange x'
    assert.equal('', broker:redis_cli('HGET', '{tide}:/:exchanges', 'x'))
    assert.is_nil(broker:redis_cli('SMEMBERS', '{tide}:/:bindings'):find ' x all')
    refused(c, 'PUB x k', 'x', '^ERR not%-found')
    c:ok 'DECLARE exchange x topic'
  end)

  it('is an exchange with a binding that its script refuses, until that is unbound', function()
    c:ok 'DECLARE queue other'
    c:ok 'BIND other x fine'
    broker:expect_clean_stop()
    broker:write_rule('routing/r.lua', ROUTING:format 'all')
    broker:run()
    c = broker:connect()
    refused(c, 'PUB x k', 'x', "^ERR rule exchange 'x' cannot be used: it has a binding that routing/r.lua refuses, "
      .. "'queue plain x all': routing/r.lua:4: not this one")
    c:ok 'UNBIND plain x all'
    assert.equal('1', c:ok('PUB x k', 'x'):match '%d+$')
  end)

  it('is what Redis has in a form that this broker cannot read', function()
    broker:redis_cli('HSET', '{tide}:/:queues', 'newer', 'kind=tape shards=2')
    broker:redis_cli('HSET', '{tide}:/:exchanges', 'odd', 'durable=maybe')
    broker:redis_cli('SADD', '{tide}:/:bindings', 'queue plain f b =x')
    broker:redis_cli('HSET', 'tide:{//newer#1}:msg', 'id', 'body')
    restart_without()
    refused(c, 'PUB - newer', 'x', "^ERR rule queue 'newer' cannot be used: it has a definition that cannot be read: ")
    refused(c, 'DECLARE queue newer', nil, '^ERR rule ')
    refused(c, 'DECLARE queue newer shards=2 update', nil, "^ERR rule queue 'newer' cannot change: it has a definition "
      .. 'that cannot be read: .*; mend it in Redis while no broker runs, or DELETE it$')
    refused(c, 'DECLARE exchange odd topic update', nil, "^ERR rule exchange 'odd' cannot change: it has a definition ")
    refused(c, 'PUB odd k', 'x', "^ERR rule exchange 'odd' cannot be used: it has a definition that cannot be read: ")
    refused(c, 'PUB f k', 'x', "^ERR rule exchange 'f' cannot be used: it has a binding that cannot be read: "
      .. 'queue plain f b =x$')
    c:document 'RULES reload'
    refused(c, 'PUB - newer', 'x', '^ERR rule ')
    assert.equal('tape', find(c:document 'LIST queues', 'name', 'newer').options.kind)
    local output, code = broker:cli('check', broker.rules)
    assert.equal(1, code, output)
    assert.is_truthy(output:find("queue 'newer': a queue has no option 'kind'", 1, true), output)
    c:ok 'DELETE queue newer'
    c:ok 'DELETE exchange odd'
    c:ok 'DELETE exchange f'
    assert.equal('', broker:redis_cli('KEYS', 'tide:{//newer#*'))
    assert.is_nil(broker:redis_cli('SMEMBERS', '{tide}:/:bindings'):find ' f ')
    broker:restart()
    assert.same({}, broker:connect():document('RULES status').unusable)
  end)
end)
