-- Exchanges, queues and bindings: making, comparing, listing and removing them.
local Broker = require 'support.broker'
local wait = require 'support.wait'

describe('the definitions', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:connect() end)
  after_each(function() c:close() end)

  local function list(what)
    return c:document('LIST ' .. what)
  end

  local function find(what, name)
    for _, item in ipairs(list(what)) do
      if item.name == name then return item end
    end
  end

  describe('of a queue', function()
    it('may be declared again with the same arguments', function()
      for _ = 1, 2 do
        c:ok 'DECLARE queue d.same shards=4 sharding=round_robin ack-timeout=60s retry.max=3'
      end
      c:ok 'DECLARE queue d.same retry.max=3 ack-timeout=60000 sharding=round_robin shards=4'
      c:ok 'DELETE queue d.same'
    end)

    it('may be declared again with equal arguments in another spelling, or with defaults', function()
      c:ok 'DECLARE queue d.spelled retry=exponential retry.base=1s retry.jitter=0.5 delivery-limit=5 dead-letter=d'
      for _, words in ipairs {
        'retry.base=1000 retry.jitter=0.5',
        'retry.base=1000ms retry.jitter=.50',
        'retry.jitter=5e-1', -- 1s is the default
        'retry.jitter=0.5 retry.factor=2.0 retry.cap=600s retry.max=020',
        'retry.jitter=0.5 sharding.by=key dedupe=120s',
      } do
        c:ok('DECLARE queue d.spelled retry=exponential delivery-limit=05 dead-letter=d/ ' .. words)
      end
      c:expect_answer('DECLARE queue d.spelled retry=exponential retry.base=1001 retry.jitter=0.5 delivery-limit=5 '
        .. 'dead-letter=d', "ERR mismatch queue 'd.spelled' exists with other options: it has retry.base=1s, not "
        .. 'retry.base=1001; the option update changes that')
      c:ok 'DECLARE queue d.listed retry=schedule retry.delays=1s,10s'
      c:ok 'DECLARE queue d.listed retry=schedule retry.delays=1000,10000ms'
      for _, delays in ipairs { '1s', '1s,10s,1m', '1s,11s' } do
        c:expect_answer('DECLARE queue d.listed retry=schedule retry.delays=' .. delays,
          "ERR mismatch queue 'd.listed' exists with other options: it has retry.delays=1s,10s, not retry.delays="
          .. delays .. '; the option update changes that')
      end
      c:ok 'DELETE queue d.spelled'
      c:ok 'DELETE queue d.listed'
    end)

    it('with other arguments are refused, and the difference is named', function()
      c:ok 'DECLARE queue d.other shards=4 retry.max=3'
      c:expect_answer('DECLARE queue d.other shards=5 retry.max=3',
        "ERR mismatch queue 'd.other' exists with other options: it has shards=4, not shards=5; " ..
        "the option update changes that")
      c:expect_answer('DECLARE queue d.other shards=4',
        "ERR mismatch queue 'd.other' exists with other options: it has retry.max=3, not retry.max=20; " ..
        "the option update changes that")
      c:expect_answer('DECLARE queue d.other shards=4 retry.max=3 sharding.by=tenant',
        "ERR mismatch queue 'd.other' exists with other options: it has sharding.by=key, not sharding.by=tenant; " ..
        "the option update changes that")
      c:expect_answer('DECLARE queue d.other shards=4 retry.max=3 durable=0',
        "ERR mismatch queue 'd.other' exists with other options: it has durable=1, not durable=0")
      c:ok 'DELETE queue d.other'
    end)

    it('take options within their ranges alone', function()
      local function bad(option, text) c:expect_answer('DECLARE queue d.bad ' .. option, 'ERR ' .. text) end
      bad('shards=0', 'syntax shards=0: expected a number from 1 to 64')
      bad('shards=65', 'syntax shards=65: expected a number from 1 to 64')
      bad('shards=many', 'syntax shards=many: expected a number from 1 to 64')
      bad('durable=yes', 'syntax durable=yes: expected 0 or 1')
      bad('ack-timeout=9ms', 'syntax ack-timeout=9ms: expected a duration from 10ms to 1d')
      bad('ack-timeout=2d', 'syntax ack-timeout=2d: expected a duration from 10ms to 1d')
      bad('ack-timeout=soon', 'syntax ack-timeout=soon: expected a duration from 10ms to 1d')
      bad('delivery-limit=1000001', 'syntax delivery-limit=1000001: expected a number from 0 to 1000000')
      for _, target in ipairs { '-/', '/k' } do
        bad('dead-letter=' .. target, 'syntax dead-letter=' .. target .. ': expected <exchange>/<key>, with - for the '
          .. "default exchange, which needs a key (a queue's name); without a key the message keeps its own")
      end
      assert.match("^ERR syntax a queue has no option 'max%-speed'; it takes: durable exclusive .* dedupe .*and "
        .. 'sharding%.%* priority%.%* retry%.%* for the options of the scripts$',
        c:request 'DECLARE queue d.bad max-speed=3')
      assert.is_nil(find('queues', 'd.bad'))
    end)

    it('name scripts, and options that those know', function()
      c:expect_answer('DECLARE queue d.bad retry=never', 'ERR not-found retry=never: there is no retry script '
        .. "'never'; there are: exponential fixed immediate none schedule")
      c:expect_answer('DECLARE queue d.bad sharding=dice', 'ERR not-found sharding=dice: there is no sharding script '
        .. "'dice'; there are: consistent hash least_loaded random round_robin")
      c:expect_answer('DECLARE queue d.bad priority=loud', 'ERR not-found priority=loud: there is no priority script '
        .. "'loud'; there are: aging deadline due_time fair fifo strict")
      for _, option in ipairs { 'retry.frob=1', 'retry.max=0', 'retry.max=x', 'priority.x=1', 'sharding.of=k' } do
        c:send('DECLARE queue d.bad ' .. option .. '\r\n')
        local script, name = c:expect "^ERR mismatch (%w+)=%w+: (.*)$"
        assert.equal(option:match '^%w+', script)
        assert.is_truthy(name:find(option:match '%.(%w+)', 1, true), name)
      end
      assert.is_nil(find('queues', 'd.bad'))
    end)

    it('are listed with what was chosen', function()
      c:ok 'DECLARE queue d.list durable=0 shards=2 dead-letter=-/d.dead'
      local q = find('queues', 'd.list')
      assert.same({ shards = '2', durable = '0', ['dead-letter'] = '-/d.dead' }, setmetatable(q.options, nil))
      assert.is_false(q.durable)
      assert.equal(0, q.ready + q.delayed + q.unacked + q.buried + q.consumers)
      c:ok 'DELETE queue d.list'
      c:expect_answer('DELETE queue d.list', "ERR not-found there is no queue 'd.list' in vhost '/'")
    end)

    it('exclusive to a connection are for that alone, and end with it', function()
      local owner = broker:connect()
      owner:ok 'DECLARE queue d.mine exclusive'
      owner:ok('PUB - d.mine', 'x')
      for _, line in ipairs {
        'DECLARE queue d.mine exclusive', 'DELETE queue d.mine', 'SUB d.mine s', 'GET d.mine', 'PEEK d.mine',
        'PURGE d.mine', 'KICK d.mine', 'STATS d.mine',
      } do
        c:expect_answer(line, "ERR denied queue 'd.mine' belongs to another connection")
      end
      c:ok 'DECLARE exchange d.ex fanout durable=0'
      c:expect_answer('BIND d.mine d.ex -', "ERR denied queue 'd.mine' belongs to another connection")
      c:ok('PUB - d.mine', 'others may publish to it')
      owner:ok 'BIND d.mine d.ex -'
      owner:close()
      assert.is_truthy(wait.poll(function() return not find('queues', 'd.mine') end))
      assert.equal(0, find('exchanges', 'd.ex').bindings)
      c:ok 'DECLARE queue d.mine exclusive'
      c:ok 'DELETE exchange d.ex'
    end)

    it('that are auto-delete go with their last consumer', function()
      c:ok 'DECLARE queue d.auto auto-delete'
      c:ok('PUB - d.auto', 'x')
      assert.equal(1, #c:get 'd.auto')
      c:expect_nothing()
      assert.is_truthy(find('queues', 'd.auto')) -- a GET is no consumer
      local other = broker:connect()
      other:ok 'SUB d.auto s1'
      other:send '@1 OPEN\r\n@1 SUB d.auto s1\r\n'
      other:expect_line '@1 OK'
      other:expect_line '@1 OK'
      other:ok 'UNSUB s1'
      assert.is_truthy(find('queues', 'd.auto'))
      other:close()
      assert.is_truthy(wait.poll(function() return not find('queues', 'd.auto') end))
      c:expect_answer('ACK 1',
        'ERR lease-lost tag 1 is no longer held: it was settled, timed out or its queue was deleted')
    end)

    it('are deleted under conditions', function()
      c:ok 'DECLARE queue d.cond'
      local function not_empty()
        c:expect_answer('DELETE queue d.cond if-empty', "ERR exists queue 'd.cond' is not empty")
      end
      c:ok('PUB - d.cond', 'ready')
      not_empty()
      assert.equal(1, #c:get 'd.cond')
      not_empty()
      c:ok 'NACK 1 delay=1h'
      not_empty()
      c:ok 'PURGE d.cond'
      c:ok('PUB - d.cond', 'buried')
      assert.equal(1, #c:get 'd.cond')
      c:ok 'NACK 2 dead'
      not_empty()
      c:ok 'PURGE d.cond'
      c:ok 'SUB d.cond s1'
      c:expect_answer('DELETE queue d.cond if-unused', "ERR exists queue 'd.cond' is in use: it has 1 consumers")
      c:ok 'UNSUB s1'
      c:ok 'DELETE queue d.cond if-empty if-unused'
      c:expect_answer('DELETE queue d.cond', "ERR not-found there is no queue 'd.cond' in vhost '/'")
    end)

    it('that are deleted cancel their consumers and what those hold', function()
      c:ok 'DECLARE queue d.gone'
      c:send '@2 OPEN\r\n@3 OPEN\r\n'
      c:expect_line '@2 OK'
      c:expect_line '@3 OK'
      for _ = 1, 3 do c:ok('PUB - d.gone', 'x') end
      c:send 'SUB d.gone s1 prefetch=1\r\n'
      c:expect_line 'OK'
      assert.equal('1', c:expect_msg().tag)
      c:send '@2 SUB d.gone s2\r\n'
      c:expect_line '@2 OK'
      c:expect_msg(nil, 2)
      c:expect_msg(nil, 2)
      c:send '@3 GET d.gone wait=1h\r\n'
      c:expect_nothing()
      local other = broker:connect()
      other:ok 'DELETE queue d.gone'
      local lines = {}
      for i = 1, 3 do lines[i] = c:read_line() end
      table.sort(lines)
      assert.same({
        "@2 EVT cancelled s2 queue-deleted",
        "@3 ERR not-found queue 'd.gone' was deleted",
        "EVT cancelled s1 queue-deleted",
      }, lines)
      c:expect_answer('ACK 1',
        'ERR lease-lost tag 1 is no longer held: it was settled, timed out or its queue was deleted')
      c:expect_answer('UNSUB s1', "ERR not-found this channel has no subscription 's1'")
      other:close()
      c:ok 'DECLARE queue d.gone'
      assert.same({}, c:get 'd.gone')
      c:ok 'DELETE queue d.gone'
    end)
  end)

  describe('of an exchange', function()
    it('may be declared again with the same arguments alone', function()
      for _ = 1, 2 do c:ok 'DECLARE exchange x.same topic' end
      c:expect_answer('DECLARE exchange x.same fanout',
        "ERR mismatch exchange 'x.same' exists with type topic, not fanout")
      c:expect_answer('DECLARE exchange x.same topic durable=0',
        "ERR mismatch exchange 'x.same' exists with other options: it has durable=1, not durable=0")
      c:expect_answer('DECLARE exchange x.same topic auto-delete',
        "ERR mismatch exchange 'x.same' exists with other options: it has auto-delete=0, not auto-delete=1; " ..
        "the option update changes that")
      c:ok 'DELETE exchange x.same'
    end)

    it('have types and options that there are', function()
      c:expect_answer('DECLARE exchange x.bad',
        'ERR syntax DECLARE exchange needs <exchange> and <type>: <type> is missing')
      c:expect_answer('DECLARE exchange x.bad durable=0',
        'ERR syntax DECLARE exchange needs <exchange> and <type>: <type> is missing')
      c:expect_answer('DECLARE exchange x.bad teapot', "ERR not-found there is no routing script 'teapot'; there are: "
        .. 'consistent-hash content direct fanout headers random topic')
      c:expect_answer('DECLARE exchange x.bad ../topic',
        "ERR not-found there is no routing script '../topic'; there are: "
        .. 'consistent-hash content direct fanout headers random topic')
      c:send 'DECLARE exchange x.bad topic frob=1\r\n'
      assert.is_truthy(c:expect('^ERR mismatch (.*)$'):find('frob', 1, true))
      c:expect_answer('DECLARE exchange x.bad topic durable=2', 'ERR syntax durable=2: expected 0 or 1')
      c:expect_answer('DECLARE exchange - topic',
        "ERR syntax '-' stands for the default exchange and cannot be declared")
      c:expect_answer('DECLARE teapot x.bad topic', "ERR syntax DECLARE takes exchange, queue, topic or vhost")
      assert.is_nil(find('exchanges', 'x.bad'))
    end)

    it('are listed', function()
      c:ok 'DECLARE exchange x.list headers durable=0'
      c:ok 'DECLARE queue x.list exclusive'
      c:ok 'BIND x.list x.list - match=any a=1'
      local x = find('exchanges', 'x.list')
      assert.equal('headers', x.type)
      assert.equal('routing/headers.lua', x.script)
      assert.equal(1, x.bindings)
      assert.is_false(x.durable)
      assert.is_false(x.auto_delete)
      assert.is_nil(find('exchanges', '-'))
      c:expect_answer('DELETE exchange x.list if-unused', "ERR exists exchange 'x.list' is in use: it has 1 binding")
      c:ok 'UNBIND x.list x.list - a=1 match=any'
      c:ok 'DELETE exchange x.list if-unused'
      c:expect_answer('DELETE exchange x.list', "ERR not-found there is no exchange 'x.list' in vhost '/'")
    end)

    it('that are auto-delete go with their last binding', function()
      local function made()
        c:ok 'DECLARE exchange x.auto topic auto-delete'
        c:ok 'DECLARE queue x.auto.q'
        c:ok 'BIND x.auto.q x.auto a'
        c:ok 'BIND x.auto.q x.auto b'
      end
      made()
      c:ok 'UNBIND x.auto.q x.auto a'
      assert.is_truthy(find('exchanges', 'x.auto'))
      c:ok 'UNBIND x.auto.q x.auto b'
      assert.is_nil(find('exchanges', 'x.auto'))
      made()
      c:ok 'DELETE queue x.auto.q'
      assert.is_nil(find('exchanges', 'x.auto'))
      c:ok 'DECLARE exchange x.auto topic auto-delete'
      c:ok 'DECLARE exchange x.to fanout'
      c:ok 'BIND x.to x.auto # dest=exchange'
      c:ok 'DELETE exchange x.to'
      assert.is_nil(find('exchanges', 'x.auto'))
    end)

    it('that are auto-delete go with the connection of their last queue', function()
      c:ok 'DECLARE exchange x.auto fanout auto-delete'
      local owner = broker:connect()
      owner:ok 'DECLARE queue x.mine exclusive'
      owner:ok 'BIND x.mine x.auto -'
      owner:close()
      assert.is_truthy(wait.poll(function() return not find('exchanges', 'x.auto') end))
    end)
  end)

  describe('of a binding', function()
    before_each(function()
      c:ok 'DECLARE exchange b.x topic'
      c:ok 'DECLARE queue b.q'
    end)
    after_each(function()
      c:ok 'DELETE exchange b.x'
      c:ok 'DELETE queue b.q'
    end)

    it('may be made twice, and is taken back once', function()
      c:ok 'BIND b.q b.x a.*'
      c:ok 'BIND b.q b.x a.*'
      assert.same({ { exchange = 'b.x', to = 'queue', destination = 'b.q', pattern = 'a.*', options = {} } },
        (require('dkjson').decode(require('dkjson').encode(list 'bindings'))))
      c:ok 'UNBIND b.q b.x a.*'
      c:expect_answer('UNBIND b.q b.x a.*', 'ERR not-found there is no such binding')
      assert.equal(' 0', ' ' .. c:ok('PUB b.x a.b', 'x'):match '%d+$')
    end)

    it('is between what there is', function()
      c:expect_answer('BIND nobody b.x a', "ERR not-found there is no queue 'nobody' in vhost '/'")
      c:expect_answer('BIND b.q nowhere a', "ERR not-found there is no exchange 'nowhere' in vhost '/'")
      c:expect_answer('BIND b.q b.x a dest=exchange', "ERR not-found there is no exchange 'b.q' in vhost '/'")
      c:expect_answer('BIND b.q b.x a dest=moon', 'ERR syntax dest=moon: expected queue, exchange or topic')
      c:expect_answer('BIND b.q - a',
        'ERR denied the default exchange routes to the queue that the key names and takes no '
        .. 'bindings')
      c:expect_answer('BIND b.q b.x', 'ERR syntax BIND needs <queue>, <exchange> and <pattern>: <pattern> is missing')
      c:send 'BIND b.q b.x a frob=1\r\n'
      assert.is_truthy(c:expect('^ERR mismatch (.*)$'):find('frob', 1, true))
    end)

    it('goes with its queue and with its exchange', function()
      c:ok 'DECLARE queue b.q2'
      c:ok 'DECLARE exchange b.x2 topic'
      c:ok 'BIND b.q2 b.x a'
      c:ok 'BIND b.q b.x2 a'
      c:ok 'BIND b.x b.x2 # dest=exchange'
      assert.equal(3, #list 'bindings')
      c:ok 'DELETE queue b.q2'
      assert.equal(2, #list 'bindings')
      c:ok 'DELETE exchange b.x2'
      assert.equal(0, #list 'bindings')
      c:ok 'DECLARE queue b.q2'
      assert.equal('0', c:ok('PUB b.x a', 'x'):match '%d+$')
      c:ok 'DELETE queue b.q2'
    end)
  end)

  describe('of a vhost', function()
    it('are its own', function()
      local shop = broker:connect()
      local hello = shop:enter_vhost('shop', 'name=till heartbeat=30s user=me pass=x%20y')
      assert.equal('shop', hello.vhost)
      assert.equal(30000, hello.heartbeat_ms)
      assert.equal(1, hello.protocol)
      assert.same({ line = 65536, payload = 16777216, headers = 64, name = 255, channels = 256, prefetch = 65535,
        get = 1000 }, setmetatable(hello.limits, nil))
      shop:ok 'DECLARE queue v.jobs'
      shop:ok 'DECLARE exchange v.x fanout'
      shop:ok 'BIND v.jobs v.x -'
      shop:ok('PUB v.x k', 'x')
      assert.is_nil(find('queues', 'v.jobs'))
      assert.equal(0, #list 'bindings')
      c:expect_answer('GET v.jobs', "ERR not-found there is no queue 'v.jobs' in vhost '/'; vhost 'shop' has one")
      c:ok 'DECLARE queue v.jobs shards=3'
      assert.same({}, c:get 'v.jobs')
      assert.equal('x', shop:get('v.jobs')[1].payload)
      local names = {}
      for _, connection in ipairs(list 'connections') do
        names[connection.name] = connection.vhost
      end
      assert.equal('shop', names.till)
      c:ok 'DELETE queue v.jobs'
      shop:ok 'ACK 1'
      shop:close()
    end)

    it('are chosen by HELLO, the first request', function()
      c:expect_answer('PING', 'OK')
      c:expect_answer('HELLO', 'ERR denied HELLO must be the first request')
      for line, answer in pairs {
        ['HELLO vhost=a/b'] = "ERR syntax 'a/b' is not a vhost: "
          .. 'expected / or a name of 1-255 bytes without white space, '
          .. "'/' and ':'",
        ['HELLO vhost='] = "ERR syntax '' is not a vhost: expected / or a name of 1-255 bytes without white space, "
          .. "'/' and ':'",
        ['HELLO heartbeat=1ms'] = 'ERR syntax heartbeat=1ms: expected a duration like 250ms, 30s, 5m, 2h or 1d, '
          .. 'from 1s to 1h',
        ['HELLO colour=red'] =
          "ERR syntax HELLO has no option 'colour'; it takes: user pass vhost name cell heartbeat prefetch",
      } do
        local fresh = broker:connect()
        fresh:send(line .. '\r\n')
        fresh:expect_line(answer)
        fresh:expect_nothing()
        fresh:close()
      end
    end)

    it('are refused in one that nobody has declared', function()
      local fresh = broker:connect()
      fresh:send 'HELLO vhost=shpo\r\n'
      assert.matches("^ERR not%-found there is no vhost 'shpo', only '/'.*; DECLARE vhost shpo makes it$",
        fresh:expect '.*')
      fresh:close()
      for _, vhost in ipairs(list 'vhosts') do assert.not_equal('shpo', vhost.name) end
    end)

    it('stay, and so does it, until they are deleted', function()
      local own = Broker.start { redis = {} }
      own:connect():ok 'DECLARE vhost shop'
      own:kill9()
      own:run()
      local shop = own:connect()
      shop:document 'HELLO vhost=shop'
      shop:ok 'DECLARE queue jobs'
      shop:ok 'DECLARE topic log'
      shop:ok 'DECLARE exchange x topic'
      shop:ok 'BIND jobs amq.topic a'
      local other = own:connect()
      other:expect_answer('DELETE vhost shop',
        "ERR exists vhost 'shop' is not empty: it has 2 exchanges, 1 queue, 1 topic")
      for _, what in ipairs { 'queue jobs', 'topic log', 'exchange x' } do shop:ok('DELETE ' .. what) end
      shop:close()
      own:kill9()
      own:run()
      local c2 = own:connect()
      c2:ok 'DECLARE vhost shop'
      c2:ok 'DELETE vhost shop'
      c2:expect_answer('DELETE vhost shop',
        "ERR not-found there is no vhost 'shop', only '/'; DECLARE vhost shop makes it")
      c2:expect_answer('DELETE vhost /', "ERR denied the default vhost '/' cannot be deleted")
      c2:expect_answer('DECLARE vhost a/b', "ERR syntax 'a/b' is not a vhost: "
        .. "expected / or a name of 1-255 bytes without white space, '/' and ':'")
      for _, name in ipairs { '}x', 'a{b' } do
        c2:expect_answer('DECLARE vhost ' .. name, ("ERR syntax '%s' cannot be a new vhost: its name may not have '{' "
          .. "or '}', which stand for the slot of a Redis Cluster"):format(name))
      end
      c2:expect_answer('DECLARE vhost shop ttl=1s',
        "ERR syntax DECLARE vhost has no option 'ttl'; it takes: on-demand in-cell")
      own:expect_clean_stop()
    end)

    it('are deleted with what is in them, if one says so', function()
      local own = Broker.start { redis = {} }
      local function fill(vhost)
        local client = own:connect()
        client:enter_vhost(vhost)
        client:ok 'DECLARE queue jobs shards=2'
        client:ok 'DECLARE topic log'
        client:ok 'DECLARE exchange x topic'
        client:ok 'DECLARE exchange y fanout auto-delete'
        client:ok 'BIND jobs x a'
        client:ok 'BIND x y - dest=exchange'
        client:ok 'BIND jobs amq.topic a'
        client:ok 'BIND amq.fanout amq.topic b dest=exchange'
        client:ok('PUB x a', 'one')
        client:ok('PUB - log', 'two')
        return client
      end
      local shop, kept = fill 'shop', fill 'kept'
      local admin = own:connect()
      shop:ok 'SUB jobs s'
      shop:expect_msg()
      local token = shop:ok 'LOCK l'
      admin:expect_answer('DELETE vhost shop with-contents',
        "ERR exists vhost 'shop' is not empty: it has 4 exchanges, 1 queue, 1 topic, and locks that are held")
      shop:ok('UNLOCK l ' .. token)
      admin:expect_answer('DELETE vhost / with-contents', "ERR denied the default vhost '/' cannot be deleted")
      admin:ok 'DELETE vhost shop with-contents'
      shop:expect '^EVT cancelled s queue%-deleted$'
      assert.same({}, shop:document 'LIST queues')
      -- A client that stays makes nothing of it anew, whatever it asks.
      local gone = "ERR not-found vhost 'shop' was deleted while this connection worked in it: connect again"
      for _, request in ipairs { 'DECLARE queue jobs', 'DECLARE exchange x topic', 'BIND jobs amq.topic a', 'GET jobs',
        'SUB jobs t', 'LOCK l', 'STATS jobs', 'PURGE jobs' } do
        shop:expect_answer(request, gone)
      end
      for _, request in ipairs { 'PUB amq.topic a', 'PUB - jobs', 'PUB amq.fanout a' } do
        assert.equal(gone, shop:request(request, 'x'))
      end
      assert.same({}, shop:document 'LIST exchanges')
      admin:expect_answer('DELETE vhost shop', "ERR not-found there is no vhost 'shop', only '/', 'kept'; " ..
        'DECLARE vhost shop makes it')
      for _, vhost in ipairs(admin:document 'LIST vhosts') do assert.not_equal('shop', vhost.name) end
      local text, status = own:cli 'export'
      assert.equal(0, status, text)
      local other = own:connect()
      assert.matches("^ERR not%-found there is no vhost 'shop'", other:request 'HELLO vhost=shop')
      other:close()
      admin:ok 'DECLARE vhost shop'
      shop:ok 'DECLARE queue jobs'
      admin:ok 'DELETE vhost shop with-contents'
      assert.equal(gone, shop:request('PUB amq.topic a', 'x'))
      shop:close()
      assert(wait.poll(function() return own.redis:cli('--scan', '--pattern', '*{shop/*') == '' end))
      own:kill9()
      own:run()
      admin = own:connect()
      admin:expect_answer('DELETE vhost shop',
        "ERR not-found there is no vhost 'shop', only '/', 'kept'; DECLARE vhost shop makes it")
      kept:close()
      kept = own:connect()
      kept:document 'HELLO vhost=kept'
      assert.same({ 1, 1 }, { kept:stats('jobs').ready, kept:document 'STATS log'.messages })
      own:expect_clean_stop()
    end)

    it('are limited in number', function()
      local small = Broker.start { args = { '--store', 'none', '--max-vhosts', '2' } }
      local one = small:connect()
      one:ok 'DECLARE vhost one'
      one:expect_answer('DECLARE vhost two', 'ERR limit the limit of 2 vhosts is reached')
      one:ok 'DELETE vhost one'
      one:ok 'DECLARE vhost two'
      small:expect_clean_stop()
    end)
  end)
end)
