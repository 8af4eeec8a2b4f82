-- The dashboard: exchanges with their picture, and the route tester, in a headless Chromium.
local Broker = require 'support.broker'
local Browser = require 'support.browser'
local needs = require 'support.needs'

local ORDERS = [[
return {
  match = { exchange = "orders", key = "orders.#" },
  publish = function(msg)
    if not msg.headers.amount then
      return false, "an order has an amount"
    end
    msg.headers.currency = msg.headers.currency or "EUR"
    if tonumber(msg.headers.amount) >= 10000 then msg:copy { exchange = "-", key = "review" } end
  end,
}]]

needs.browser(describe)('the dashboard', function()
  local broker, browser, c

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', rules = { ['filter/20-orders.lua'] = ORDERS },
      args = { '--store', 'none' } }
    browser = Browser.start()
  end)
  teardown(function()
    browser:destroy()
    broker:expect_clean_stop()
  end)
  before_each(function()
    c = broker:enter_vhost()
    browser:reset()
  end)
  after_each(function() c:close() end)

  -- A place of the page, in the vhost of the test.
  local function open(place)
    browser:open(broker, ('#/%s%svhost=%s'):format(place, place:find '?' and '&' or '?', broker.vhost))
  end

  local function define(...)
    for _, line in ipairs { ... } do c:ok(line) end
  end

  local function bindings()
    local list = {}
    for i, b in ipairs(c:document 'LIST bindings') do
      list[i] = ('%s %s %s %s'):format(b.exchange, b.to, b.destination, b.pattern)
    end
    return list
  end

  -- The boxes of the picture, and its edges as "from > to: texts".
  local function boxes()
    return browser:run [[return [...document.querySelectorAll('.graph .box')].map((e) => e.dataset.id).sort()]]
  end

  local function edges()
    return browser:run [[
      return [...document.querySelectorAll('.graph .edge')].map((e) => `${e.dataset.from} > ${e.dataset.to}: ` +
        [...e.querySelectorAll('text')].map((t) => t.textContent).join(', ')).sort();
    ]]
  end

  -- The picture is there, with this part of a text.
  local function expect_picture(part)
    browser:expect_js("document.querySelector('.graph')?.textContent.includes(arguments[0])", part or '')
  end

  describe('of exchanges', function()
    it('has them in a list, and who gets what in a picture', function()
      define('DECLARE exchange orders topic alternate=lost', 'DECLARE exchange lost fanout',
        'DECLARE exchange audit headers', 'DECLARE queue eu',
        'DECLARE topic history', 'DECLARE queue unclaimed', 'BIND eu orders orders.eu.#',
        'BIND eu orders *.eu', 'BIND audit orders # dest=exchange', 'BIND history audit - region=eu',
        'BIND unclaimed lost -')
      open 'exchanges'
      browser:expect_rows('exchanges', { 'audit', 'lost', 'orders' })
      expect_picture()
      assert.same({ 'exchange:audit', 'exchange:lost', 'exchange:orders', 'queue:eu', 'queue:unclaimed',
        'topic:history' }, boxes())
      assert.same({ 'exchange:audit > topic:history: region=eu', 'exchange:lost > queue:unclaimed: (all)',
        'exchange:orders > exchange:audit: #', 'exchange:orders > exchange:lost: otherwise',
        'exchange:orders > queue:eu: orders.eu.#, *.eu' }, edges())
      browser:type({ field = 'search exchanges' }, 'aud')
      browser:expect_rows('exchanges', { 'audit' })
      browser:click { link = 'audit' }
      browser:expect_text('h1', 'Exchange audit')
      browser:expect_no_problems()
    end)

    it('declares one, binds, unbinds and deletes it', function()
      define 'DECLARE queue jobs'
      open 'exchanges'
      browser:click { button = 'Declare' }
      browser:type({ field = 'Name' }, 'news')
      browser:choose({ field = 'Type' }, 'fanout: every binding')
      browser:click { field = 'durable: it survives a restart' }
      browser:click { button = 'Declare' }
      browser:expect_text('h1', 'Exchange news')
      local x = c:document('LIST exchanges')[1]
      assert.same({ 'news', 'fanout', false }, { x.name, x.type, x.durable })

      browser:expect_text('main', 'Nothing is bound to it.')
      browser:click { button = 'Bind' }
      browser:type({ field = 'Its name' }, 'no-such-queue')
      browser:click { button = 'Bind' }
      browser:expect_text('dialog', 'no-such-queue')
      browser:type({ field = 'Its name' }, 'jobs')
      browser:type({ field = 'Pattern' }, 'some.key')
      browser:click { button = 'Bind' }
      browser:expect_rows('bindings', { 'jobs' })
      assert.same({ 'news queue jobs some.key' }, bindings())
      expect_picture()
      assert.same({ 'exchange:news > queue:jobs: some.key' }, edges())

      browser:click { button = 'Unbind' }
      browser:expect_text('dialog', 'queue jobs gets no more messages')
      browser:click { button = 'Cancel' }
      assert.equal(1, #bindings())
      browser:click { button = 'Unbind' }
      browser:click { button = 'Unbind' }
      browser:expect_rows('bindings', {})
      assert.same({}, bindings())

      browser:click { button = 'Delete' }
      assert.is_true(browser:run "return document.querySelector('dialog .button.danger').disabled")
      browser:type({ field = 'Type news to go on' }, 'news')
      browser:click { button = 'Delete' }
      browser:expect_text('h1', 'Exchanges')
      assert.same({}, c:document 'LIST exchanges')
      -- The view may look for news of the exchange between its end and the next view.
      browser:expect_no_problems('bindings .* 404', 'exchanges/news .* 404')
    end)

    it('shows what leads there, what it leads to, and no more than can be read of 2,000 bindings', function()
      local parts = { 'DECLARE exchange big topic quiet\r\nDECLARE exchange before fanout quiet\r\nBIND big before - '
        .. 'dest=exchange quiet\r\nDECLARE exchange behind fanout quiet\r\nBIND behind big a dest=exchange quiet\r\n'
        .. 'DECLARE queue last quiet\r\nBIND last behind - quiet\r\n' }
      for i = 1, 2000 do
        parts[#parts + 1] = ('DECLARE queue q%04d durable=0 quiet\r\nBIND q%04d big key.%d quiet\r\n'):format(i, i, i)
      end
      c:send(table.concat(parts))
      c:document 'LIST exchanges'
      open 'exchanges/big'
      browser:expect_text('.pager', '1–40 of 2,001')
      expect_picture()
      local shown = table.concat(boxes(), ' ')
      assert.matches('exchange:before', shown)
      assert.matches('exchange:behind', shown)
      assert.matches('queue:last', shown)
      assert.is_true(#boxes() < 60)
      expect_picture('1,961 bindings more')
      browser:type({ field = 'search bindings' }, 'key.177')
      browser:expect_rows('bindings', { 'q0177', 'q1770', 'q1771', 'q1772', 'q1773', 'q1774', 'q1775', 'q1776', 'q1777',
        'q1778', 'q1779' })
      browser:expect_js "!document.querySelector('.graph').textContent.includes('more')"
      open 'exchanges'
      browser:expect_text('main', '2,003 bindings are too many for one picture')
      browser:expect_no_problems()
    end)

    it('says why one cannot be declared, and that one is not there', function()
      define 'DECLARE exchange taken topic'
      open 'exchanges'
      browser:click { button = 'Declare' }
      browser:type({ field = 'Name' }, 'taken')
      browser:choose({ field = 'Type' }, 'fanout: every binding')
      browser:click { button = 'Declare' }
      browser:expect_text('dialog', 'taken')
      browser:expect_text('dialog', 'topic')
      browser:press 'escape'
      open 'exchanges/none'
      browser:expect_text('main', "there is no exchange 'none' in vhost '" .. broker.vhost .. "'")
      browser:expect_no_problems('taken .* 409', 'none .* 404')
    end)

    it('has names that look like HTML as text', function()
      define('DECLARE exchange <img/src=x/onerror=alert(1)> fanout', 'DECLARE queue <b>bold</b>',
        'BIND <b>bold</b> <img/src=x/onerror=alert(1)> <i>pattern</i>')
      open 'exchanges'
      browser:expect_rows('exchanges', { '<img/src=x/onerror=alert(1)>' })
      expect_picture()
      expect_picture('<b>bold</b>')
      browser:click { link = '<img/src=x/onerror=alert(1)>' }
      browser:expect_rows('bindings', { '<b>bold</b>' })
      browser:expect_text('[data-table=bindings]', '<i>pattern</i>')
      browser:expect_no_problems()
    end)

    it('shows the keys that no queue took, each with a way to the route tester', function()
      define 'DECLARE exchange news topic'
      c:ok('PUB news no.such.place', 'x')
      open 'exchanges/news'
      browser:click { link = 'no.such.place' }
      browser:expect_text('h1', 'Route tester')
      browser:expect_text('.verdict', 'Unroutable')
      browser:expect_no_problems()
    end)
  end)

  describe('of routes', function()
    before_each(function()
      define('DECLARE exchange orders topic alternate=lost', 'DECLARE exchange lost fanout',
        'DECLARE exchange audit fanout', 'DECLARE queue eu shards=4 priority=strict',
        'DECLARE queue review', 'DECLARE queue unclaimed',
        'DECLARE topic history', 'BIND eu orders orders.eu.#', 'BIND audit orders orders.# dest=exchange',
        'BIND history audit -', 'BIND unclaimed lost -')
    end)

    local function test(exchange, key, headers)
      open 'route'
      browser:type({ field = 'Exchange' }, exchange)
      browser:type({ field = 'Routing key' }, key)
      browser:type({ field = 'Headers' }, headers or '')
      browser:click { button = 'Test' }
      browser:expect '.verdict'
    end

    it('draws the way from the message to the queues, with the scripts and lines that decided', function()
      test('orders', 'orders.eu.new', 'amount: 20000')
      browser:expect_text('.verdict', 'Goes to one queue and one topic: eu, history, and one copy')
      assert.same({ 'copy:1', 'filter:0', 'message', 'q:0:eu', 'q:0:history', 'q:1:review', 'x:0:audit', 'x:0:orders' },
        boxes())
      assert.same({ 'copy:1 > q:1:review: by its name', 'filter:0 > copy:1: ', 'filter:0 > x:0:orders: ',
        'message > filter:0: ', 'x:0:audit > q:0:history: (all)', 'x:0:orders > q:0:eu: orders.eu.#',
        'x:0:orders > x:0:audit: orders.#' }, edges())
      local picture = browser:run "return document.querySelector('.graph').textContent"
      assert.matches('filter/20%-orders%.lua:8', picture)
      assert.matches('currency: %(none%) → EUR', picture)
      assert.matches('2 of 2 bindings', picture)
      assert.matches('shard %d · shipped/sharding/hash%.lua:%d+', picture)
      assert.matches('rank 0 · shipped/priority/strict%.lua:%d+', picture)
      browser:expect_text('.steps', 'makes one copy')
      browser:expect_no_problems()
    end)

    it('opens the source at the line that decided', function()
      test('orders', 'orders.eu.new')
      browser:expect_text('.verdict', 'Rejected: an order has an amount (filter/20-orders.lua)')
      assert.same({ 'filter:0', 'message' }, boxes())
      browser:click { link = 'filter/20-orders.lua:5' }
      browser:expect_text('dialog h2', 'filter/20-orders.lua, line 5')
      browser:expect_text('dialog tr.decided', 'return false, "an order has an amount"')
      assert.equal(2, browser:run "return document.querySelectorAll('dialog tr.ran, dialog tr.decided').length")
      browser:click { link = 'Open as a page' }
      browser:expect_text('h1', 'filter/20-orders.lua')
      browser:expect_text('tr.decided', 'return false')
      browser:expect_no_problems()
    end)

    it('shows alternates and dead ends', function()
      test('orders', 'elsewhere')
      browser:expect_text('.verdict', 'Goes to one queue: unclaimed')
      assert.same({ 'message > x:0:orders: ', 'x:0:lost > q:0:unclaimed: (all)', 'x:0:orders > x:0:lost: otherwise' },
        edges())
      test('audit', 'k')
      browser:expect_text('.verdict', 'Goes to one topic: history')
      c:ok 'UNBIND history audit -'
      browser:click { button = 'Test' }
      browser:expect_text('.verdict', 'Unroutable: no queue takes it')
      expect_picture('no queue takes it')
      test('-', 'review')
      browser:expect_text('.verdict', 'Goes to one queue: review')
      browser:expect_no_problems()
    end)

    it('says whether the decision was remembered', function()
      test('audit', 'k')
      browser:expect_text('.verdict', 'decided now')
      c:ok('PUB audit k', 'x')
      browser:click { button = 'Test' }
      browser:expect_text('.verdict', 'remembered')
      browser:expect_no_problems()
    end)

    it('has its inputs in the address', function()
      test('orders', 'orders.eu.new', 'amount: 1\nnote: a=b, c')
      browser:type({ field = 'Priority' }, '7')
      browser:type({ field = 'Delay' }, '90s')
      browser:click { button = 'Test' }
      browser:expect_text('.steps', 'delayed')
      local address = browser:run 'return location.href'
      browser:open(broker, '#/exchanges')
      browser:expect_text('h1', 'Exchanges')
      browser:open(broker, address:match '#.*')
      browser:expect_text('.verdict', 'Goes to one queue and one topic')
      browser:expect_text('.steps', 'note: a=b, c')
      assert.same({ '7', '90s' }, browser:run [[return ['priority', 'delay'].map((n) =>
        document.querySelector(`[name=${n}]`).value)]])
      browser:expect_no_problems()
    end)

    it('decides again while somebody types', function()
      test('orders', 'orders.eu.new')
      browser:type({ field = 'Headers' }, 'amount: 5')
      browser:expect_text('.verdict', 'Goes to one queue and one topic: eu, history')
      browser:expect_no_problems()
    end)

    it('publishes for real after a question', function()
      test('orders', 'orders.eu.new', 'amount: 5')
      browser:type({ field = 'Payload' }, 'hello')
      browser:click { button = 'Publish it for real' }
      browser:expect_text('dialog', 'Goes to one queue and one topic: eu, history')
      browser:click { button = 'Cancel' }
      assert.equal(0, c:stats('eu').ready)
      browser:click { button = 'Publish it for real' }
      browser:click { button = 'Publish' }
      browser:expect_text('.toast', 'Published to 2 queues and topics')
      c:ok 'GET eu ack=auto'
      local m = c:expect_msg()
      assert.same({ 'hello', 'orders.eu.new', '5', 'EUR' }, { m.payload, m.key, m.headers.amount, m.headers.currency })
      browser:expect_no_problems()
    end)

    it('says what is wrong with the inputs', function()
      test('none', 'k')
      browser:expect_text('.verdict', "there is no exchange 'none' in vhost '" .. broker.vhost .. "'")
      browser:type({ field = 'Headers' }, 'nonsense')
      browser:expect_text('.verdict', "'nonsense' is no header")
      browser:type({ field = 'Headers' }, '')
      browser:type({ field = 'Exchange' }, 'orders')
      browser:type({ field = 'Delay' }, 'soon')
      browser:expect_text('.verdict', 'delay')
      assert.is_true(browser:run [[return [...document.querySelectorAll('button')].find((b) =>
        b.textContent === 'Publish it for real').disabled]])
      browser:expect_no_problems('explain .* 40[04]')
    end)
  end)
end)
