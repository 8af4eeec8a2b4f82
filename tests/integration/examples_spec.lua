-- Every example runs, against a real broker, and prints what it is known to print.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local function run(command)
  return shell.run(command .. ' 2>&1 </dev/null')
end

local function lines(text)
  return (text:gsub('\n +', '\n'):gsub('^%s+', ''))
end

--- HOST PORT of the broker, as arguments.
local function address(broker)
  local host, port = broker.address:match '^(.*):(%d+)$'
  return host .. ' ' .. port
end

describe('the examples', function()
  local broker

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() if broker then broker:destroy() end end)

  local function check(command, expected)
    local output, status = run(command .. ' ' .. address(broker))
    assert.equal(lines(expected), output)
    assert.equal(0, status)
  end

  it('the shell session with nc', function()
    check('bash examples/shell/session.sh', [[
      > DECLARE queue example.shell durable=0 priority=strict
      OK
      > PUB - example.shell h:type=text/plain 5
      > hello
      OK <id> 1
      > PUB - example.shell pri=9 6
      > urgent
      OK <id> 1
      > PEEK no-such-queue
      ERR not-found there is no queue 'no-such-queue' in vhost '/'
      > GET example.shell max=2
      OK 2
      MSG - 1 1 - example.shell id=<id> ts=<time> pri=9 6
      urgent
      MSG - 2 1 - example.shell id=<id> ts=<time> h:type=text/plain 5
      hello
      > NACK 2
      OK 1
      > ACK 1
      OK 1
      > GET example.shell wait=5s
      OK 1
      MSG - 3 2 - example.shell id=<id> ts=<time> redelivered h:type=text/plain 5
      hello
      > ACK 3
      OK 1
      > DELETE queue example.shell
      OK
      > QUIT
      OK
    ]])
  end)

  it('the worker in Python', function()
    local c = broker:connect()
    c:ok 'DECLARE queue example.python retry=exponential retry.base=100ms'
    for n = 1, 3 do c:ok(('PUB - example.python h:note=number%%20%d'):format(n), 'job ' .. n) end
    c:close()
    local output, status = shell.run(
      ('timeout %d python3 -B examples/python/worker.py %s 3 2>/dev/null'):format(wait.limit(60), broker:url()))
    assert.equal(lines [[
      done: job 1, note 'number 1', attempt 1
      failed: the first attempt at job 2 fails
      done: job 3, note 'number 3', attempt 1
      done: job 2, note 'number 2', attempt 2
    ]], output)
    assert.equal(0, status)
    broker:cli('delete', 'queue', 'example.python')
  end)

  it('the jobs in Python with asyncio', function()
    local output, status = run(('timeout %d python3 -B examples/python/jobs_asyncio.py %s'):format(
      wait.limit(60), broker:url()))
    assert.equal(lines [[
      confirmed: 10
      done: number 0, number 1, number 2, number 3, number 4, number 5, number 6, number 7, number 8, number 9
      refused: unroutable
      left: 0
    ]], output)
    assert.equal(0, status)
  end)

  it('the client in Lua', function()
    check('lua5.4 examples/lua/client.lua', [[
      news.eu.rain went to 1 queue(s)
      news.us.sun went to 0 queue(s)
      news.eu went to 1 queue(s)
      news.eu.rain: about news.eu.rain (en GB)
      news.eu: about news.eu (en GB)
      false	not-found there is no queue 'example.lua.eu' in vhost '/'
    ]])
  end)

  it('the C program, built from the tree', function()
    local build = Broker.binary():match '^(.*)/'
    local program = broker.dir .. '/publish_consume'
    -- A library that was built with sanitizers needs their run-time.
    local output, status = run(([[
      flags=$(nm '%s/libtidemq.a' | grep -q __asan_ && echo -fsanitize=address,undefined)
      cc -Wall -Wextra -Werror -Iinclude $flags examples/c/publish_consume.c \
        '%s/libtidemq.a' $(pkg-config --libs libuv openssl) -o '%s']]):format(build, build, program))
    assert.equal('', output)
    assert.equal(0, status)
    check("'" .. program .. "'", [[
      published 3 messages
      got 'job 1', type text/plain, attempt 1
      got 'job 2', type text/plain, attempt 1
      got 'job 3', type text/plain, attempt 1
    ]])
  end)

  it('the event log', function()
    local command = ("TIDEMQ='%s' examples/event-log/run.sh %s"):format(Broker.binary(), broker:url())
    local output, status = run(command)
    assert.equal(lines [[
      -- two groups read the same log
      billing:
      0:0 order.18 placed by Bob
      1:0 order.17 placed by Ada
      1:1 order.17 paid
      dashboard:
      0:0 order.18 placed by Bob
      1:0 order.17 placed by Ada
      1:1 order.17 paid
      -- each goes on where it is
      billing:
      0:1 order.18 cancelled
      dashboard:
      0:1 order.18 cancelled
      0:2 order.19 placed by Cleo
      -- billing had a bug: it reads everything since yesterday once more
      billing:
      0:0 order.18 placed by Bob
      0:1 order.18 cancelled
      0:2 order.19 placed by Cleo
      1:0 order.17 placed by Ada
      1:1 order.17 paid
      -- a look at one place, by nobody
      1:1 order.17 paid
      -- a table: the last message of each key counts, and an empty one removes the key
      price.book 14
      price.piano 900
    ]], output)
    assert.equal(0, status)
  end)

  it('leave nothing behind', function()
    local c = broker:connect()
    c:send 'LIST queues\r\nLIST topics\r\nLIST exchanges\r\n'
    for _ = 1, 3 do assert.same({}, c:expect_json()) end
    c:close()
  end)
