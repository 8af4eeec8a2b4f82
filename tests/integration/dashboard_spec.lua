-- The dashboard, in a headless Chromium and on a real broker: what each view shows, what each button does.
local Broker = require 'support.broker'
local Browser = require 'support.browser'

describe('the dashboard', function()
  local broker, browser, c
  local allowed

  -- Failed requests that a test provokes are on the console.
  local function allow(...)
    allowed = { ... }
  end

  local function ask_again(title)
    browser:expect { field = 'Type ' .. title .. ' to go on' }
    assert.is_true(browser:run 'return document.querySelector("dialog[open] .danger, dialog[open] .primary").disabled')
    browser:type({ field = 'Type ' .. title .. ' to go on' }, title)
  end

  local function hash(path)
    return ('#/%s?vhost=%s'):format(path, broker.vhost)
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
    it('has figures that move without a reload', function()
      browser:open(broker)
      browser:expect_text('h1', 'Overview')
      browser:expect_text('main', 'Messages a second')
      c:ok 'DECLARE queue jobs'
      local before = tonumber((browser:text '[data-figure=ready]':gsub('%D', ''))) or 0
      for _ = 1, 7 do c:ok('PUB - jobs', 'hello') end
      browser:expect_text('[data-figure=ready]', tostring(before + 7))
      browser:expect_text('main', 'embedded')
      browser:expect_js 'document.querySelectorAll(".chart path[d]").length >= 6'
    end)
  end)

  describe('queues', function()
    it('lists them, and declares one', function()
      c:ok 'DECLARE queue jobs'
      c:ok('PUB - jobs', 'hello')
      browser:open(broker, hash 'queues')
      browser:expect_rows('queues', { 'jobs' })
      browser:click { button = 'New queue' }
      browser:type({ field = 'Name' }, 'bills')
      browser:type({ field = 'Shards' }, '4')
      browser:type({ field = 'More options' }, 'order-by=key\ninflight=2')
      browser:click { button = 'Declare' }
      browser:expect_text('h1', 'bills')
      local options
      for _, queue in ipairs(c:document 'LIST queues') do
        if queue.name == 'bills' then options = queue.options end
      end
      assert.same({ shards = '4', ['order-by'] = 'key', inflight = '2' }, options)
      browser:expect_text('main', 'order-by')
    end)
  end)
end)
