-- docs/high-availability.md: its commands bring a broker's messages from one Redis to a Redis Cluster, and back.
local Broker = require 'support.broker'
local Node = require 'support.redis_node'
local shell = require 'support.shell'
local socket = require 'socket'

local page = shell.read_file 'docs/high-availability.md'
local quote = shell.quote

local function section(name) return assert(('\n' .. page):match('\n### ' .. name .. '\n(.-)\n### '), name) end

--- The page's ports are 25001 to 25006, their buses above 35000, and 6379: ones that are free here. The buses are
--- 10000 above: below those that other tests take, and below those that the system gives to connections.
local function free_tens()
  while true do
    local tens, is_free = math.random(1100, 1290), true
    for n = 1, 6 do
      for _, port in ipairs { tens * 10 + n, tens * 10 + n + 10000 } do
        local server = socket.bind('127.0.0.1', port)
        is_free = is_free and server ~= nil
        if server then server:close() end
      end
    end
    if is_free then return tens end
  end
end

describe('docs/high-availability.md', function()
  local old, broker, tens, port

  setup(function() old = Broker.start() end)
  teardown(function()
    if broker then broker:destroy() end
    old:destroy() -- the nodes are in its directory
  end)

  --- Each command of a section in its order; `tidemq serve` is a broker of the test, which ends at the next step.
  local function perform(name)
    for block in section(name):gmatch '\n *```sh\n(.-)\n *```' do
      block = block:gsub('2500', tens):gsub('6379', port)
      -- A node that does not start is not waited for without end.
      block = block:gsub('sleep 1; done', 'sleep 1; i=$((${i:-0} + 1)); test $i -lt 300; done')
      local serve
      block = ('\n' .. block):gsub('\n *tidemq serve %-%-store (%S+)', function(url)
        serve = url
        return ''
      end)
      local output, status = shell.run(('cd %s && tidemq() { %s "$@"; } && set -eu\n%s'):format(
        quote(old.dir), quote(Broker.binary()), '{ true\n' .. block .. '\n} 2>&1 </dev/null'))
      assert.equal(0, status, block .. '\n' .. output:gsub('#+', '#'))
      if serve then broker = Broker.start { args = { '--store', serve } } end
    end
  end

  local function publish(c, first, last)
    for n = first, last do
      c:ok('PUB - jobs', 'job ' .. n)
      c:ok(('PUB - ranked pri=%d'):format(n % 10), 'ranked ' .. n)
      c:ok('PUB - events', 'event ' .. n)
    end
    c:ok(('PUB - jobs delay=1h id=late%d'):format(last), 'late')
  end

  it('moves a broker to a Redis Cluster and back, with all that it has', function()
    tens, port = free_tens(), Node.free_port()
    shell.write_file(old.dir .. '/redis-node.conf', shell.read_file 'examples/cluster/redis-node.conf')
    local c = old:connect()
    c:ok 'DECLARE queue jobs shards=6 dedupe=1d'
    c:ok 'DECLARE queue ranked priority=strict'
    c:ok 'DECLARE topic events partitions=3'
    publish(c, 1, 30)
    c:get 'jobs max=5'
    c:ok 'ACK 1-5'
    old:expect_clean_stop()

    perform 'From one Redis to a Redis Cluster'
    c = broker:connect()
    assert.equal(25, c:stats('jobs').ready)
    publish(c, 31, 60)
    c:get 'jobs max=5'
    c:ok 'ACK 1-5'
    broker:expect_clean_stop()
    broker:destroy()

    perform 'From a Redis Cluster to one Redis'
    c = broker:connect()
    local seen, events = {}, {}
    for _, queue in ipairs { 'jobs', 'ranked' } do
      repeat
        local got = c:get(queue .. ' max=100')
        for _, msg in ipairs(got) do seen[#seen + 1] = msg.payload end
      until #got == 0
    end
    assert.equal(50 + 60, #seen)
    assert.equal(2, c:stats('jobs').delayed)
    for _, n in ipairs { 30, 60 } do
      assert.matches(' duplicate$', c:ok(('PUB - jobs delay=1h id=late%d'):format(n), 'late'))
    end
    c:ok 'SUB events e from=first'
    for n = 1, 60 do events[c:expect_msg().payload] = n end
    for n = 1, 60 do assert.is_truthy(events['event ' .. n]) end
    broker:expect_clean_stop()
  end)
end)