end)

describe('the order flow', function()
  local broker

  setup(function()
    broker = Broker.start { args = { '--fsync', 'no' }, rules = 'examples/order-flow/rules' }
  end)
  teardown(function() if broker then broker:destroy() end end)

  local function script(name)
    return run(("TIDEMQ='%s' examples/order-flow/%s %s"):format(Broker.binary(), name, broker:url()))
  end

  it('is set up, as often as one likes', function()
    for _ = 1, 2 do
      local output, status = script 'setup.sh'
      assert.equal('', output)
      assert.equal(0, status)
    end
  end)

  it('serves regions, VIPs first, and sets aside what fails for good', function()
    local output, status = script 'run.sh'
    assert.equal(lines [[
      -- warehouse.eu
      orders.eu.placed a book for Ada
      orders.eu.placed a piano for Cleo
      -- warehouse.us
      orders.us.placed a lamp for Bob
      orders.us.cancelled no lamp for Dan
      -- audit
      orders.eu.placed a book for Ada
      orders.us.placed a lamp for Bob
      orders.eu.placed a piano for Cleo
      orders.us.cancelled no lamp for Dan
      -- billing: gold before silver before standard
      tier=gold: a piano for Cleo
      tier=silver: a lamp for Bob
      tier=standard: a book for Ada
      -- an order that the bank refuses, four times
      attempt 1 is refused
      attempt 2 is refused
      attempt 3 is refused
      attempt 4 is refused
      -- orders.failed
      a yacht for Eve
      tier=standard
      x-death-reason=nack
      x-death-queue=billing
      x-death-exchange=orders
      x-death-key=orders.eu.placed
      x-death-time=TIME
      x-death-attempts=4
      x-death-rule=shipped/retry/exponential.lua
      x-death-first-reason=nack
      x-death-first-queue=billing
      x-death-first-exchange=orders
      x-death-first-key=orders.eu.placed
      x-death-first-time=TIME
      x-death-first-id=ID
      x-death-total=1
      x-death-counts=1:nack:billing
    ]], (output:gsub('time=%d+', 'time=TIME'):gsub('id=%x+', 'id=ID')))
    assert.equal(0, status)
  end)

  it('ranks by the rule in its own directory', function()
    local c = broker:connect()
    c:send 'EXPLAIN orders orders.eu.placed h:tier=gold\r\nEXPLAIN orders orders.eu.placed\r\n'
    local function billing(document)
      for _, queue in ipairs(document.queues) do
        if queue.queue == 'billing' then return queue end
      end
    end
    local gold, standard = billing(c:expect_json()), billing(c:expect_json())
    assert.equal('priority/vip.lua', gold.priority)
    assert.is_true(gold.rank <= standard.rank - 3600 * 1000)
    c:close()
  end)
end)

describe('examples/cookbook', function()
  it('passes its specs and its check', function()
    for _, verb in ipairs { 'test', 'check' } do
      local output, status = run(("'%s' %s examples/cookbook"):format(Broker.binary(), verb))
      assert.equal(0, status, output)
    end
  end)

  it('decides in a broker', function()
    local secrets = os.tmpname()
    os.remove(secrets)
    assert(os.execute(("mkdir '%s' && echo key >'%s/webhook'"):format(secrets, secrets)))
    local rules = {}
    for path in io.popen('cd examples/cookbook && find * -name "*.lua"'):lines() do
      rules[path] = shell.read_file('examples/cookbook/' .. path)
    end
    local broker = Broker.start { args = { '--fsync', 'no', '--secrets', secrets }, rules = rules }
    local c = broker:connect()
    c:ok 'DECLARE queue pack'
    c:ok 'DECLARE queue label'
    c:ok('PUB - pack', 'a parcel')
    c:get 'pack'
    c:ok 'ACK 1'
    assert.equal('a parcel', c:get('label')[1].payload)
    broker:destroy()
    assert(os.execute(("rm -r '%s'"):format(secrets)))
  end)
end)

describe('examples/README.md', function()
  local text = shell.read_file 'examples/README.md'

  it('names each example, and none that is not there', function()
    for path in io.popen('cd examples && ls -d */ *.sh && ls -d c/*.c shell/* lua/*'):lines() do
      -- Of a folder with a row for each file the files are named.
      local is_split = path == 'c/' or path == 'shell/' or path == 'lua/'
      if not is_split then assert.is_truthy(text:find(('(%s'):format(path), 1, true), path) end
    end
    for path in text:gmatch '%]%(([^)#]+)%)' do
      assert.is_not_nil(require('lfs').attributes('examples/' .. path), path)
    end
  end)

  it('counts the rules of the cookbook', function()
    local count = tonumber(shell.line 'ls examples/cookbook/*/*.lua | grep -vc _spec')
    assert.equal(21, count)
    assert.is_truthy(text:find('twenty-one short rules', 1, true))
  end)
end)
