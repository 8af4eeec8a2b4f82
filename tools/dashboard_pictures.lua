--- Makes docs/dashboard-*.png, from a broker with a demo's load: `make pictures`, or in the root of the repository
---   lua5.4 tools/dashboard_pictures.lua [SECONDS]
--- SECONDS: how long the load runs before the first picture; the charts show it. Default: 240.
package.path = './lua/?.lua;./tests/?.lua;./tests/integration/?.lua;' .. package.path
local Broker = require 'support.broker'
local Browser = require 'support.browser'
local shell = require 'support.shell'
local socket = require 'socket'

local WIDTH, HEIGHT = 1200, 820
local SECONDS = tonumber(arg[1]) or 240

local tier = [[
-- Orders from 300 on are gold. Orders without a total are refused.
return {
  doc = "the tier of an order",
  match = { exchange = "orders" },

  publish = function(msg)
    local total = tonumber(msg.payload:match '"total":([%d.]+)')
    if not total then
      return false, "an order needs a total"
    end
    if total >= 300 then
      msg.headers.tier = "gold"
    end
  end,
}
]]

local broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' }, rules = { ['filter/tier.lua'] = tier } }
local c = broker:connect()

local function declare()
  c:ok 'DECLARE exchange orders topic alternate=unclaimed'
  c:ok 'DECLARE exchange unclaimed fanout internal'
  for _, queue in ipairs {
    'billing shards=4 dead-letter=-/billing.failed', 'billing.failed', 'shipping.eu', 'shipping.us',
    'mail retry=exponential retry.base=500ms', 'audit', 'vip priority=strict', 'nobody-wanted',
  } do
    c:ok('DECLARE queue ' .. queue)
  end
  c:ok 'DECLARE topic clicks partitions=4'
  c:ok 'DECLARE exchange vips headers'
  c:ok 'BIND vip vips - h:tier=gold'
  c:ok 'BIND vips orders # dest=exchange'
  for _, binding in ipairs {
    'billing orders orders.*.paid', 'shipping.eu orders orders.eu.#', 'shipping.us orders orders.us.#',
    'mail orders orders.*.*', 'audit orders #', 'nobody-wanted unclaimed -',
  } do
    c:ok('BIND ' .. binding)
  end
end

--- A consumer that acks a message each `every` seconds, and fails with each `fails`th.
local function consumer(queue, every, fails)
  local client = broker:connect()
  client:document(('HELLO name=%s-worker-1'):format(queue))
  client:ok(('SUB %s worker prefetch=20'):format(queue))
  return { client = client, every = every, fails = fails, due = 0, count = 0, waiting = {} }
end

local function serve(one, now)
  while true do
    local line = one.client:read_line(0)
    if not line then break end
    if line:find '^MSG' then table.insert(one.waiting, one.client:delivery(line).tag) end
  end
  while one.due <= now and #one.waiting > 0 do
    one.count = one.count + 1
    local has_failed = one.fails and one.count % one.fails == 0
    one.client:send((has_failed and 'NACK %s dead\r\n' or 'ACK %s\r\n'):format(table.remove(one.waiting, 1)))
    one.due = math.max(one.due, now - 1) + one.every
  end
end

-- A group that acks nothing, and one that acks all it gets.
local function readers()
  local slow, fast = broker:connect(), broker:connect()
  slow:document 'HELLO name=warehouse-loader-1'
  slow:ok 'SUB clicks load group=warehouse-loader prefetch=10'
  fast:document 'HELLO name=recommender-1'
  fast:ok 'SUB clicks recommend group=recommender ack=auto'
  return { fast, slow }
end

local consumers, reading
local published, started = 0, socket.gettime()
local kinds = { 'eu.paid', 'us.paid', 'eu.new', 'us.new', 'eu.shipped' }

local function publish()
  published = published + 1
  local kind = kinds[published % #kinds + 1]
  c:ok(('PUB orders orders.%s h:type=application/json h:customer=%d'):format(kind, 1000 + published % 37),
    ('{"order":%d,"state":"%s","total":%.2f}'):format(70000 + published, kind:match '[^.]*$', published * 7.31 % 400))
  if published % 3 == 0 then c:ok('PUB - clicks', ('{"page":"/p/%d"}'):format(published % 90)) end
  if published % 400 == 0 then c:ok('PUB orders asia', '{"total":1}') end
end

local function load_for(seconds)
  local last = socket.gettime()
  local due = 0
  local deadline = last + seconds
  while last < deadline do
    local now = socket.gettime()
    due = due + (now - last) * (60 + 40 * math.sin((now - started) / 25) + 8 * math.sin((now - started) / 3))
    last = now
    while due >= 1 do
      due = due - 1
      publish()
    end
    for _, one in ipairs(consumers) do serve(one, now) end
    while reading[1]:read_line(0) do end
    socket.sleep(0.01)
  end
end

local function save(browser, name)
  browser:run 'scrollTo(0, 0)'
  local path = ('docs/dashboard-%s.png'):format(name)
  shell.write_file(path, browser:picture())
  print(path, #shell.read_file(path))
end

local function pictures()
  local browser = Browser.start()
  browser:prefer 'light'

  browser:resize(WIDTH, 1120)
  browser:open(broker, '#/overview')
  browser:expect_text('main', 'Messages a second')
  load_for(8)
  save(browser, 'overview')
  browser:resize(WIDTH, HEIGHT)

  browser:open(broker, '#/queues/billing')
  browser:expect_text('[data-table=messages]', 'orders')
  browser:click '[data-table=messages] button'
  browser:expect '.message pre'
  load_for(5)
  save(browser, 'queue')

  browser:open(broker, '#/queues/billing.failed')
  browser:expect_text('[data-table=messages]', 'rejected')
  load_for(3)
  browser:resize(WIDTH, 600)
  save(browser, 'dead-letters')

  browser:prefer 'dark'
  browser:resize(WIDTH, 450)
  browser:open(broker, '#/queues?sort=ready&order=desc')
  browser:expect_text('[data-table=queues]', 'billing')
  load_for(3)
  save(browser, 'queues')
  browser:prefer 'light'

  browser:resize(WIDTH, 1050)
  browser:open(broker, '#/route?exchange=orders&key=orders.eu.paid&headers=customer%3A+1007&payload='
    .. '%7B%22order%22%3A70001%2C%22total%22%3A372.5%7D')
  browser:expect_text('main', 'shipping.eu')
  load_for(2)
  save(browser, 'route')
  browser:resize(WIDTH, HEIGHT)

  browser:open(broker, '#/rules')
  browser:expect_text('main', 'tier.lua')
  load_for(3)
  save(browser, 'rules')

  browser:open(broker, '#/exchanges/orders')
  browser:expect_text('main', 'shipping.us')
  load_for(2)
  save(browser, 'exchange')

  broker:write_rule('filter/broken.lua', 'return {')
  browser:resize(390, HEIGHT)
  browser:open(broker, '#/queues?sort=ready&order=desc')
  browser:expect_text('[data-table=queues]', 'billing')
  load_for(8)
  browser:expect_text('nav', 'Overview1')
  save(browser, 'phone')
  browser:destroy()
end

declare()
consumers = {
  consumer('billing', 0.06, 40), consumer('shipping.eu', 0.012), consumer('mail', 0.011), consumer('audit', 0.008),
  consumer('vip', 0.07),
}
reading = readers()
load_for(SECONDS)
pictures()
broker:expect_clean_stop()
broker:destroy()
