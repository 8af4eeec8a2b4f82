-- What a person sees of the dashboard at a glance: problems before all else, names rather than numbers, nothing that is
-- empty, and nothing that is cut, on a large screen or a small one.
local Broker = require 'support.broker'
local Browser = require 'support.browser'
local needs = require 'support.needs'
local users = require 'support.users'

local ORDERS = 'warehouse.eu-central.fulfilment.priority-orders'
local FAILED = 'warehouse.eu-central.fulfilment.failed'
local STOCK = 'warehouse.stock-movements.eu-central'
local WORKER = 'fulfilment-worker-1.eu-central-1.internal'

needs.browser(describe)('at a glance, the dashboard', function()
  local broker, browser, c
  local workers = {}

  local function open(path)
    local place, query = path:match '^(%S-)%?(.*)$'
    browser:open(broker, ('#/%s?vhost=%s%s'):format(place or path, broker.vhost, query and '&' .. query or ''))
    browser:expect 'main h1'
    browser:expect_js 'document.querySelector("main").getAttribute("aria-busy") === null'
  end

  local function publish(words, n)
    for i = 1, n do c:ok(('PUB %s h:customer=%d'):format(words, 1000 + i), ('{"order":%d,"total":372.5}'):format(i)) end
  end

  -- A client with a name, which stays.
  local function worker(name)
    local client = users.stranger(broker)
    client:document(('HELLO name=%s vhost=%s'):format(name, broker.vhost))
    workers[#workers + 1] = client
    return client
  end

  local function fill()
    c:ok('DECLARE queue ' .. FAILED)
    c:ok(('DECLARE queue %s shards=4 dead-letter=-/%s'):format(ORDERS, FAILED))
    c:ok(('DECLARE topic %s partitions=16'):format(STOCK))
    c:ok 'DECLARE exchange orders topic'
    for _, name in ipairs { ORDERS, STOCK } do c:ok(('BIND %s orders orders.#'):format(name)) end
    for i = 1, 30 do c:ok(('DECLARE queue tenant-%03d.notifications'):format(i)) end
    for i = 1, 40 do publish('orders orders.eu.customer-' .. i, 1) end
    for _ = 1, 5 do c:ok(('NACK %s dead'):format(c:get(ORDERS)[1].tag)) end
    c:ok(('NACK %s bury'):format(c:get(ORDERS)[1].tag))
    local consumer = worker(WORKER)
    consumer:ok(('SUB %s orders-1 prefetch=20'):format(ORDERS))
    for _ = 1, 20 do consumer:expect_msg() end
    worker 'analytics-1':ok(('SUB %s a prefetch=1 group=analytics-warehouse-loader'):format(STOCK))
  end

  -- The heads of a table that are shown.
  local function heads(name)
    return table.concat(browser:run([[
      return [...document.querySelectorAll(`[data-table="${arguments[0]}"] th`)].filter((e) => !e.hidden)
        .map((e) => e.textContent);
    ]], name), ' | ')
  end

  -- What has more in it than it shows, but for pictures, and texts that say where they go on.
  local function cut()
    return browser:run [[
      const page = document.scrollingElement;
      const list = page.scrollWidth > innerWidth ? [`the page: ${page.scrollWidth} of ${innerWidth}`] : [];
      for (const e of document.querySelectorAll('nav, main *')) {
        if (!(e instanceof HTMLElement) || e.closest('.graph-box, pre, textarea') || e.clientWidth === 0) continue;
        if (e.scrollWidth <= e.clientWidth + 1) continue;
        list.push(`${e.tagName} ${e.className}: ${e.scrollWidth} of ${e.clientWidth}`);
      }
      return list;
    ]]
  end

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    browser = Browser.start()
  end)

  before_each(function()
    browser:reset()
    c = broker:enter_vhost()
  end)

  after_each(function()
    for _, client in ipairs(workers) do client:close() end
    workers = {}
  end)

  teardown(function()
    if browser then browser:destroy() end
    if broker then
      broker:expect_clean_stop()
      broker:destroy()
    end
  end)

  -- Before the others: their dead letters are something to warn of.
  it('shows on every view what is wrong, and how much in the menu', function()
    open 'queues'
    assert.is_false(browser:has '.count')
    c:ok 'DRAIN'
    finally(function() c:ok 'DRAIN off' end)
    browser:expect_text('[data-part=health] .bad', 'draining publishes are refused (DRAIN)')
    browser:expect_text('nav .count', 'pattern:^1$')
    assert.equal('one problem', browser:run 'return document.querySelector("nav .count").getAttribute("aria-label")')
    c:ok 'DRAIN off'
    browser:expect_gone '[data-part=health]'
    browser:expect_gone 'nav .count'
  end)

  -- What the page is told is wrong: by /health/ready, and by STATS.
  local function pretend(ready, stats)
    browser:run([[
      const [ready, stats] = arguments;
      const real = window.fetch;
      window.fetch = async (path, options) => {
        if (path === '/health/ready') return new Response(JSON.stringify(ready));
        const response = await real(path, options);
        if (path !== '/api/stats') return response;
        return new Response(JSON.stringify({ ...await response.json(), health: stats }));
      };
    ]], ready, stats)
  end

  it('shows reasons before warnings, the first two, and all with their names on the overview', function()
    local function note(text) return { code = 'code', text = text } end
    open 'queues'
    pretend({ reasons = { note 'a' }, warnings = { note 'b', note '2 queues' } },
      { reasons = { note 'a' }, warnings = { note 'b', note 'queue <b>c</b>', note 'queue d' } })
    browser:expect_text('[data-part=health]', 'pattern:^code a%s+code b%s+1 more$')
    browser:expect_text('nav .count', 'pattern:^3$')
    browser:click { link = '1 more' }
    browser:expect_text('[data-part=health]', 'pattern:^code a%s+code b%s+code queue <b>c</b>%s+code queue d$')
    assert.equal(3, browser:run 'return document.querySelectorAll("[data-part=health] .warn").length')
    browser:go(('#/queues?vhost=%s'):format(broker.vhost))
    browser:expect_text('[data-part=health]', 'pattern:^code a%s+code b%s+1 more$')
    browser:expect_no_problems()
  end)

  it('has what is wrong first, then what waits, then charts', function()
    fill()
    c:ok 'DRAIN'
    finally(function() c:ok 'DRAIN off' end)
    open 'overview'
    browser:expect_text('[data-part=health]', 'publishes are refused')
    browser:expect_js(('document.querySelector("[data-table=backlog] tbody td").textContent === %q'):format(ORDERS))
    browser:expect_rows('lags', { 'analytics-warehouse-loader' })
    local parts = { '[data-part=health]', '[data-table=backlog]', '[data-table=lags]', '.tiles', '.charts' }
    local tops = browser:run([[
      return arguments[0].map((css) => document.querySelector(css).getBoundingClientRect().top);
    ]], parts)
    for i = 2, #tops do assert.is_true(tops[i - 1] < tops[i], parts[i]) end
  end)

  it('says who consumes: name, user and address', function()
    fill()
    for _, path in ipairs { 'queues/' .. ORDERS, 'topics/' .. STOCK } do
      open(path)
      browser:expect_text('[data-table=consumers] tbody', 'pattern:127%.0%.0%.1:%d+')
    end
    open('queues/' .. ORDERS)
    browser:expect_rows('consumers', { WORKER })
    assert.equal('Consumer | Address | Subscription | Prefetch | Holds | Delivered', heads 'consumers')
    -- Of what it holds, one lease has begun.
    browser:expect_text('[data-table=leases]', 'has not begun')
    assert.is_nil(browser:text('main'):find 'NaN')
    browser:click { link = WORKER }
    browser:expect_text('h1', 'Connection')
  end)

  it('looks first at the state and the partition that have the most', function()
    c:ok 'DECLARE queue jobs'
    publish('- jobs', 3)
    for _ = 1, 2 do c:ok(('NACK %s bury'):format(c:get 'jobs'[1].tag)) end
    open 'queues/jobs'
    browser:expect_text('main', 'These are all.')
    assert.equal('buried', browser:run 'return document.querySelector("[aria-label=state]").value')
    assert.equal(2, #browser:rows 'messages')
    c:ok 'DECLARE topic events partitions=16'
    c:ok 'DECLARE exchange all fanout'
    c:ok 'BIND events all -'
    publish('all some-key', 5)
    open 'topics/events'
    browser:expect_text('[data-table=messages]', '{"order":1,')
    assert.equal(5, #browser:rows 'messages')
  end)

  it('says of dead letters why, where, when and after how much they died', function()
    fill()
    open('queues/' .. FAILED)
    browser:expect_text('[data-table=messages] tbody', 'rejected')
    assert.equal('Id | Reason | Died in | Died | Attempts | Size | Payload', heads 'messages')
    browser:expect_text('[data-table=messages] tbody', ORDERS)
    browser:expect_text('[data-table=messages] tbody', 'pattern:orders / orders%.eu%.customer%-%d+')
    browser:expect_text('[data-table=messages] tbody tr', 'pattern:%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d%s+1%s')
    open('queues/' .. ORDERS)
    browser:expect_text('[data-table=messages] tbody', 'orders.eu')
    assert.equal('Id | Key | Published | Size | Deliveries | Payload', heads 'messages')
    -- Another message beside the dead letters brings its own columns.
    c:ok(('PUB - %s'):format(FAILED), 'a message')
    open('queues/' .. FAILED)
    browser:expect_text('[data-table=messages] tbody', 'a message')
    assert.equal('Id | Key | Published | Reason | Died in | Died | Attempts | Size | Deliveries | Payload',
      heads 'messages')
  end)

  it('has no column that is empty', function()
    fill()
    open 'connections'
    browser:expect_text('[data-table=connections]', WORKER)
    -- Neither User nor TLS.
    assert.matches('^Number | Name | Vhost | Protocol | Peer | Channels | Pending | In', heads 'connections')
    open 'queues?match=tenant'
    browser:expect_text('[data-table=queues]', 'tenant-030')
    assert.equal('Name | Ready | Unacked | Delayed | Buried | In | Out | Consumers', heads 'queues')
    c:ok 'PAUSE tenant-007.notifications out'
    c:ok('PUB - tenant-007.notifications', 'hello')
    browser:expect_text('[data-table=queues] tbody', 'paused')
    assert.equal('Name | State | Ready | Unacked | Delayed | Buried | In | Out | Oldest | Consumers', heads 'queues')
  end)

  it('separates the lags of partitions by more than the digits of one', function()
    c:ok('DECLARE topic clicks partitions=1')
    worker 'analytics-1':ok 'SUB clicks a prefetch=1 group=loader'
    c:send(('PUB - clicks 2\r\nab\r\n'):rep(1200))
    for _ = 1, 1200 do c:expect '^OK' end
    open 'topics/clicks'
    browser:expect_text('[data-table=groups] .lags li', 'pattern:^partition 0: 1,200 a$')
  end)

  local VIEWS = { 'overview', 'queues', 'queues/' .. ORDERS, 'queues/' .. FAILED, 'topics', 'topics/' .. STOCK,
    'exchanges', 'exchanges/orders', 'route?exchange=orders&key=orders.eu.paid', 'rules', 'connections', 'users',
    'locks' }

  for _, width in ipairs { 1280, 390 } do
    it(('cuts nothing at a width of %d pixels'):format(width), function()
      fill()
      c:ok 'LOCK nightly-report-of-the-fulfilment-department'
      browser:resize(width, 900)
      for _, view in ipairs(VIEWS) do
        open(view)
        browser:expect_js '!document.querySelector("main").innerText.includes("Loading…")'
        assert.same({}, cut(), view)
      end
      browser:expect_no_problems()
    end)

    it(('shows Buried, Oldest, and an address in one line, at a width of %d pixels'):format(width), function()
      fill()
      browser:resize(width, 900)
      open('queues?match=' .. ORDERS)
      browser:expect_rows('queues', { ORDERS })
      for _, label in ipairs { 'Ready', 'Buried', 'Oldest', 'Consumers' } do
        local right = browser:run([[
          return document.querySelector(`[data-table=queues] td[data-label="${arguments[0]}"]`)
            .getBoundingClientRect().right;
        ]], label)
        assert.is_true(right > 0 and right <= width, label)
      end
      open('connections?match=' .. WORKER)
      browser:expect_text('[data-table=connections] td[data-label=Peer]', 'pattern:^127%.0%.0%.1:%d+$')
      assert.equal(1, browser:run [[
        const range = document.createRange();
        range.selectNodeContents(document.querySelector('[data-table=connections] td[data-label=Peer]'));
        return range.getClientRects().length;
      ]])
    end)
  end

  it('says that it loads, and in words what went wrong', function()
    c:ok 'DECLARE queue jobs'
    open 'queues'
    browser:run [[
      window.real = window.fetch;
      window.fetch = (path, options) => (path.endsWith('/queues/jobs')
        ? new Promise((resolve) => { window.answer = resolve; }) : real(path, options));
    ]]
    browser:go(('#/queues/jobs?vhost=%s'):format(broker.vhost))
    browser:expect_text('main', 'Loading…')
    browser:run [[
      window.fetch = window.real;
      window.answer(new Response('<h1>Bad gateway</h1>', { status: 502, statusText: 'Bad Gateway' }));
    ]]
    browser:expect_text('main', 'the answer is 502 Bad Gateway, without a reason; it may come from a proxy')
    browser:click { button = 'Try again' }
    browser:expect_text('h1', 'jobs')
  end)

  it('says that the broker is away when it does not answer for long', function()
    open 'queues'
    browser:run [[
      window.real = AbortSignal.timeout;
      AbortSignal.timeout = () => real.call(AbortSignal, 500);
    ]]
    broker:signal 'STOP'
    finally(function() broker:signal 'CONT' end)
    browser:expect_text('.banner', 'The broker does not answer')
    browser:run 'AbortSignal.timeout = real'
    broker:signal 'CONT'
    browser:expect_gone '.banner'
  end)
end)
