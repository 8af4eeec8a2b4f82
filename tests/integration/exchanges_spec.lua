-- What the shipped types of exchanges make of bindings, and queues that the broker names.
local Broker = require 'support.broker'
local users = require 'support.users'
local wait = require 'support.wait'

describe('an exchange', function()
  local broker, c

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function() c = broker:enter_vhost() end)
  after_each(function() c:close() end)

  -- The queues that take a publish of these words, by EXPLAIN and by PUB.
  local function reached(words, ...)
    local found, explained = {}, {}
    for _, q in ipairs(c:document('EXPLAIN ' .. words).queues) do explained[q.queue] = true end
    c:ok('PUB ' .. words, 'x')
    for _, queue in ipairs { ... } do
      local n = #c:get(queue .. ' max=10 ack=auto')
      assert.equal(explained[queue] and 1 or 0, n, queue)
      if n > 0 then found[#found + 1] = queue end
    end
    return table.concat(found, ' ')
  end

  describe('of the type content', function()
    it('goes by the payload, as filters leave it', function()
      c:ok 'DECLARE exchange x content'
      for _, queue in ipairs { 'a', 'b', 'c' } do c:ok('DECLARE queue ' .. queue) end
      c:ok 'BIND a x customer.country=DE|AT;total>=100'
      c:ok 'BIND b x customer.tags=gold'
      c:ok 'BIND c x h:audit;!customer.email'
      local function to(payload, words)
        local found = {}
        c:send(('PUB x k %s%d\r\n%s\r\n'):format(words or '', #payload, payload))
        local count = tonumber(c:expect '^OK %x+ (%d+)$')
        for _, queue in ipairs { 'a', 'b', 'c' } do
          if #c:get(queue .. ' max=10 ack=auto') > 0 then found[#found + 1] = queue end
        end
        assert.equal(count, #found)
        return table.concat(found, ' ')
      end
      assert.equal('a', to '{"total":100,"customer":{"country":"DE"}}')
      assert.equal('', to '{"total":99,"customer":{"country":"DE"}}')
      assert.equal('a b', to '{"total":1e9,"customer":{"country":"AT","tags":["new","gold"]}}')
      assert.equal('b c', to('{"customer":{"tags":["gold"]}}', 'h:audit=1 '))
      assert.equal('', to('{"customer":{"email":"x"}}', 'h:audit=1 '))
      assert.equal('c', to('no JSON', 'h:audit=1 '))
      c:ok 'UNBIND a x customer.country=DE|AT;total>=100'
      assert.equal('', to '{"total":100,"customer":{"country":"DE"}}')
    end)

    it('goes by what can be read, and EXPLAIN says what cannot', function()
      c:ok 'DECLARE exchange x content'
      c:ok 'DECLARE queue a'
      c:ok 'BIND a x total>=100'
      local payload = '{"id":18446744073709551615,"total":100}'
      c:send(('PUB x k %d\r\n%s\r\n'):format(#payload, payload))
      c:expect '^OK %x+ 1$'
      local escaped = payload:gsub('[^%w]', function(s) return ('%%%02X'):format(s:byte()) end)
      local d = c:document('EXPLAIN x k payload=' .. escaped)
      assert.equal('a', d.queues[1].queue)
      assert.equal('the JSON has an integer of more than 64 bits at byte 7', d.unread)
      d = c:document 'EXPLAIN x k payload=hello'
      assert.same({}, d.queues)
      assert.equal('this is not JSON: wrong at byte 1', d.unread)
      assert.is_nil(c:document('EXPLAIN x k payload=%7B%7D').unread)
      assert.is_nil(c:document('EXPLAIN - a payload=hello').unread)
    end)

    it('refuses a pattern that has no meaning', function()
      c:ok 'DECLARE exchange x content'
      c:ok 'DECLARE queue a'
      c:send 'BIND a x total>=much\r\n'
      assert.matches("'total>=much' compares with a number, not 'much'", (c:expect '^ERR rule (.*)$'))
    end)
  end)

  it('of the type topic takes neighbouring # for one', function()
    c:ok 'DECLARE exchange x topic'
    for _, queue in ipairs { 'a', 'b', 'c' } do c:ok('DECLARE queue ' .. queue) end
    c:ok 'BIND a x #.#.#'
    c:ok 'BIND b x #.*.#.*.#'
    c:ok 'BIND c x #.#.new.#.#'
    assert.equal('a', reached('x -', 'a', 'b', 'c'))
    assert.equal('a', reached('x k', 'a', 'b', 'c'))
    assert.equal('a b', reached('x k.l', 'a', 'b', 'c'))
    assert.equal('a b c', reached('x orders.new.eu', 'a', 'b', 'c'))
    c:send 'BIND a x #.a.#.b.#\r\n'
    c:expect "^ERR rule .*a topic pattern may have '#' 2 times, not 3"
  end)

  describe('of the type headers', function()
    before_each(function()
      c:ok 'DECLARE exchange x headers'
      for _, queue in ipairs { 'a', 'b', 'c', 'd' } do c:ok('DECLARE queue ' .. queue) end
    end)

    it('has conditions on values and on presence', function()
      c:ok 'BIND a x - h:kind=order h:region=eu'
      c:ok 'BIND b x - h:kind=order h?region'
      c:ok 'BIND c x - x-match=any h:kind=order h?region'
      c:ok 'BIND d x - h?region'
      local function to(headers) return reached('x k ' .. headers, 'a', 'b', 'c', 'd') end
      assert.equal('a b c d', to 'h:kind=order h:region=eu')
      assert.equal('b c d', to 'h:kind=order h:region=')
      assert.equal('c', to 'h:kind=order')
      assert.equal('c d', to 'h:region=us')
      assert.equal('', to 'h:kind=other h:Region=eu')
      c:ok 'UNBIND b x - h?region h:kind=order'
      assert.equal('a c d', to 'h:kind=order h:region=eu')
    end)

    it('takes headers that have the name of an option', function()
      c:ok 'BIND a x - h:dest=exchange h:x-match=any h:match=all'
      c:ok 'BIND b x - h?durable h:h:odd=1 h:h?odder=2'
      local function to(headers) return reached('x k ' .. headers, 'a', 'b') end
      assert.equal('a', to 'h:dest=exchange h:x-match=any h:match=all')
      assert.equal('', to 'h:dest=exchange h:x-match=any h:match=any')
      assert.equal('b', to 'h:durable=x h:h:odd=1 h:h?odder=2')
      local found = {}
      for _, b in ipairs(c:document 'LIST bindings') do found[b.destination] = b.options end
      assert.same({ ['h:dest'] = 'exchange', ['h:x-match'] = 'any', ['h:match'] = 'all' }, found.a)
      assert.same({ ['h?durable'] = '1', ['h:h:odd'] = '1', ['h:h?odder'] = '2' }, found.b)
      for queue, options in pairs(found) do -- what is listed can be bound and unbound
        local words = {}
        for name, value in pairs(options) do words[#words + 1] = name .. '=' .. value end
        c:ok(('UNBIND %s x - %s'):format(queue, table.concat(words, ' ')))
      end
      assert.same({}, c:document 'LIST bindings')
    end)

    it('leaves out conditions on x- headers with x-match=all and any alone', function()
      c:ok 'BIND a x - x-match=all h:x-tier=gold h:kind=order'
      c:ok 'BIND b x - x-match=all-with-x h:x-tier=gold h:kind=order'
      c:ok 'BIND c x - x-match=any h:x-tier=gold h:kind=order'
      c:ok 'BIND d x - x-match=any-with-x h:x-tier=gold h:kind=order'
      local function to(headers) return reached('x k ' .. headers, 'a', 'b', 'c', 'd') end
      assert.equal('a b c d', to 'h:x-tier=gold h:kind=order')
      assert.equal('a c d', to 'h:kind=order')
      assert.equal('d', to 'h:x-tier=gold')
      assert.equal('', to 'h:x-tier=silver')
      c:ok 'UNBIND b x - x-match=all-with-x h:x-tier=gold h:kind=order'
      c:ok 'BIND b x - h:x-tier=gold h:kind=order' -- all-with-x is the default
      assert.equal('a c d', to 'h:kind=order')
      assert.equal('a b c d', to 'h:x-tier=gold h:kind=order')
    end)

    it('matches everything, or nothing, without conditions', function()
      c:ok 'BIND a x -'
      c:ok 'BIND b x - x-match=any'
      c:ok 'BIND c x - x-match=all h:x-tier=gold'
      c:ok 'BIND d x - x-match=any h:x-tier=gold'
      assert.equal('a c', reached('x k', 'a', 'b', 'c', 'd'))
      assert.equal('a c', reached('x k h:x-tier=gold', 'a', 'b', 'c', 'd'))
    end)

    it('refuses what has no meaning', function()
      c:expect_answer('BIND a x - h:kind', "ERR syntax 'h:kind' needs a value: h:<name>=<value>")
      for words, text in pairs {
        ['h:kind=1 h?kind'] = "the header 'kind' has two conditions",
        ['kind=1 h:kind=2'] = "the header 'kind' has two conditions",
        ['h?kind=7'] = "'h?kind' takes no value; a header with a value is 'h:kind=...'",
        ['h:=7'] = "the name of the header is missing after 'h:'",
      } do
        local answer = c:request('BIND a x - ' .. words)
        assert.equal('ERR rule routing/headers.lua:N: ' .. text, (answer:gsub(':%d+:', ':N:', 1)))
      end
      c:expect_answer('BIND a x - h:a=1 h:a=2', "ERR syntax option 'h:a' appears twice")
      assert.match('^ERR mismatch .*x%-match.* all any all%-with%-x any%-with%-x', c:request 'BIND a x - x-match=some')
      assert.same({}, c:document 'LIST bindings')
    end)

    it('has its bindings back after kill -9 of broker and Redis', function()
      local own = Broker.start()
      local d = own:connect()
      d:ok 'DECLARE exchange x headers'
      d:ok 'DECLARE queue q'
      d:ok 'BIND q x - x-match=any h?a h:b=%20%25'
      d:ok 'BIND q x - match=any region=eu' -- as version 0.1.0 wrote it
      own:kill9_all()
      own:restart()
      d = own:connect()
      for headers, queues in pairs { ['h:a=1'] = 1, ['h:b=%20%25'] = 1, ['h:b=1'] = 0, ['h:region=eu'] = 1 } do
        assert.equal(tostring(queues), d:ok('PUB x k ' .. headers, 'x'):match ' (%d)$')
      end
      d:ok 'UNBIND q x - x-match=any h?a h:b=%20%25'
      d:ok 'UNBIND q x - match=any region=eu'
      own:expect_clean_stop()
    end)
  end)

  describe('of the type topic', function()
    it('refuses patterns that match nothing sensible, and says why', function()
      c:ok 'DECLARE exchange x topic'
      c:ok 'DECLARE queue q'
      local function bad(pattern, text)
        local answer = c:request(('BIND q x %s'):format(pattern))
        assert.equal(('ERR rule tide/topic_trie.lua:N: %s (called from routing/topic.lua:13)'):format(text),
          (answer:gsub(':%d+:', ':N:', 1)))
      end
      bad('orders.a*', "in the topic pattern 'orders.a*' the word 'a*' has a wildcard in it; '*' and '#' are words of "
        .. 'their own')
      bad('#b', "in the topic pattern '#b' the word '#b' has a wildcard in it; '*' and '#' are words of their own")
      assert.same({}, c:document 'LIST bindings')
    end)

    it('matches empty words of patterns by empty words', function()
      c:ok 'DECLARE exchange x topic'
      for queue, pattern in pairs { middle = 'a..b', tail = 'a.', head = '.a', dot = '.', hash = '#.' } do
        c:ok('DECLARE queue ' .. queue)
        c:ok(('BIND %s x %s'):format(queue, pattern))
      end
      local function to(key) return reached('x ' .. key, 'middle', 'tail', 'head', 'dot', 'hash') end
      assert.equal('middle', to 'a..b')
      assert.equal('tail hash', to 'a.')
      assert.equal('head', to '.a')
      assert.equal('dot hash', to '.')
      assert.equal('', to 'a')
      assert.equal('', to 'a.x.b')
      assert.equal('', to '-')
    end)

    it('matches empty words of keys by wildcards', function()
      c:ok 'DECLARE exchange x topic'
      for queue, pattern in pairs { star = 'a.*.b', hash = 'a.#', none = '-', plain = 'a.b' } do
        c:ok('DECLARE queue ' .. queue)
        c:ok(('BIND %s x %s'):format(queue, pattern))
      end
      local function to(key) return reached('x ' .. key, 'star', 'hash', 'none', 'plain') end
      assert.equal('star hash', to 'a..b')
      assert.equal('hash', to 'a.')
      assert.equal('', to '.')
      assert.equal('none', to '-')
      assert.equal('hash plain', to 'a.b')
    end)
  end)

  describe('of those that are there in each vhost', function()
    it('routes without a DECLARE, and is listed once it was named', function()
      c:ok 'DECLARE queue q'
      c:ok 'BIND q amq.direct k'
      c:ok 'BIND q amq.fanout -'
      c:ok 'BIND q amq.headers - h:a=b'
      c:ok 'BIND q amq.topic eu.*'
      c:ok 'BIND amq.fanout amq.topic all dest=exchange'
      for words, count in pairs {
        ['amq.direct k'] = 1, ['amq.direct l'] = 0, ['amq.fanout l'] = 1, ['amq.headers - h:a=b'] = 1,
        ['amq.headers - h:a=c'] = 0, ['amq.topic eu.de'] = 1, ['amq.topic us.ny'] = 0, ['amq.topic all'] = 1,
      } do
        assert.matches('^%x+ ' .. count .. '$', c:ok('PUB ' .. words, 'x'))
      end
      local listed = {}
      for _, x in ipairs(c:document 'LIST exchanges') do listed[x.name] = x.type .. ' ' .. tostring(x.durable) end
      assert.same({
        ['amq.direct'] = 'direct true', ['amq.fanout'] = 'fanout true', ['amq.headers'] = 'headers true',
        ['amq.topic'] = 'topic true',
      }, listed)
    end)

    it('is one of its type, and stays', function()
      assert.matches('^%x+ 0$', c:ok('PUB amq.topic k', 'x'))
      assert.equal('topic', c:document('STATS exchange amq.topic').type)
      c:ok 'DECLARE exchange amq.topic topic'
      c:expect_answer('DECLARE exchange amq.direct topic',
        "ERR mismatch exchange 'amq.direct' exists with type direct, not topic")
      for _, flag in ipairs { '', ' if-unused' } do
        c:expect_answer('DELETE exchange amq.direct' .. flag, "ERR denied exchange 'amq.direct' is there in each vhost "
          .. 'and cannot be deleted; UNBIND takes its bindings away')
      end
      c:expect_answer('PUB amq.other k 1\r\nx',
        "ERR not-found there is no exchange 'amq.other' in vhost '" .. broker.vhost .. "'")
    end)

    it('takes what an alternate and dead letters send there', function()
      assert.equal('', c:ok 'DECLARE exchange x fanout alternate=amq.fanout')
      assert.equal('', c:ok 'DECLARE queue q dead-letter=amq.direct/dead')
      c:ok 'DECLARE queue rest'
      c:ok 'BIND rest amq.fanout -'
      c:ok 'BIND rest amq.direct dead'
      c:ok('PUB x k', 'from x')
      assert.equal('from x', c:get('rest ack=auto')[1].payload)
      c:ok('PUB - q', 'from q')
      c:ok('NACK ' .. c:get('q')[1].tag .. ' dead')
      assert.equal('from q', c:get('rest wait=5s ack=auto')[1].payload)
    end)

    it('does not keep its vhost, unless something is bound to it', function()
      local function vhosts(names)
        local left = {}
        for _, v in ipairs(c:document 'LIST vhosts') do
          if names[v.name] then left[#left + 1] = v.name end
        end
        return left
      end
      for _, name in ipairs { 'passing', 'bound' } do
        local other = users.stranger(broker)
        other:enter_vhost(name)
        other:ok('PUB amq.topic k', 'x')
        if name == 'bound' then other:ok 'BIND amq.fanout amq.topic k dest=exchange' end
        other:close()
      end
      c:ok 'DELETE vhost passing'
      c:expect_answer('DELETE vhost bound',
        "ERR exists vhost 'bound' is not empty: it has 2 exchanges, 0 queues, 0 topics")
      local left
      assert(wait.poll(function()
        left = vhosts { passing = true, bound = true }
        return #left == 1
      end))
      assert.same({ 'bound' }, left)
      assert.equal('', broker:redis_cli('--raw', 'KEYS', '*passing*'))
    end)
  end)

  describe('takes a queue whose name', function()
    it('the broker has chosen', function()
      c:ok 'DECLARE exchange x fanout'
      local one, other = c:ok 'DECLARE queue - exclusive', c:ok 'DECLARE queue - exclusive shards=2'
      for _, name in ipairs { one, other } do
        assert.match('^gen%-%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x$', name)
        c:ok(('BIND %s x -'):format(name))
      end
      assert.not_equal(one, other)
      assert.equal('2', c:ok('PUB x k', 'hello'):match ' (%d)$')
      assert.equal('hello', c:get(one)[1].payload)
      assert.equal('hello', c:get(other)[1].payload)
      c:expect_answer('DECLARE queue ' .. one .. ' exclusive=0', ("ERR mismatch queue '%s' exists with other options: "
        .. 'it has exclusive=1, not exclusive=0'):format(one))
      local d = broker:connect()
      assert.match('^ERR denied', d:request('GET ' .. one))
      c:close()
      assert.is_truthy(wait.poll(function() return #d:document 'LIST queues' == 0 end))
      c = d
    end)

    it('the broker has chosen is said before a warning, and never quietly', function()
      local name, warning = c:ok 'DECLARE queue - dead-letter=-/none':match '^(gen%-%x+) (warning .*)$'
      assert.match('^warning dead%-letter=%-/none: there is no queue', warning)
      assert.equal(name, c:document('STATS ' .. name).queue)
      for _, words in ipairs { 'quiet', 'exclusive quiet' } do
        c:expect_answer('DECLARE queue - ' .. words,
          "ERR syntax DECLARE queue - is answered with the name: it takes no 'quiet'")
      end
      c:expect_answer('DECLARE exchange - fanout',
        "ERR syntax '-' stands for the default exchange and cannot be declared")
      c:expect_answer('DECLARE queue - shards=0', 'ERR syntax shards=0: expected a number from 1 to 64')
      assert.equal(1, #c:document 'LIST queues')
    end)

    it('the broker has chosen is printed by the command line', function()
      local output, status = broker:cli('declare', 'queue', '-')
      assert.equal(0, status)
      assert.match('^gen%-%x+\n$', output)
      assert.match('^{"ok":true,"name":"gen%-%x+"}\n$', (broker:cli('declare', '--json', 'queue', '-')))
      output = broker:cli('declare', 'queue', '-', 'dead-letter=-/none')
      assert.match('gen%-%x+\n', output)
      assert.match('tidemq declare: warning: dead%-letter', output)
    end)
  end)
end)

describe('a queue whose name the broker has chosen', function()
  it('has it still after kill -9 of broker and Redis, and no other gets it', function()
    local broker = Broker.start()
    local c = broker:connect()
    local names = {}
    for _ = 1, 3 do names[#names + 1] = c:ok 'DECLARE queue -' end
    c:ok('PUB - ' .. names[1], 'x')
    broker:kill9_all()
    broker:restart()
    c = broker:connect()
    names[#names + 1] = c:ok 'DECLARE queue -'
    assert.equal(4, #c:document 'LIST queues')
    table.sort(names)
    for i = 1, 3 do assert.not_equal(names[i], names[i + 1]) end
    assert.equal('x', c:get(names[1])[1].payload)
    broker:expect_clean_stop()
  end)
end)

describe('what Redis refuses', function()
  it('is no queue of a chosen name, no exchange, and no dead letter', function()
    local broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE queue q dead-letter=-/dead'
    c:ok 'DECLARE queue dead'
    c:ok('PUB - q h:a=b', 'x')
    assert.equal('OK', broker:redis_cli('CONFIG', 'SET', 'maxmemory', '1'))
    assert.match('^ERR store OOM', c:request 'DECLARE queue -')
    assert.match('^ERR store OOM', c:request 'DECLARE exchange x topic alternate=none')
    c:ok(('NACK %s dead'):format(c:get('q')[1].tag))
    assert.is_truthy(wait.poll(function() return c:stats('q').buried == 1 end))
    assert.equal(2, #c:document 'LIST queues')
    assert.same({}, c:document 'LIST exchanges')
    assert.equal('OK', broker:redis_cli('CONFIG', 'SET', 'maxmemory', '0'))
    assert.equal('1', c:ok 'KICK q')
    c:ok(('NACK %s dead'):format(c:get('q wait=20s')[1].tag))
    local m = c:get('dead wait=20s')[1]
    assert.same({ 'b', '1:rejected:q' }, { m.headers.a, m.headers['x-death-counts'] })
    c:ok 'DECLARE queue -'
    broker:expect_clean_stop()
  end)
end)

describe('a topic pattern that an older version took', function()
  it('keeps its exchange from being used, which UNBIND ends', function()
    local broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE exchange x topic'
    c:ok 'DECLARE queue q'
    c:ok 'BIND q x a.#'
    assert.equal('1', broker:redis_cli('SADD', '{tide}:/:bindings', 'queue q x a*'))
    broker:kill9()
    broker:restart()
    c = broker:connect()
    local text = "exchange 'x' cannot be used: it has a binding that routing/topic.lua refuses, 'queue q x a*': "
    local answer = c:request('PUB x a.b', 'hello')
    assert.equal('ERR rule ' .. text, answer:sub(1, 9 + #text))
    assert.is_truthy(answer:find("in the topic pattern 'a*' the word 'a*' has a wildcard in it", 1, true))
    c:ok 'UNBIND q x a*'
    assert.match('^OK %x+ 1$', c:request('PUB x a.b', 'hello'))
    broker:restart()
    c = broker:connect()
    assert.equal('hello', c:get('q')[1].payload)
    assert.equal(1, #c:document 'LIST bindings')
    broker:expect_clean_stop()
  end)
end)

describe('an exchange that each vhost has', function()
  it('keeps its bindings over a restart, also one of another type from before', function()
    local broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    c:ok 'BIND q amq.topic a.*'
    -- As an older version has left it.
    broker:redis_cli('HSET', '{tide}:/:exchanges', 'amq.direct', 'type=fanout durable=1')
    c = broker:restart_after 'kill9'
    assert.matches('^%x+ 1$', c:ok('PUB amq.topic a.b', 'x'))
    c:ok 'BIND q amq.direct -'
    assert.matches('^%x+ 1$', c:ok('PUB amq.direct k', 'x'))
    c:ok 'DELETE exchange amq.direct'
    assert.matches('^%x+ 0$', c:ok('PUB amq.direct k', 'x'))
    assert.equal('direct', c:document('STATS exchange amq.direct').type)
    broker:expect_clean_stop()
  end)
end)
