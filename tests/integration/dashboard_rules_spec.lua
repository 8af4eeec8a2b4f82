-- The dashboard: scripts, generations, sources, candidate rules, replay, in a headless Chromium.
local Broker = require 'support.broker'
local Browser = require 'support.browser'
local needs = require 'support.needs'
local shell = require 'support.shell'
local users = require 'support.users'

-- A filter that refuses orders below an amount.
local function orders(amount)
  return ([[
return {
  doc = "orders of some size",
  match = { exchange = "orders" },
  publish = function(msg)
    local amount = tonumber(msg.headers.amount)
    if amount < %d then
      return false, "too small"
    end
  end,
}
]]):format(amount)
end

needs.browser(describe)('the dashboard', function()
  local broker, browser, c

  setup(function() browser = Browser.start() end)
  teardown(function() browser:destroy() end)
  before_each(function()
    broker = Broker.start { http = '127.0.0.1:0', rules = { ['filter/20-orders.lua'] = orders(10) },
      args = { '--store', 'none', '--replay-payloads', '--rules-candidates', '@DIR@' } }
    c = broker:connect()
    for _, line in ipairs { 'exchange orders topic', 'queue q' } do c:ok('DECLARE ' .. line) end
    c:ok 'BIND q orders #'
    browser:reset()
  end)
  after_each(function()
    c:close()
    broker:expect_clean_stop()
  end)

  local function open(place) browser:open(broker, '#/' .. place) end

  local function reload(rules)
    for path, text in pairs(rules) do broker:write_rule(path, text) end
    return c:document 'RULES reload'
  end

  local function publish(amount)
    return c:request('PUB orders k h:amount=' .. amount, 'x')
  end

  -- Change a file of the active rules in the editor, and upload it.
  local function edit(file, text)
    open 'rules/candidate'
    browser:click { button = 'Edit a file' }
    browser:choose({ field = 'File' }, file)
    browser:click { button = 'Edit' }
    browser:expect_text('dialog h2', 'Edit ' .. file)
    browser:run('document.querySelector("dialog textarea").value = arguments[0]', text)
    browser:click { button = 'Keep in the candidate' }
    browser:expect_text('[data-table="candidate files"]', file)
  end

  local function start_trial(share)
    browser:click { button = 'Upload and check' }
    browser:expect_text('[data-part=outcome]', 'The check finds nothing wrong')
    browser:type({ field = 'Share of publishes, in percent' }, share or '100')
    browser:click { button = 'Start the trial' }
    browser:expect_text('[data-part=shadow]', 'Candidate rules decide beside the active ones')
  end

  describe('of rules', function()
    it('shows what the scripts do and cost', function()
      for _ = 1, 3 do publish(20) end
      publish(5)
      open 'rules'
      browser:expect_text('[data-table=scripts]', 'orders of some size')
      browser:type({ field = 'search scripts' }, '20-orders')
      browser:expect_js "document.querySelectorAll('[data-table=scripts] tbody tr').length === 1"
      local row = browser:run [[
        return [...document.querySelectorAll('[data-table=scripts] tbody td')].map((td) => td.innerText)]]
      assert.same({ 'active', '4' }, { row[2], row[3] })
      assert.matches('%%$', row[6])
      assert.equal('1', row[11])
      browser:type({ field = 'search scripts' }, 'routing/')
      browser:expect_js "document.querySelectorAll('[data-table=scripts] tbody tr').length === 7"
      -- Live: another publish is seen without a reload.
      publish(20)
      browser:type({ field = 'search scripts' }, '20-orders')
      browser:expect_js "document.querySelector('[data-table=scripts] tbody').innerText.includes('\\t5\\t')"
      browser:expect_no_problems()
    end)

    it('shows errors with file and line, and the source there', function()
      publish('nonsense')
      open 'rules'
      browser:expect_text('[data-part=errors]', 'attempt to compare nil with number')
      browser:click { link = 'filter/20-orders.lua:6' }
      browser:expect_text('dialog h2', 'filter/20-orders.lua, line 6')
      browser:expect_text('dialog tr.wrong', 'if amount < 10 then')
      browser:press 'escape'
      browser:expect_gone 'dialog'
      browser:expect_no_problems()
    end)

    it('loads them on demand, and shows why they were refused', function()
      broker:write_rule('filter/30-bad.lua', 'return {\n  match = \n}')
      open 'rules'
      browser:click { button = 'Load now' }
      browser:click { button = 'Load' }
      browser:expect_text('dialog .error', 'filter/30-bad.lua:3')
      browser:press 'escape'
      browser:expect_text('.notice.bad', 'filter/30-bad.lua:3')
      browser:expect_text('.notice.bad', 'stay active')
      broker:remove_rule 'filter/30-bad.lua'
      browser:click { button = 'Load now' }
      browser:click { button = 'Load' }
      browser:expect_gone 'dialog'
      browser:expect_gone '.notice.bad'
      browser:expect_no_problems 'reload .* 422'
    end)

    it('shows generations with author and result, and the difference of any two', function()
      reload { ['filter/20-orders.lua'] = orders(30) }
      broker:write_rule('filter/99-bad.lua', 'nonsense')
      assert.matches('^ERR rule', c:request 'RULES reload')
      broker:remove_rule 'filter/99-bad.lua'
      reload { ['filter/40-more.lua'] = 'return { doc = "more", publish = function() end }\n',
        ['filter/20-orders.lua'] = orders(40) }
      open 'rules/generations'
      browser:expect_text('[data-table=generations]', 'active')
      browser:expect_text('[data-table=generations]', 'refused')
      browser:expect_text('[data-table=generations]', 'connection ')
      browser:expect_text('[data-table=generations]', 'filter/99-bad.lua:1')
      -- The first and the last.
      local log = c:document 'RULES log'
      browser:click { field = tostring(log[1].number) }
      browser:click { field = tostring(log[#log].number) }
      browser:click { button = 'Compare' }
      browser:expect_text('h1', 'Difference of rules')
      browser:expect_text('main', log[#log].hash .. ' → ' .. log[1].hash .. ' (active)')
      browser:expect_text('main', '2 files differ')
      browser:expect_text('tr.removed', 'if amount < 10 then')
      browser:expect_text('tr.added', 'if amount < 40 then')
      browser:click { button = 'Side by side' }
      browser:expect_text('td.removed', 'if amount < 10 then')
      browser:expect_text('td.added', 'if amount < 40 then')
      browser:click { link = 'filter/40-more.lua' }
      browser:expect_text('td.added', 'doc = "more"')
      browser:expect_no_problems()
    end)

    it('rolls back after a question', function()
      local first = c:document('RULES status').hash
      reload { ['filter/20-orders.lua'] = orders(30) }
      open 'rules/generations'
      browser:click { button = 'Roll back' }
      browser:expect_text('dialog', first)
      browser:click { button = 'Cancel' }
      assert.matches('^ERR rejected', publish(20))
      browser:click { button = 'Roll back' }
      browser:click { button = 'Roll back' }
      browser:expect_text('.toast', first)
      assert.matches('^OK', publish(20))
      assert.equal(first, c:document('RULES status').hash)
      browser:expect_no_problems()
    end)

    it('shows the source of any file', function()
      open 'rules/source?file=shipped/routing/fanout.lua'
      browser:expect_text('h1', 'shipped/routing/fanout.lua')
      local text = assert(shell.read_file 'rules/routing/fanout.lua')
      assert.equal(select(2, text:gsub('\n', '')), browser:run "return document.querySelectorAll('.source tr').length")
      browser:click { link = 'filter/20-orders.lua' }
      browser:expect_text('.source', 'orders of some size')
      browser:expect_no_problems()
    end)
  end)

  describe('of candidate rules', function()
    it('tries an edited file beside the active rules, with what differs side by side, and promotes it', function()
      edit('filter/20-orders.lua', orders(15))
      browser:click { button = 'Difference' }
      browser:expect_text('dialog tr.added', 'if amount < 15 then')
      browser:click { button = 'Close' }
      start_trial()
      publish(20)
      publish(12)
      browser:expect_text('[data-part=figures]', 'pattern:compared%s+2')
      browser:expect_text('[data-part=samples]', 'amount: 12')
      local sides = browser:run [[return [...document.querySelectorAll('.sides > div')].map((e) => e.innerText)]]
      assert.matches('^Active rules%s+q, shard 0, rank 0', sides[1])
      assert.matches('^Candidate rules%s+rejected: too small', sides[2])
      assert.matches('^OK', publish(12))
      browser:expect_text('[data-part=figures]', 'pattern:compared%s+3')
      browser:click { button = 'Promote' }
      browser:expect_text('dialog', 'of 3 publishes were decided differently')
      browser:click { button = 'Promote' }
      browser:expect_text('main', 'None are being tried')
      assert.matches('^ERR rejected', publish(12))
      assert.equal('promote', c:document('RULES status').origin)
      browser:expect_no_problems()
    end)

    it('shows what hooks would do otherwise: to messages, queues and logins', function()
      c:document('RULES shadow ' .. broker:copy_rules('next', {
        ['deliver/10-no.lua'] = [[return { match = { queue = "q" }, deliver = function(msg)
          if msg.headers.amount == "20" then return false, "not yet" end
          msg.headers.seen = "1" end }]],
        ['declare/10-ttl.lua'] = [[return { match = { queue = "q" }, declare = function(what)
          what.options.ttl = "1h" end }]],
        ['connect/10-eve.lua'] = [[return { match = { user = "eve" }, connect = function()
          return false, "go away" end }]],
      }) .. ' share=100')
      for _, amount in ipairs { 20, 30 } do
        publish(amount)
        c:get 'q'
      end
      local other = broker:connect()
      assert.matches('^DATA', other:request 'HELLO user=eve')
      other:close()
      open 'rules/candidate'
      browser:expect_text('[data-part=figures]', 'pattern:deliveries compared%s+2, 2 differing')
      browser:expect_text('[data-part=samples]', 'Deliveries decided differently')
      local heads = browser:run [[return [...document.querySelectorAll('.difference-head')].map((e) => e.innerText)]]
      local sides = browser:run [[return [...document.querySelectorAll('.sides > div')].map((e) => e.innerText)]]
      local text = table.concat(heads, '\n') .. table.concat(sides, '\n'):gsub('%s+', ' ')
      for _, part in ipairs { 'from queue q', 'queue q\n', 'user eve', 'Candidate rules: what scripts wrote seen: 1',
        'verdict: refuse file: deliver/10-no.lua line: 1 reason: not yet', 'Active rules ttl: 0',
        'Candidate rules ttl: 1h policy: declare/10-ttl.lua', 'reason: go away' } do
        assert.is_truthy(text:find(part, 1, true), part .. ' is not in ' .. text)
      end
      browser:click { button = 'Promote' }
      browser:expect_text('dialog', '0 of 2 publishes, 2 deliveries, 1 declarations, 1 logins were decided differently')
      browser:click { button = 'Cancel' }
      browser:expect_no_problems()
    end)

    it('takes a directory, leaves out what is no rule, and says what the check finds', function()
      local dir = shell.make_dir 'tidemq-upload'
      shell.write_file(dir .. '/mine/filter/10-bad.lua', 'return {\n  match = { exchange = "orders" },\n  '
        .. 'publish = function(msg) return msg.headers.amount.nonsense.x, undefined_name end,\n')
      shell.write_file(dir .. '/mine/filter/10-bad_spec.lua', 'error "no"')
      shell.write_file(dir .. '/mine/README', 'text')
      open 'rules/candidate'
      browser:upload({ field = 'A rules directory' }, dir .. '/mine')
      browser:expect_text('[data-part=draft]', '2 files left out')
      browser:click { button = 'Upload and check' }
      browser:expect_text('[data-part=outcome]', 'filter/10-bad.lua:')
      browser:expect_text('.verdict.bad', 'problem')
      browser:click { link = browser:run "return document.querySelector('[data-part=findings] a').textContent" }
      browser:expect_text('dialog .source', 'match = { exchange = "orders" }')
      browser:press 'escape'
      browser:click { button = 'Discard' }
      browser:expect_gone { button = 'Upload and check' }
      browser:expect_no_problems()
    end)

    it('takes a new file, and undoes a change', function()
      open 'rules/candidate'
      browser:click { button = 'New file' }
      browser:type({ field = 'Path' }, 'nonsense')
      browser:click { button = 'Write it' }
      browser:expect_text('dialog .error', 'write a path like')
      browser:type({ field = 'Path' }, 'filter/30-new.lua')
      browser:click { button = 'Write it' }
      browser:expect_text('dialog h2', 'Edit filter/30-new.lua')
      browser:run([[document.querySelector('dialog textarea').value = arguments[0] ]],
        'return {\n  match = { exchange = "orders" },\n  publish = function(msg) msg.headers.seen = "1" end,\n}\n')
      browser:click { button = 'Keep in the candidate' }
      browser:expect_text('[data-table="candidate files"]', 'added')
      start_trial()
      publish(20)
      browser:expect_text('[data-part=samples]', 'seen')
      browser:click { button = 'Stop the trial' }
      browser:click { button = 'Stop' }
      browser:expect_text('main', 'None are being tried')
      browser:click { button = 'Undo' }
      browser:expect_text('main', 'no difference from the active rules')
      browser:expect_no_problems()
    end)

    it('shows why a directory cannot be tried', function()
      open 'rules/candidate'
      browser:click { button = 'Try a directory' }
      browser:type({ field = 'Directory on the broker’s machine' }, 'none-such')
      browser:click { button = 'Start' }
      browser:expect_text('dialog .error', 'none-such')
      browser:press 'escape'
      browser:expect_no_problems 'shadow .* 404'
    end)

    it('decides the recent publishes again, with what differs side by side', function()
      publish(12)
      publish(20)
      edit('filter/20-orders.lua', orders(15))
      browser:click { button = 'Upload and check' }
      browser:click { link = 'Replay recent publishes' }
      browser:expect_text('.verdict', '1 of 2 publishes are decided differently')
      browser:expect_text('.sides', 'rejected: too small')
      browser:click { link = 'Test it' }
      browser:expect_text('h1', 'Route tester')
      browser:expect_text('.verdict', 'Goes to one queue: q')
      browser:expect_no_problems()
    end)

    it('shows the recent publishes, each with a way to the route tester', function()
      publish(20)
      publish(5)
      open 'rules/recent'
      browser:expect_text('[data-table="recent publishes"]', 'rejected: too small')
      browser:expect_rows('recent publishes', { '2', '1' })
      -- They are those of the vhost that is looked at.
      local other = broker:connect()
      other:enter_vhost 'other'
      other:ok 'DECLARE queue elsewhere'
      other:ok('PUB - elsewhere', 'x')
      other:close()
      open 'rules/recent?vhost=other'
      browser:expect_text('[data-table="recent publishes"]', 'elsewhere')
      open 'rules/recent'
      browser:expect_rows('recent publishes', { '2', '1' })
      browser:type({ field = 'search recent publishes' }, '"20"')
      browser:expect_rows('recent publishes', { '1' })
      browser:click { link = 'Test it' }
      browser:expect_text('.verdict', 'Goes to one queue: q')
      assert.equal('amount: 20', browser:run "return document.querySelector('[name=headers]').value")
      browser:expect_no_problems()
    end)
  end)

  describe('of who has no tag admin', function()
    local guarded

    setup(function()
      guarded = Broker.start { http = '127.0.0.1:0', redis = {}, stopped = true }
      local all = { ['/'] = { configure = '.*', write = '.*', read = '.*' } }
      users.restore(guarded.redis, { eve = { tags = { 'monitor' }, vhosts = all } })
      guarded:run()
    end)
    teardown(function() guarded:expect_clean_stop() end)

    it('shows the active rules, and neither sources nor what changes them', function()
      local eve = users.connect(guarded, 'eve')
      eve:ok 'DECLARE exchange news fanout'
      browser:open(guarded, '#/rules')
      browser:type({ field = 'User' }, 'eve')
      browser:type({ field = 'Password' }, users.password)
      browser:click { button = 'Log in', within = 'dialog[open]' }
      browser:expect_text('[data-table=scripts]', 'routing/topic.lua')
      assert.is_false(browser:has { button = 'Load now' })
      assert.is_false(browser:has { link = 'Generations' })
      assert.is_false(browser:has { link = 'routing/topic.lua' })
      browser:go '#/rules/generations'
      browser:expect_text('main', 'admin')
      browser:go '#/route?exchange=news&key=k'
      browser:expect_text('.steps', 'routing/fanout.lua:')
      eve:close()
      browser:expect_no_problems(' 401 ', ' 403 ')
    end)
  end)

  it('finds the shortest difference of two texts', function()
    open 'rules'
    browser:expect_text('h1', 'Rules')
    local bad = browser:run_async [[
      const done = arguments[arguments.length - 1];
      const { diffLines } = await import('/page/diff.js');
      // As long as the longest common part of both.
      const common = (a, b) => {
        const m = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
        for (let i = 1; i <= a.length; i++) for (let j = 1; j <= b.length; j++)
          m[i][j] = a[i - 1] === b[j - 1] ? m[i - 1][j - 1] + 1 : Math.max(m[i - 1][j], m[i][j - 1]);
        return m[a.length][b.length];
      };
      let seed = 1;
      const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
      for (let round = 0; round < 2000; round++) {
        const [a, b] = [0, 0].map(() => Array.from({ length: random(12) }, () => 'abc'[random(3)]));
        const steps = diffLines(a.join('\n'), b.join('\n'));
        const side = (other) => steps.filter((s) => s.kind !== other).map((s) => s.text).join();
        const same = steps.filter((s) => s.kind === 'same').length;
        if (side('added') !== a.join() || side('removed') !== b.join() || same !== common(a, b))
          return done(JSON.stringify([a, b, steps]));
      }
      done('none');
    ]]
    assert.equal('none', bad)
  end)
end)
