-- The dashboard, in a headless Chromium and on a real broker: what each view shows, and what each button does to the
-- broker, which is asked by the line protocol.
local Broker = require 'support.broker'
local Browser = require 'support.browser'
local needs = require 'support.needs'
local users = require 'support.users'
local wait = require 'support.wait'

needs.browser(describe)('the dashboard', function()
  local broker, browser, c
  local allowed

  -- Requests that a test has fail are on the console; all else there is a mistake.
  local function allow(...)
    allowed = { ... }
  end

  local function open(path)
    local place, query = path:match '^(%S-)%?(.*)$'
    browser:open(broker, ('#/%s?vhost=%s%s'):format(place or path, broker.vhost, query and '&' .. query or ''))
  end

  -- A question that is answered by typing a name: no other one will do.
  local function confirm(name, verb)
    local field = { field = ('Type %s to go on'):format(name) }
    browser:type(field, name .. 'x')
    browser:expect('dialog[open] button[type=submit]:disabled')
    browser:type(field, name)
    browser:click { button = verb, within = 'dialog[open]' }
    browser:expect_gone 'dialog[open]'
  end

  local function options_of(kind, name)
    for _, one in ipairs(c:document('LIST ' .. kind)) do
      if one.name == name then return one.options end
    end
  end

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    browser = Browser.start()
  end)

  before_each(function()
    allowed = {}
    browser:reset()
    c = broker:enter_vhost()
  end)

  after_each(function()
    browser:expect_no_problems(table.unpack(allowed))
  end)

  teardown(function()
    if browser then browser:destroy() end
    if broker then
      broker:expect_clean_stop()
      broker:destroy()
    end
  end)

  describe('overview', function()
    it('has figures and charts that move without a reload', function()
      c:ok 'DECLARE queue jobs'
      open 'overview'
      browser:expect_text('h1', 'Overview')
      browser:expect_text('[data-figure=ready]', 'pattern:^%d')
      local before = tonumber((browser:text '[data-figure=ready]':gsub('%D', '')))
      for _ = 1, 7 do c:ok('PUB - jobs', 'hello') end
      browser:expect_text('[data-figure=ready]', tostring(before + 7))
      browser:expect_text('main', 'embedded')
      browser:expect_js 'document.querySelectorAll(".chart path[d^=M]").length >= 6'
      browser:expect_rows('backlog', { 'jobs' })
    end)

    it('shows the values under the pointer', function()
      open 'overview'
      browser:expect_js 'document.querySelector(".chart path[d^=M]") !== null'
      browser:run [[
        const chart = document.querySelector('.chart');
        const box = chart.getBoundingClientRect();
        chart.dispatchEvent(new PointerEvent('pointermove', { clientX: box.right - 10, clientY: box.top + 10 }));
      ]]
      browser:expect_text('.when', 'pattern:%d%d:%d%d:%d%d')
    end)

    it('drains the broker after a question, and ends that', function()
      -- A broker that drains is not ready.
      allow ' 503 '
      open 'overview'
      browser:click { button = 'Drain' }
      browser:click { button = 'Cancel' }
      assert.is_false(c:document('STATS').draining)
      browser:click { button = 'Drain' }
      browser:click { button = 'Drain', within = 'dialog[open]' }
      browser:expect { button = 'End the drain' }
      browser:expect_text('[data-part=health]', 'draining')
      assert.is_true(c:document('STATS').draining)
      browser:click { button = 'End the drain' }
      browser:expect { button = 'Drain' }
      assert.is_false(c:document('STATS').draining)
    end)
  end)

  describe('queues', function()
    it('are declared, with options', function()
      open 'queues'
      browser:expect_text('main', 'This vhost has no queue yet.')
      browser:click { button = 'New queue' }
      browser:type({ field = 'Name' }, 'bills')
      browser:type({ field = 'Shards' }, '4')
      browser:type({ field = 'More options' }, 'order-by=key\ninflight=2')
      browser:click { button = 'Declare' }
      browser:expect_text('h1', 'bills')
      assert.same({ shards = '4', ['order-by'] = 'key', inflight = '2' }, options_of('queues', 'bills'))
      browser:expect_text('main', 'order-by')
    end)

    it('are not declared with a wrong option, and the form says why and stays', function()
      allow ' 400 '
      open 'queues'
      browser:click { button = 'New queue' }
      browser:type({ field = 'Name' }, 'bills')
      browser:type({ field = 'More options' }, 'colour=green')
      browser:click { button = 'Declare' }
      browser:expect_text('dialog .error', 'colour')
      browser:type({ field = 'More options' }, '')
      browser:click { button = 'Declare' }
      browser:expect_text('h1', 'bills')
      assert.same({}, options_of('queues', 'bills'))
    end)

    it('show what comes and goes without a reload', function()
      c:ok 'DECLARE queue jobs'
      open 'queues'
      browser:expect_rows('queues', { 'jobs' })
      c:ok('PUB - jobs', 'hello')
      browser:expect_text('[data-table=queues] tbody td:nth-child(3)', '1')
      c:ok 'DECLARE queue bills'
      browser:expect_rows('queues', { 'bills', 'jobs' })
      c:ok 'DELETE queue jobs'
      browser:expect_rows('queues', { 'bills' })
      browser:click { link = 'bills' }
      browser:expect_text('h1', 'bills')
      c:ok('PUB - bills', 'hello')
      browser:expect_text('[data-figure=ready]', '1')
    end)

    it('that are ten thousand are searched, sorted and paged by the broker', function()
      local lines = {}
      for i = 1, 10000 do lines[i] = ('DECLARE queue q-%05d durable=0\r\n'):format(i) end
      c:send(table.concat(lines))
      for _ = 1, 10000 do c:expect_line 'OK' end
      c:ok('PUB - q-00777', 'hello')
      open 'queues'
      browser:expect_text('.range', '1–50 of 10,000')
      assert.equal(50, #browser:rows 'queues')
      browser:click { button = 'next page' }
      browser:expect_text('.range', '51–100 of 10,000')
      assert.equal('q-00051', browser:rows('queues')[1])
      browser:click { button = 'Ready' }
      browser:expect_js 'document.querySelector("[data-table=queues] tbody td").textContent === "q-00777"'
      browser:expect_text('.range', '1–50 of 10,000')
      browser:click { button = 'Name' }
      browser:click { button = 'Name' }
      browser:expect_js 'document.querySelector("[data-table=queues] tbody td").textContent === "q-10000"'
      browser:type({ field = 'search queues' }, 'q-0012')
      browser:expect_text('.range', 'pattern:^10$')
      assert.equal('q-00129', browser:rows('queues')[1])
      assert.is_true(browser:run 'return document.querySelectorAll("tr").length' < 60)
      -- The address has it all.
      browser:reload()
      browser:expect_text('.range', 'pattern:^10$')
      assert.equal('q-00129', browser:rows('queues')[1])
      browser:type({ field = 'search queues' }, 'nothing like it')
      browser:expect_text('main', 'Nothing matches “nothing like it”.')
    end)
  end)

  describe('a queue', function()
    before_each(function() c:ok 'DECLARE queue jobs' end)

    it('takes a message that is published by hand', function()
      open 'queues/jobs'
      browser:click { button = 'Publish' }
      browser:type({ field = 'Payload' }, 'two\nlines')
      browser:type({ field = 'Headers' }, 'type=text/plain\nnote=50% off')
      browser:type({ field = 'Priority' }, '7')
      browser:click { button = 'Publish', within = 'dialog[open]' }
      browser:expect_text('.toasts', 'one queue took it')
      browser:expect_text('[data-table=messages]', 'two lines')
      local message = c:peek 'jobs'[1]
      assert.equal('two\nlines', message.payload)
      assert.equal(7, message.priority)
      assert.same({ type = 'text/plain', note = '50% off' }, message.headers)
    end)

    it('is looked into by state, and by what messages have', function()
      for i = 1, 3 do c:ok(('PUB - jobs h:n=%d'):format(i), 'message ' .. i) end
      c:ok('PUB - jobs delay=1h', 'later')
      open 'queues/jobs'
      browser:expect_text('[data-table=messages]', 'message 3')
      browser:choose({ field = 'state' }, 'delayed')
      browser:expect_text('[data-table=messages]', 'later')
      browser:choose({ field = 'state' }, 'ready')
      browser:type({ field = 'search messages' }, 'h:n=2')
      browser:click { button = 'Look' }
      browser:expect_js 'document.querySelectorAll("[data-table=messages] tbody tr:not(.detail)").length === 1'
      browser:expect_text('[data-table=messages]', 'message 2')
      browser:type({ field = 'search messages' }, 'no such text')
      browser:click { button = 'Look' }
      browser:expect_text('main', 'No message matches is ready; 3 looked at.')
    end)

    it('shows its messages page by page', function()
      for i = 1, 25 do c:ok('PUB - jobs', 'message ' .. i) end
      open 'queues/jobs'
      browser:expect_js 'document.querySelectorAll("[data-table=messages] tbody tr:not(.detail)").length === 20'
      browser:click { button = 'More' }
      browser:expect_js 'document.querySelectorAll("[data-table=messages] tbody tr:not(.detail)").length === 25'
      browser:expect_text('main', 'These are all.')
    end)

    it('shows a message as text, JSON and hex', function()
      local id = c:ok('PUB - jobs h:type=json', '{"a":[1,2]}'):match '^%x+'
      open 'queues/jobs'
      browser:click { button = 'message ' .. id }
      browser:expect_text('.message pre', '"a": [')
      browser:expect_text('.message', 'json')
      browser:click { button = 'Text' }
      browser:expect_text('.message pre', '{"a":[1,2]}')
      browser:click { button = 'Hex' }
      browser:expect_text('.message pre', '000000  7b 22 61 22 3a 5b 31 2c 32 5d 7d')
      c:ok('PUB - jobs', '\xff\xfe')
      browser:click { button = 'Look' }
      browser:expect_text('[data-table=messages]', '2 B of binary data')
    end)

    it('loses a message, or gets it later, when somebody says so', function()
      local id = c:ok('PUB - jobs', 'hello'):match '^%x+'
      open 'queues/jobs'
      browser:click { button = 'message ' .. id }
      browser:click { button = 'Reschedule' }
      browser:type({ field = 'Ready in' }, '1h')
      browser:click { button = 'Reschedule', within = 'dialog[open]' }
      browser:expect_text('[data-figure=delayed]', '1')
      assert.equal(1, c:stats('jobs').delayed)
      browser:choose({ field = 'state' }, 'delayed')
      browser:click { button = 'message ' .. id }
      browser:click { button = 'Remove' }
      browser:click { button = 'Remove', within = 'dialog[open]' }
      browser:expect_text('[data-figure=delayed]', 'pattern:^0$')
      assert.equal(0, c:stats('jobs').delayed)
    end)

    it('says who holds its messages', function()
      local worker = broker:connect()
      local id = c:ok('PUB - jobs', 'hello'):match '^%x+'
      worker:ok 'SUB jobs s1 prefetch=3'
      worker:expect_msg()
      open 'queues/jobs'
      browser:expect_text('[data-figure=unacked]', '1')
      browser:expect_text('[data-table=consumers]', 's1')
      browser:click { button = 'message ' .. id }
      local holder = c:peek('jobs state=unacked')[1].holder
      local text = ('connection %d, channel 0, s1'):format(holder.connection)
      browser:click { link = text, within = '.message' }
      browser:expect_text('h1', 'Connection ' .. holder.connection)
      browser:expect_text('[data-table=consumers]', 'jobs')
    end)

    it('is paused and resumed', function()
      open 'queues/jobs'
      browser:click { button = 'Pause' }
      browser:choose({ field = 'What stops' }, 'both')
      browser:type({ field = 'For' }, '1h')
      browser:click { button = 'Pause', within = 'dialog[open]' }
      browser:expect_text('.view-head', 'paused both')
      assert.equal('both', c:stats('jobs').paused)
      assert.is_number(c:stats('jobs').paused_in_until)
      browser:click { button = 'Resume' }
      browser:expect { button = 'Pause' }
      assert.equal('no', c:stats('jobs').paused)
    end)

    it('is purged when its name has been typed', function()
      for _ = 1, 3 do c:ok('PUB - jobs', 'hello') end
      open 'queues/jobs'
      browser:click { button = 'Purge' }
      browser:press 'escape'
      browser:expect_gone 'dialog[open]'
      assert.equal(3, c:stats('jobs').ready)
      browser:click { button = 'Purge' }
      confirm('jobs', 'Purge')
      browser:expect_text('.toasts', '3 messages removed.')
      browser:expect_text('[data-figure=ready]', 'pattern:^0$')
      assert.equal(0, c:stats('jobs').ready)
    end)

    it('is deleted when its name has been typed', function()
      allow ' 404 '
      open 'queues/jobs'
      browser:click { button = 'Delete' }
      confirm('jobs', 'Delete')
      browser:expect_text('h1', 'Queues')
      browser:expect_text('main', 'This vhost has no queue yet.')
      assert.same({}, c:document 'LIST queues')
    end)

    it('that somebody else deletes is not found any more', function()
      allow ' 404 '
      open 'queues/jobs'
      browser:expect_text('[data-figure=ready]', '0')
      c:ok 'DELETE queue jobs'
      browser:expect_text('h1', 'Not found')
      browser:expect_text('main', "there is no queue 'jobs' in vhost '" .. broker.vhost .. "'")
      c:ok 'DECLARE queue jobs'
      browser:click { button = 'Try again' }
      browser:expect_text('h1', 'jobs')
    end)

    it('has its dead letters sent back, or elsewhere', function()
      c:ok 'DECLARE queue failed'
      c:ok 'DECLARE queue work dead-letter=-/failed'
      for i = 1, 3 do
        c:ok(('PUB - work h:n=%d'):format(i), 'hello')
        c:get 'work'
        c:ok(('NACK %d dead'):format(i))
      end
      open 'queues/failed'
      browser:expect_text('[data-figure=ready]', '3')
      browser:click { button = 'Redrive' }
      browser:type({ field = 'Only those that match' }, 'h:n=2')
      browser:click { button = 'Redrive', within = 'dialog[open]' }
      browser:expect_text('.toasts', 'one message moved, 0 left.')
      assert.equal(1, c:stats('work').ready)
      browser:click { button = 'Move' }
      browser:type({ field = 'To' }, '-/jobs')
      browser:type({ field = 'How many' }, '1')
      browser:click { button = 'Move', within = 'dialog[open]' }
      browser:expect_text('[data-figure=ready]', 'pattern:^1$')
      assert.equal(1, c:stats('jobs').ready)
      assert.equal(1, c:stats('failed').ready)
    end)

    it('has its buried messages made ready', function()
      for i = 1, 2 do
        c:ok('PUB - jobs', 'hello')
        c:get 'jobs'
        c:ok(('NACK %d bury'):format(i))
      end
      open 'queues/jobs'
      browser:expect_text('[data-figure=buried]', '2')
      browser:click { button = 'Kick' }
      browser:type({ field = 'How many' }, '1')
      browser:click { button = 'Kick', within = 'dialog[open]' }
      browser:expect_text('.toasts', 'one message made ready.')
      browser:expect_text('[data-figure=buried]', 'pattern:^1$')
      assert.equal(1, c:stats('jobs').ready)
    end)

    it('shows the bindings that lead to it', function()
      c:ok 'DECLARE exchange orders topic'
      c:ok 'BIND jobs orders orders.eu.#'
      c:ok 'DECLARE queue jobs2'
      c:ok 'BIND jobs2 orders orders.us.#'
      open 'queues/jobs'
      browser:expect_text('[data-table=bindings]', 'orders.eu.#')
      assert.is_nil(browser:text('[data-table=bindings]'):find('orders.us', 1, true))
      browser:click { link = 'orders' }
      browser:expect_text('h1', 'orders')
    end)
  end)

  describe('topics', function()
    it('are declared, with options', function()
      open 'topics'
      browser:click { button = 'New topic' }
      browser:type({ field = 'Name' }, 'events')
      browser:type({ field = 'Partitions' }, '2')
      browser:type({ field = 'Retention' }, '7d')
      browser:click { button = 'Declare' }
      browser:expect_text('h1', 'events')
      assert.same({ partitions = '2', retention = '7d' }, options_of('topics', 'events'))
      browser:go(('#/topics?vhost=%s'):format(broker.vhost))
      browser:expect_rows('topics', { 'events' })
    end)

    local function fill()
      c:ok 'DECLARE topic events partitions=1'
      for i = 1, 5 do c:ok('PUB - events', 'event ' .. i) end
    end

    it('are read from an offset', function()
      fill()
      open 'topics/events'
      browser:expect_text('[data-figure=messages]', '5')
      browser:expect_text('[data-table=messages]', 'event 1')
      browser:type({ field = 'from offset' }, '3')
      browser:click { button = 'Look' }
      browser:expect_js 'document.querySelectorAll("[data-table=messages] tbody tr:not(.detail)").length === 2'
      browser:expect_text('[data-table=messages]', 'event 4')
      browser:click { button = 'Publish' }
      browser:type({ field = 'Payload' }, 'event 6')
      browser:click { button = 'Publish', within = 'dialog[open]' }
      browser:expect_text('[data-table=messages]', 'event 6')
      browser:expect_text('[data-table=partitions]', '6')
    end)

    it('have groups, which are moved, paused and deleted', function()
      fill()
      local mailer = broker:connect()
      mailer:ok 'SUB events m group=mailer ack=auto'
      mailer:expect '^EVT assigned m 0$'
      for _ = 1, 5 do mailer:expect_msg() end
      mailer:close()
      open 'topics/events'
      browser:expect_text('[data-table=groups]', 'pattern:mailer%s+0%s+0')
      -- It has its first sample within ten seconds, and the page asks for it now and then.
      assert(wait.poll(function()
        return browser:run 'return document.querySelector("svg[aria-label^=\\"Lag of groups: mailer\\"]") !== null'
      end, 60))
      browser:click { button = 'Seek' }
      browser:type({ field = 'Position' }, '2')
      browser:click { button = 'Seek', within = 'dialog[open]' }
      browser:expect_text('[data-table=groups]', 'pattern:mailer%s+0%s+3')
      assert.equal(3, c:document('LIST groups')[1].lag)
      browser:click { button = 'Pause', within = '[data-table=groups]' }
      browser:type({ field = 'For' }, '1h')
      browser:click { button = 'Pause', within = 'dialog[open]' }
      browser:expect_text('[data-table=groups]', 'mailer paused')
      assert.is_number(c:document('LIST groups')[1].paused_until)
      browser:click { button = 'Resume', within = '[data-table=groups]' }
      browser:expect_text('[data-table=groups]', 'pattern:mailer%s+0%s+3')
      assert.is_false(c:document('LIST groups')[1].paused)
      browser:click { button = 'Delete', within = '[data-table=groups]' }
      confirm('mailer', 'Delete')
      browser:expect_text('main', 'No group reads this topic.')
      assert.same({}, c:document 'LIST groups')
    end)

    it('are trimmed, purged and deleted', function()
      fill()
      allow ' 404 ' -- a look that was under way when it was deleted
      open 'topics/events'
      browser:click { button = 'Trim' }
      browser:type({ field = 'Before' }, '2')
      browser:click { button = 'Trim', within = 'dialog[open]' }
      browser:expect_text('.toasts', '2 messages dropped.')
      assert.equal(3, c:document('STATS events').messages)
      browser:click { button = 'More partitions' }
      browser:type({ field = 'Partitions' }, '3')
      browser:click { button = 'Make', within = 'dialog[open]' }
      browser:expect_text('[data-figure=partitions]', 'pattern:^3$')
      assert.equal(3, #c:document('STATS events').per_partition)
      browser:click { button = 'Purge' }
      confirm('events', 'Purge')
      browser:expect_text('[data-figure=messages]', 'pattern:^0$')
      browser:click { button = 'Delete' }
      confirm('events', 'Delete')
      browser:expect_text('h1', 'Topics')
      assert.same({}, c:document 'LIST topics')
    end)
  end)

  describe('connections', function()
    it('are listed, and closed after a question', function()
      local worker = users.stranger(broker)
      worker:document 'HELLO name=worker-7'
      open 'connections?match=worker-7'
      browser:expect_text('[data-table=connections]', 'worker-7')
      browser:click '[data-table=connections] tbody a'
      browser:expect_text('h1', 'Connection')
      browser:expect_text('main', 'worker-7')
      browser:click { button = 'Close' }
      browser:click { button = 'Close it' }
      browser:expect_text('h1', 'Connections')
      worker:expect '^EVT closed denied killed by'
    end)

    it('that have gone are not found', function()
      open 'connections/999999999'
      browser:expect_text('main', 'there is no connection 999999999 any more')
    end)
  end)

  describe('locks', function()
    it('are listed with who holds them', function()
      local token = c:ok 'LOCK report'
      open 'locks'
      browser:expect_rows('locks', { 'report' })
      browser:expect_text('[data-table=locks]', token)
      browser:expect_text('[data-table=locks]', 'pattern:connection %d+, channel 0')
    end)
  end)

  describe('keys', function()
    it('lead to every view', function()
      open 'overview'
      browser:expect_text('h1', 'Overview')
      local views = { q = 'Queues', t = 'Topics', c = 'Connections', u = 'Users', k = 'Locks', o = 'Overview' }
      for key, title in pairs(views) do
        browser:press('g', key)
        browser:expect_text('h1', title)
        browser:expect_js(('document.title.startsWith(%q)'):format(title))
      end
    end)

    it('search, walk over rows, open and close', function()
      for i = 1, 3 do c:ok('DECLARE queue q-' .. i) end
      open 'queues'
      browser:expect_rows('queues', { 'q-1', 'q-2', 'q-3' })
      browser:press '?'
      browser:expect_text('dialog', 'next row')
      browser:press 'escape'
      browser:expect_gone 'dialog[open]'
      browser:press '/'
      browser:press('q', '-')
      browser:expect_js 'document.activeElement.value === "q-"'
      browser:press 'escape'
      browser:press('down', 'down')
      browser:expect_js 'document.activeElement.closest("tr")?.textContent.startsWith("q-2")'
      browser:press 'enter'
      browser:expect_text('h1', 'q-2')
      browser:press 'p'
      browser:expect_text('dialog h2', 'Publish to q-2')
      browser:press 'escape'
      browser:expect_gone 'dialog[open]'
    end)
  end)

  describe('the page', function()
    local views = { 'overview', 'queues', 'queues/jobs', 'topics', 'topics/events', 'connections', 'users', 'locks' }

    it('fits a screen of 360 pixels in all views', function()
      c:ok 'DECLARE queue jobs shards=3 dead-letter=-/a-queue-with-a-rather-long-name-that-does-not-end'
      c:ok 'DECLARE topic events'
      c:ok('PUB - jobs', ('x'):rep(3000))
      browser:resize(360, 700)
      for _, view in ipairs(views) do
        open(view)
        browser:expect 'main h1'
        browser:expect_js 'document.querySelector("main").getAttribute("aria-busy") === null'
        assert.equal(360, browser:run 'return document.scrollingElement.scrollWidth', view)
      end
    end)

    it('is light or dark as the system says, or as somebody chose', function()
      local function color() return browser:run 'return getComputedStyle(document.body).backgroundColor' end
      browser:prefer 'light'
      open 'queues'
      browser:expect 'main h1'
      local light = color()
      browser:prefer 'dark'
      local dark = color()
      assert.not_equal(light, dark)
      browser:click { button = 'light or dark' }
      assert.equal(light, color())
      browser:reload()
      browser:expect 'main h1'
      assert.equal(light, color())
      browser:press 't'
      assert.equal(dark, color())
    end)

    it('names what can be used, for those who cannot see it', function()
      c:ok 'DECLARE queue jobs'
      c:ok 'DECLARE topic events'
      for _, view in ipairs(views) do
        open(view)
        browser:expect 'main h1'
        assert.same({}, browser:run [[
          return [...document.querySelectorAll('button, input, select, textarea, a')].filter((e) =>
            !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map((e) => e.outerHTML);
        ]], view)
      end
    end)

    it('shows hostile names and payloads as the text that they are', function()
      local evil = '<img/src=x/onerror=document.title=1>'
      c:ok('DECLARE queue ' .. evil)
      c:ok(('PUB - %s h:%s=%s'):format(evil, '<b>', '<script>alert(1)</script>'), evil)
      local worker = users.stranger(broker)
      worker:document('HELLO name=' .. evil)
      open 'queues'
      browser:expect_rows('queues', { evil })
      browser:click { link = evil }
      browser:expect_text('h1', evil)
      browser:expect_text('[data-table=messages]', evil)
      browser:click '[data-table=messages] button'
      browser:expect_text('.message', '<script>alert(1)</script>')
      browser:click { button = 'Purge' }
      browser:expect_text('dialog', evil)
      browser:press 'escape'
      open('connections?match=onerror')
      browser:expect_text('[data-table=connections]', evil)
      worker:close()
      assert.equal(0, browser:run 'return document.querySelectorAll("main img, main script, dialog img").length')
      assert.equal('Connections – tidemq', browser:run 'return document.title')
    end)

    it('changes the vhost', function()
      c:ok 'DECLARE queue jobs'
      browser:open(broker, '#/queues')
      browser:expect_text('main', 'This vhost has no queue yet.')
      browser:choose({ field = 'vhost' }, broker.vhost)
      browser:expect_rows('queues', { 'jobs' })
    end)

    it('shows the overview for an address that it does not know', function()
      browser:open(broker, '#/no/such/view')
      browser:expect_text('h1', 'Overview')
    end)
  end)

  describe('with users', function()
    local guarded

    local all = { ['/'] = { configure = '.*', write = '.*', read = '.*' } }

    setup(function()
      guarded = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
      users.restore(guarded.redis, { root = { tags = { 'admin' }, vhosts = all }, eve = { tags = { 'monitor' } },
        app = { vhosts = all }, bob = { vhosts = { shop = all['/'] } } })
      guarded:run()
    end)

    teardown(function()
      if not guarded then return end
      guarded:expect_clean_stop()
      guarded:destroy()
    end)

    before_each(function() c = users.connect(guarded, 'root') end)

    local function log_in(name, password)
      browser:expect_text('dialog h2', 'Log in')
      browser:type({ field = 'User' }, name)
      browser:type({ field = 'Password' }, password or users.password)
      browser:click { button = 'Log in', within = 'dialog[open]' }
    end

    local function user(name)
      for _, one in ipairs(c:document 'USER list') do
        if one.name == name then return one end
      end
    end

    local function open_as(name, hash)
      allow ' 401 '
      browser:open(guarded, hash)
      log_in(name)
      browser:expect_gone 'dialog[open]'
    end

    it('asks who it is, and keeps that for the tab', function()
      allow ' 401 '
      c:ok 'DECLARE queue jobs'
      browser:open(guarded, '#/queues')
      browser:expect_text('dialog', 'tidemq user add NAME')
      log_in('root', 'wrong')
      browser:expect_text('dialog .error', 'Not logged in as root: the user or the password is wrong.')
      log_in 'root'
      browser:expect_rows('queues', { 'jobs' })
      browser:expect_text('header', 'root')
      browser:reload()
      browser:expect_rows('queues', { 'jobs' })
      assert.is_nil(browser:run 'return localStorage.length || null')
      browser:click { button = 'Log out' }
      browser:expect_text('dialog h2', 'Log in')
      browser:press 'escape'
      browser:expect_text('main', 'Nobody is logged in.')
      browser:click { button = 'Log in' }
      log_in 'root'
      browser:expect_rows('queues', { 'jobs' })
    end)

    it('says so when the login that it kept is refused', function()
      open_as('root', '#/locks')
      browser:expect_text('h1', 'Locks')
      browser:run "sessionStorage.setItem('tidemq.login', 'Basic cm9vdDpvbGQ=')"
      browser:reload()
      browser:expect_text('dialog', 'The broker refuses the login that this tab kept')
      log_in 'root'
      browser:expect_text('h1', 'Locks')
    end)

    it('shows why something is not allowed', function()
      c:ok 'DECLARE queue jobs'
      open_as('eve', '#/queues')
      allow(' 401 ', ' 403 ')
      browser:click { button = 'New queue' }
      browser:type({ field = 'Name' }, 'mine')
      browser:click { button = 'Declare' }
      browser:expect_text('dialog .error', 'eve')
      browser:click { button = 'Cancel' }
      browser:go '#/users'
      browser:expect_text('[data-table=users]', 'admin')
      browser:go '#/overview'
      browser:expect_text('h1', 'Overview')
      assert.is_false(browser:has { button = 'Drain' })
    end)

    it('shows a user without a tag what it may see, and says what it lacks', function()
      open_as('app', '#/overview')
      allow(' 401 ', ' 403 ')
      browser:expect_text('main', 'monitor')
    end)

    it('begins in the vhost that the user may enter', function()
      open_as('bob', '#/queues')
      allow(' 401 ', ' 403 ')
      browser:click { button = 'New queue' }
      browser:type({ field = 'Name' }, 'mine')
      browser:click { button = 'Declare' }
      browser:expect_gone 'dialog[open]'
      local shop = users.connect(guarded, 'root', 'shop')
      assert.equal('mine', shop:document 'LIST queues'[1].name)
      shop:close()
    end)

    it('adds a user, and changes everything of it', function()
      open_as('root', '#/users')
      browser:click { button = 'New user' }
      browser:type({ field = 'Name' }, 'mia')
      browser:type({ field = 'Password' }, 'first one')
      browser:click { field = 'monitor: sees everything' }
      browser:click { button = 'Add' }
      browser:expect_text('h1', 'mia')
      assert.same({ 'monitor' }, user('mia').tags)
      users.connect(guarded, 'mia', '/', 'first one'):close()

      browser:click { button = 'Password' }
      browser:type({ field = 'New password' }, 'second one')
      browser:click { button = 'Change' }
      browser:expect_text('.toasts', 'The password is changed.')
      users.connect(guarded, 'mia', '/', 'second one'):close()

      browser:click { button = 'Tags' }
      browser:click { field = 'admin: may change everything' }
      browser:click { button = 'Change' }
      browser:expect_gone 'dialog[open]'
      browser:expect_text('main', 'pattern:admin')
      assert.equal(2, #user('mia').tags)

      browser:click { button = 'Limits' }
      browser:type({ field = 'Most connections' }, '7')
      browser:click { button = 'Change' }
      browser:expect_gone 'dialog[open]'
      assert.equal(7, user('mia').limits['max-connections'])

      browser:click { button = 'Grant' }
      browser:type({ field = 'Vhost' }, 'shop')
      browser:type({ field = 'read' }, '^orders')
      browser:click { button = 'Grant', within = 'dialog[open]' }
      browser:expect_text('[data-table=grants]', '^orders')
      assert.equal('^orders', user('mia').vhosts.shop.read)
      browser:click { button = 'Change', within = '[data-table=grants]' }
      browser:type({ field = 'write' }, '^bills')
      browser:click { button = 'Grant', within = 'dialog[open]' }
      browser:expect_text('[data-table=grants]', '^bills')
      assert.equal('^orders', user('mia').vhosts.shop.read)
      browser:click { button = 'Revoke' }
      browser:click { button = 'Revoke', within = 'dialog[open]' }
      browser:expect_text('main', 'It may enter no vhost.')
      assert.is_nil(next(user('mia').vhosts))

      browser:click { button = 'Delete' }
      confirm('mia', 'Delete')
      browser:expect_text('h1', 'Users')
      browser:expect_rows('users', { 'app', 'bob', 'eve', 'root' })
      assert.is_nil(user 'mia')
    end)
  end)

  it('makes the first user, and goes on as that one', function()
    local open_broker = Broker.start { http = '127.0.0.1:0' }
    finally(function() open_broker:destroy() end)
    browser:open(open_broker, '#/users')
    browser:expect_text('main', 'No user is defined')
    browser:click { button = 'New user' }
    browser:expect_text('dialog', 'This is the first user')
    browser:type({ field = 'Name' }, 'root')
    browser:type({ field = 'Password' }, 'a good one')
    browser:click { button = 'Add' }
    browser:expect_text('h1', 'root')
    browser:expect { button = 'Log out' }
    open_broker:expect_clean_stop()
    allow(' 401 ', 'ERR_', ' 503 ')
  end)

  it('says that the broker is away, and goes on when it is back', function()
    local away = Broker.start { http = '127.0.0.1:0' }
    finally(function() away:destroy() end)
    away:connect():ok 'DECLARE queue jobs'
    browser:open(away, '#/queues')
    browser:expect_rows('queues', { 'jobs' })
    -- The page that is open goes on at the same port.
    away.options.http = away.http_address
    away:expect_clean_stop()
    browser:expect_text('.banner', 'The broker does not answer')
    away:run()
    away:connect():ok 'DECLARE queue more'
    browser:expect_gone '.banner'
    browser:expect_rows('queues', { 'jobs', 'more' })
    allow('ERR_', ' 503 ')
    away:expect_clean_stop()
  end)
end)
