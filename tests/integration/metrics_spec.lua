-- /metrics of the HTTP port, parsed by the library that Prometheus' makers wrote.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Http = require 'support.http'
local exposition = require 'support.exposition'
local json = require 'dkjson'
local needs = require 'support.needs'
local shell = require 'support.shell'
local users = require 'support.users'
local wait = require 'support.wait'

local value = exposition.value

-- The text of a scrape.
local function scrape(http, query, headers)
  local answer = http:get('/metrics' .. (query or ''), headers)
  if answer.status ~= 200 then error(answer.status .. ' ' .. answer.body, 2) end
  return answer.body, answer
end

local function read(http, query) return exposition.parse((scrape(http, query))) end

-- Names of families as the documents have them: with "_total" and "_info".
local function names_of(text)
  local names = {}
  for name in text:gmatch '# TYPE (%S+)' do names[#names + 1] = name end
  table.sort(names)
  return names
end

describe('metrics', function()
  local broker, http, c

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    http = Http.connect(broker)
  end)
  teardown(function()
    http:close()
    broker:expect_clean_stop()
  end)
  before_each(function() c = Client.connect(broker.address) end)
  after_each(function() c:close() end)

  it('move as messages do', function()
    c:enter_vhost 'moves'
    c:ok 'DECLARE queue jobs'
    for i = 1, 10 do c:ok('PUB - jobs', 'message ' .. i) end
    c:ok 'GET jobs max=5'
    for _ = 1, 5 do c:expect_msg() end
    c:ok 'ACK 1-3'
    c:ok 'NACK 4 bury'
    local m, jobs = read(http), { vhost = 'moves', queue = 'jobs' }
    local got = {}
    for _, name in ipairs {
      'published_total', 'delivered_total', 'redelivered_total', 'acked_total', 'nacked_total', 'messages_ready',
      'messages_unacked', 'messages_buried', 'messages_delayed', 'consumers', 'paused_in', 'refused_total',
    } do got[name] = value(m, 'tidemq_queue_' .. name, jobs) end
    assert.same({
      published_total = 10, delivered_total = 5, redelivered_total = 0, acked_total = 3, nacked_total = 1,
      messages_ready = 5, messages_unacked = 1, messages_buried = 1, messages_delayed = 0, consumers = 0,
      paused_in = 0, refused_total = 0,
    }, got)
    assert(wait.poll(function()
      local ages = read(http)
      return value(ages, 'tidemq_queue_oldest_ready_seconds', jobs) > 0
        and value(ages, 'tidemq_queue_oldest_lease_seconds', jobs) > 0
    end))
    assert.equal(1, value(m, 'tidemq_queues', { vhost = 'moves' }))
    assert.equal(0, value(m, 'tidemq_topics', { vhost = 'moves' }))
    assert.equal(1, value(m, 'tidemq_vhost_connections', { vhost = 'moves' }))
    c:ok 'PAUSE jobs in'
    assert.equal(1, value(read(http), 'tidemq_queue_paused_in', jobs))
    c:ok 'DELETE queue jobs'
    assert.is_nil(value(read(http), 'tidemq_queue_published_total', jobs))
  end)

  it('count what exchanges route, and what they do not', function()
    c:enter_vhost 'routes'
    c:ok 'DECLARE exchange orders topic'
    c:ok 'DECLARE queue eu'
    c:ok 'BIND eu orders orders.eu.#'
    c:ok('PUB orders orders.eu.new', 'a')
    c:ok('PUB orders orders.us.new', 'b')
    c:ok('PUB - nowhere', 'c')
    local m = read(http)
    local orders = { vhost = 'routes', exchange = 'orders' }
    assert.equal(2, value(m, 'tidemq_exchange_published_total', orders))
    assert.equal(1, value(m, 'tidemq_exchange_unroutable_total', orders))
    assert.equal(1, value(m, 'tidemq_exchange_bindings', orders))
    assert.equal(1, value(m, 'tidemq_default_exchange_unroutable_total', { vhost = 'routes' }))
    assert.is_true(value(m, 'tidemq_script_calls_total', { kind = 'routing', script = 'topic' }) >= 2)
    assert.is_true(value(m, 'tidemq_script_seconds_total', { kind = 'routing', script = 'topic' }) > 0)
    assert.is_true(value(m, 'tidemq_script_memory_bytes', { kind = 'routing', script = 'topic' }) > 0)
    assert.equal(0, value(m, 'tidemq_script_circuits_open', { kind = 'routing', script = 'topic' }))
  end)

  it('tell how far groups are behind', function()
    c:enter_vhost 'logs'
    c:ok 'DECLARE topic events partitions=2'
    for i = 1, 6 do c:ok('PUB - events', 'event ' .. i) end
    c:ok 'GET events group=g from=first max=2'
    c:expect_msg()
    c:expect_msg()
    c:ok 'ACK 1'
    local m
    local events, group = { vhost = 'logs', topic = 'events' }, { vhost = 'logs', topic = 'events', group = 'g' }
    assert(wait.poll(function()
      m = read(http)
      return value(m, 'tidemq_group_lag_messages', group) == 5
    end))
    assert(wait.poll(function() return value(read(http), 'tidemq_group_lag_seconds', group) > 0 end))
    assert.equal(1, value(m, 'tidemq_group_messages_unacked', group))
    assert.equal(0, value(m, 'tidemq_group_members', group))
    assert.equal(6, value(m, 'tidemq_topic_messages', events))
    assert.equal(6, value(m, 'tidemq_topic_appended_total', events))
    assert.equal(6, value(m, 'tidemq_topic_published_total', events))
    assert.equal(2, value(m, 'tidemq_topic_partitions', events))
    assert.is_true(value(m, 'tidemq_topic_size_bytes', events) > 0)
  end)

  it('are those of the whole broker, too', function()
    local before = read(http)
    c:enter_vhost 'whole'
    c:ok 'DECLARE queue q'
    c:ok('PUB - q', 'a')
    c:ok 'GET q ack=auto'
    c:expect_msg()
    local after = read(http)
    local function moved(name, labels) return value(after, name, labels) - value(before, name, labels) end
    for _, name in ipairs { 'published', 'routed', 'delivered', 'acked' } do
      assert.equal(1, moved('tidemq_' .. name .. '_total'), name)
    end
    assert.is_true(moved 'tidemq_store_requests_total' > 0)
    assert.is_true(moved 'tidemq_store_round_trip_seconds_count' > 0)
    assert.is_true(moved 'tidemq_store_flush_changes_sum' >= 0)
    assert.is_true(moved 'tidemq_loop_turn_seconds_count' > 4)
    assert.is_true(moved 'tidemq_received_bytes_total' > 10)
    assert.equal(1, value(after, 'tidemq_connections', { protocol = 'http' }))
    assert.equal(1, value(after, 'tidemq_connections', { protocol = 'line' }))
    assert.equal(1, value(after, 'tidemq_store_up'))
    assert.equal(0, value(after, 'tidemq_blocked'))
    assert.equal(1, value(after, 'tidemq_store_info', { kind = 'embedded' }))
    -- Redis told it after the scrape before.
    assert.is_true(value(after, 'tidemq_store_memory_bytes') > 100000)
    local started = value(after, 'process_start_time_seconds')
    assert.is_true(started <= os.time() + 1 and started > os.time() - 3600)
    assert.equal(started, value(before, 'process_start_time_seconds'))
    assert.is_true(value(after, 'process_resident_memory_bytes') > 1000000)
  end)

  it('keep odd names as they are', function()
    local odd = { '/', 'a"b', 'back\\slash', 'käse→', "{x='y'},", 'a\\nb', '#' }
    local function vhost_of(name) return (name:gsub('[{}]', '!')) end -- a vhost has none of these
    local conns = {}
    for i, name in ipairs(odd) do
      conns[i] = Client.connect(broker.address)
      conns[i]:enter_vhost(vhost_of(name))
      for _, queue in ipairs(odd) do conns[i]:ok(('DECLARE queue %s durable=0'):format(queue:gsub('^/', 'slash/'))) end
    end
    for _, query in ipairs { '', '?per=vhost' } do
      local text = scrape(http, query, { Accept = 'application/openmetrics-text;version=1.0.0,text/plain;q=0.5' })
      for _, m in ipairs { exposition.parse(text, 'openmetrics'), read(http, query) } do
        for _, vhost in ipairs(odd) do
          for _, queue in ipairs(odd) do
            local labels = { vhost = vhost_of(vhost), queue = query == '' and queue:gsub('^/', 'slash/') or nil }
            assert.equal(0, value(m, 'tidemq_queue_published_total', labels), vhost .. ' ' .. queue)
          end
        end
      end
    end
    for _, conn in ipairs(conns) do
      for _, queue in ipairs(odd) do conn:ok('DELETE queue ' .. queue:gsub('^/', 'slash/')) end
      conn:close()
    end
  end)

  it('of a vhost are sums, and of ages the largest', function()
    c:enter_vhost 'sums'
    c:ok 'DECLARE queue a'
    c:ok 'DECLARE queue b'
    c:ok 'DECLARE exchange x fanout'
    c:ok 'DECLARE exchange y fanout'
    c:ok 'BIND a x ""'
    for _ = 1, 3 do c:ok('PUB - a', 'm') end
    assert(wait.poll(function() return c:stats('a').oldest_ready_ms >= 30 end))
    for _ = 1, 4 do c:ok('PUB - b', 'm') end
    c:ok('PUB x k', 'm')
    c:ok('PUB y k', 'm')
    local all, per = read(http), read(http, '?per=vhost')
    assert.same(all.order, per.order)
    local sums, a, b = { vhost = 'sums' }, { vhost = 'sums', queue = 'a' }, { vhost = 'sums', queue = 'b' }
    assert.equal(8, value(per, 'tidemq_queue_published_total', sums))
    assert.equal(8, value(per, 'tidemq_queue_messages_ready', sums))
    assert.equal(2, value(per, 'tidemq_exchange_published_total', sums))
    assert.equal(1, value(per, 'tidemq_exchange_unroutable_total', sums))
    assert.equal(0, value(per, 'tidemq_group_lag_messages', sums))
    local name = 'tidemq_queue_oldest_ready_seconds'
    assert.is_true(value(all, name, a) > value(all, name, b))
    assert.is_true(value(per, name, sums) >= value(all, name, a))
    for _, family in pairs(per.families) do
      for _, sample in ipairs(family.samples) do
        assert.is_nil(sample.labels.queue or sample.labels.topic or sample.labels.group or sample.labels.exchange)
      end
    end
  end)

  it('are also those that scripts make', function()
    local own = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' }, rules = {
      ['filter/10-orders.lua'] = [[
        local depth = tide.gauge("depth")
        local sizes = tide.histogram("sizes", { buckets = { 1, 10 } }, { of = "orders" })
        return { doc = "counts\norders", match = {}, publish = function(msg)
          tide.counter("orders", { country = msg.headers.country }):incr()
          tide.counter("all orders"):incr()
          tide.counter("depth"):incr(7) -- a gauge has that name
          tide.counter("plain"):incr(2)
          depth:incr(-2)
          sizes:observe(msg.size)
        end }]],
    } }
    local rules, at = Client.connect(own.address), Http.connect(own)
    rules:ok 'DECLARE queue q'
    rules:ok('PUB - q h:country=de"x', 'hello')
    rules:ok('PUB - q h:country=at', '')
    rules:ok('PUB - q', ('x'):rep(11))
    rules:document 'EXPLAIN - q h:country=fr'
    local text = scrape(at)
    local m = exposition.parse(text)
    local function is(wanted, name, labels) assert.equal(wanted, value(m, name, labels or {}), name) end
    is(1, 'tidemq_custom_orders_total', { country = 'de"x' })
    is(1, 'tidemq_custom_orders_total', { country = 'at' })
    assert.matches('\ntidemq_custom_orders_total 1\n', text)
    is(-6, 'tidemq_custom_depth')
    is(6, 'tidemq_custom_plain_total')
    is(3, 'tidemq_script_counter', { name = 'all orders' })
    is(21, 'tidemq_script_counter', { name = 'depth' })
    is(1, 'tidemq_custom_sizes_bucket', { of = 'orders', le = '1.0' })
    is(2, 'tidemq_custom_sizes_bucket', { of = 'orders', le = '10.0' })
    is(3, 'tidemq_custom_sizes_bucket', { of = 'orders', le = '+Inf' })
    is(3, 'tidemq_custom_sizes_count', { of = 'orders' })
    is(16, 'tidemq_custom_sizes_sum', { of = 'orders' })
    assert.matches('# HELP tidemq_custom_depth counts orders %(filter/10%-orders.lua%)\n'
      .. '# TYPE tidemq_custom_depth gauge\n', text)
    local _, families = text:gsub('# TYPE tidemq_custom_orders_total counter', '')
    assert.equal(1, families)
    exposition.parse((scrape(at, nil, { Accept = 'application/openmetrics-text' })), 'openmetrics')
    local stats = rules:document 'STATS'
    assert.equal(1, stats.counters['orders{country="at"}'])
    assert.same({ 'depth', 'sizes' }, { stats.metrics[1].name, stats.metrics[2].name })
    assert.equal(16, stats.metrics[2].sum)
    rules:close()
    at:close()
    own:expect_clean_stop()
  end)

  it('have a type, a help that is a sentence, and a name as Prometheus has them', function()
    local text = scrape(http)
    for name, family in pairs(exposition.parse(text).families) do
      assert.matches('^%u.*%.$', (family.help:gsub('^1: ', 'One ')), name)
      assert.is_truthy(({ counter = 1, gauge = 1, histogram = 1 })[family.type], name)
      assert.is_true(name:find '^tidemq_' == 1 or name:find '^process_' == 1, name)
    end
    for name, kind in text:gmatch '# TYPE (%S+) (%S+)' do
      assert.equal(kind == 'counter', name:find '_total$' ~= nil, name)
    end
  end)

  it('are those of docs/monitoring.md, and no others', function()
    local documented = {}
    local text = scrape(http)
    for name, kind in shell.read_file('docs/monitoring.md'):gmatch '\n| `([%w_]+)` | (%a+) | ' do
      documented[#documented + 1] = name
      assert.equal(text:match('# TYPE ' .. name .. ' (%a+)'), kind, name)
    end
    table.sort(documented)
    assert.same(names_of(text), documented)
  end)

  it('are those that the examples ask for', function()
    local known = {}
    local m = read(http)
    for _, family in pairs(m.families) do
      known[family.name] = true
      if family.type == 'counter' then known[family.name .. '_total'] = true end
      for _, suffix in ipairs(family.type == 'histogram' and { '_bucket', '_sum', '_count' } or {}) do
        known[family.name .. suffix] = true
      end
    end
    local dashboard = shell.read_file 'examples/monitoring/dashboard.json'
    assert.is_table(json.decode(dashboard))
    local count = 0
    for _, text in ipairs { shell.read_file 'examples/monitoring/alerts.yml', dashboard } do
      for name in text:gmatch '%f[%w_][tp][%l]+_[%l_]+' do
        if name:find '^tidemq_' or name:find '^process_' then
          assert.is_true(known[name], name)
          count = count + 1
        end
      end
    end
    assert.is_true(count > 60)
  end)

  needs.client(it, 'promtool --version')('have rules that promtool takes', function()
    local output, checked = shell.run 'promtool check config examples/monitoring/prometheus.yml 2>&1'
    assert.equal(0, checked, output)
  end)

  it('refuse what they do not know', function()
    assert.equal("per: expected queue or vhost, not 'x'", http:expect_error(400, 'syntax', 'GET', '/metrics?per=x'))
    http:expect_error(400, 'syntax', 'GET', '/metrics?by=vhost')
    local other = Http.connect(broker)
    assert.equal(405, other:post('/metrics').status)
    other:close()
  end)

  it('end when the peer does', function()
    for _ = 1, 10 do
      local other = Http.connect(broker)
      other:send('GET', '/metrics')
      other:close()
    end
    assert.equal(200, http:get('/metrics').status)
  end)
end)

describe('metrics of a broker with users', function()
  it('take the tag monitor', function()
    local broker = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
    users.restore(broker.redis, {
      anna = { vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
      prometheus = { tags = { 'monitor' } },
    })
    broker:run()
    local http = Http.connect(broker)
    assert.equal(401, http:get('/metrics').status)
    http:log_in('anna', 'secret')
    assert.matches("monitor", http:expect_error(403, 'denied', 'GET', '/metrics'))
    http:log_in('prometheus', 'secret')
    local m = read(http)
    assert.equal(0, value(m, 'tidemq_anonymous'))
    assert.equal(2, value(m, 'tidemq_users'))
    assert.equal(2, value(m, 'tidemq_logins_total', { outcome = 'accepted' }))
    http:close()
    broker:expect_clean_stop()
  end)
end)

describe('metrics of very many queues', function()
  local QUEUES = 4000
  local broker, http, c

  local function declare(from, to)
    local lines = {}
    for i = from, to do lines[#lines + 1] = ('DECLARE queue q%d durable=0 quiet\r\n'):format(i) end
    c:send(table.concat(lines))
    c:ok 'PING'
  end

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--store', 'none' } }
    http = Http.connect(broker)
    c = broker:connect()
    for i = 1, QUEUES, 1000 do declare(i, i + 999) end
  end)
  teardown(function()
    c:close()
    http:close()
    broker:expect_clean_stop()
  end)

  it('come in pieces: others are served between them', function()
    http:send('GET', '/metrics')
    assert.equal(200, http:head().status)
    local parts, turns, pings = {}, c:document('STATS').loop.count, 0
    for piece in function() return http:chunk() end do
      parts[#parts + 1] = piece
      if #parts % 10 == 0 then
        c:ok 'PING'
        pings = pings + 1
      end
    end
    local text = table.concat(parts)
    local _, count = text:gsub('\ntidemq_queue_messages_ready{', '')
    assert.equal(QUEUES, count)
    assert.is_true(pings > 10)
    -- A piece has 128 KiB at most, and a turn makes two at most.
    assert.is_true(c:document('STATS').loop.count - turns > #text / (256 * 1024))
    assert.is_true(#text > 4 * 1024 * 1024)
  end)

  it('wait for a peer that does not read, and take little memory', function()
    local before = broker:memory()
    local slow = Http.connect(broker)
    slow:send('GET', '/metrics')
    assert.equal(200, slow:head().status)
    for _ = 1, 20 do c:ok 'PING' end
    broker:expect_memory_below(before + (8 << 20))
    slow:close()
  end)

  it('have each queue that stays once, whatever comes and goes', function()
    http:send('GET', '/metrics')
    assert.equal(200, http:head().status)
    local parts, n = {}, 0
    for piece in function() return http:chunk() end do
      parts[#parts + 1] = piece
      if #parts % 2 == 0 and n < 500 then
        n = n + 1
        -- It goes, and comes again at the end of the list.
        c:ok(('DELETE queue q%d'):format(n))
        c:ok(('DECLARE queue q%d durable=0'):format(n))
      end
    end
    assert.is_true(n > 50)
    local families = {}
    for name, queue in table.concat(parts):gmatch '\ntidemq_queue_([%l_]+){vhost="/",queue="([^"]*)"}' do
      local f = families[name] or { seen = {}, count = 0 }
      assert.is_nil(f.seen[queue], name)
      families[name], f.seen[queue], f.count = f, true, f.count + 1
    end
    local family_count = 0
    for name, f in pairs(families) do
      family_count = family_count + 1
      assert.is_true(f.count >= QUEUES - n and f.count <= QUEUES, name)
      for i = n + 1, QUEUES do assert.is_true(f.seen['q' .. i], i) end
    end
    assert.equal(28, family_count)
  end)

  it('end with their connection, which somebody kills', function()
    local slow = Http.connect(broker)
    slow:send('GET', '/metrics')
    assert.equal(200, slow:head().status)
    local number = 0
    for _, row in ipairs(c:document 'LIST connections') do
      if row.protocol == 'http' then number = math.max(number, row.connection) end
    end
    c:ok('KILL connection ' .. number)
    assert(wait.poll(function() return c:document('STATS').net.open.http == 1 end))
    slow:close()
    assert.is_true(#scrape(http, '?per=vhost') > 0)
  end)

  it('do not keep the broker from stopping', function()
    local other = Broker.start {
      http = '127.0.0.1:0', args = { '--store', 'none', '--drain-timeout', '200ms' },
    }
    local d = other:connect()
    local lines = {}
    for i = 1, QUEUES do lines[i] = ('DECLARE queue q%d durable=0 quiet\r\n'):format(i) end
    d:send(table.concat(lines))
    d:ok 'PING'
    for _, query in ipairs { '', '?per=vhost', '' } do
      local slow = Http.connect(other)
      slow:send('GET', '/metrics' .. query)
      if query == '' then assert.equal(200, slow:head().status) end
    end
    other:expect_clean_stop()
  end)

  it('are few when they are sums', function()
    local text = scrape(http, '?per=vhost')
    assert.is_true(#text < 60000)
    assert.equal(0, value(exposition.parse(text), 'tidemq_queue_messages_ready', { vhost = '/' }))
  end)
end)
