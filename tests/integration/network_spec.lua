-- Sockets: listeners, limits, silence, slow readers, and the ways in which the
-- broker starts and ends.
local Broker = require 'support.broker'
local Client = require 'support.client'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local socket = require 'socket'
local wait = require 'support.wait'

-- AddressSanitizer keeps what was freed: its memory says nothing of ours.

local function start(options)
  options = options or {}
  local args = { '--store', 'none' }
  for _, word in ipairs(options.args or {}) do args[#args + 1] = word end
  options.args = args
  return Broker.start(options)
end

describe('a listener', function()
  it('is on IPv4, IPv6 and Unix sockets at once', function()
    -- A container may have no hosts file.
    local name = require('socket').dns.toip 'localhost' and 'localhost:0' or '127.0.0.1:0'
    local other = Client.has_ipv6() and '[::1]:0' or '127.0.0.1:0'
    local broker = start {
      listen = { '127.0.0.1:0', other, 'unix:@DIR@/one.sock', 'unix:@DIR@/two.sock', name },
    }
    assert.is_truthy(broker.addresses[1]:find '^127%.0%.0%.1:%d+$')
    assert.equal(other:gsub('0$', ''), (broker.addresses[2]:gsub('%d+$', '')))
    assert.equal('unix:' .. broker.dir .. '/one.sock', broker.addresses[3])
    local first = broker:connect(1)
    first:ok 'DECLARE queue q'
    for i = 2, 5 do
      local c = broker:connect(i)
      c:ok('PUB - q', tostring(i))
      c:close()
    end
    first:send 'GET q max=9\r\nLIST connections\r\n'
    first:expect_line 'OK 4'
    for i = 2, 5 do assert.equal(tostring(i), first:expect_msg().payload) end
    assert.is_truthy(first:expect_json()[1].peer:find '^127')
    broker:expect_clean_stop()
    assert.is_nil(io.open(broker.dir .. '/one.sock'))
  end)

  it('takes the place of a Unix socket that a killed broker left', function()
    local broker = start { listen = { 'unix:@DIR@/left.sock' } }
    broker:kill9()
    broker:run()
    broker:connect():ok 'PING'
    broker:expect_clean_stop()
  end)

  local expected = 'expected HOST:PORT, [IPv6]:PORT, tls:HOST:PORT or unix:PATH'

  it('that cannot be had fails the start with one line and status 1', function()
    local broker = start()
    local port = broker.address:match ':(%d+)$'
    for _, case in ipairs {
      { '127.0.0.1:' .. port, 'cannot listen on 127.0.0.1:' .. port .. ': address already in use' },
      { 'unix:/nowhere/at/all.sock', 'cannot listen on unix:/nowhere/at/all.sock: permission denied' },
      { 'nowhere.invalid:0', "cannot resolve 'nowhere.invalid': " },
      { 'no-port', "'no-port' is not an address: " .. expected },
      { '127.0.0.1:65536', "'127.0.0.1:65536' is not an address: " .. expected },
      { '::1:0', "'::1:0' is not an address: " .. expected },
    } do
      local none, log, status = start { listen = { case[1] }, may_fail = true }
      assert.is_nil(none)
      assert.equal(1, status)
      local line = log:match '^tidemq: ([^\n]*)\n$'
      assert.is_truthy(line, log)
      if case[1]:find '^unix' then
        assert.is_truthy(line:find('cannot listen on ' .. case[1], 1, true), line)
      else
        assert.equal(case[2], line:sub(1, #case[2]))
      end
    end
    broker:expect_clean_stop()
  end)

  it('that cannot be understood is refused before Redis is started or a file is made', function()
    local dir = shell.make_dir 'tidemq-address'
    for _, address in ipairs { 'x', '127.0.0.1:65536', 'unix:' .. ('x'):rep(200) } do
      local output, status = shell.run(('cd %s && %s serve --listen %s 2>&1 </dev/null'):format(
        shell.quote(dir), shell.quote(Broker.binary()), address))
      assert.equal(1, status)
      assert.is_truthy(output:find '^tidemq: [^\n]*expected[^\n]*\n$', output)
    end
    -- The directory is as empty as it was.
    assert.is_truthy(os.remove(dir))
  end)

  it('on a path is open to those that --socket-mode and --socket-group name', function()
    local function mode_of(broker)
      return shell.line(('stat -c "%%a %%G" %s'):format(shell.quote(broker.dir .. '/a.sock')))
    end
    local group = shell.line 'id -gn'
    local broker = start { listen = { 'unix:@DIR@/a.sock' } }
    assert.equal('600 ' .. group, mode_of(broker))
    broker:destroy()
    broker = start { listen = { 'unix:@DIR@/a.sock' }, args = { '--socket-mode', '0660', '--socket-group', group } }
    assert.equal('660 ' .. group, mode_of(broker))
    broker:destroy()
    for word, said in pairs { ['99'] = "must be three octal digits", ['0888'] = "must be three octal digits" } do
      local none, log, status = Broker.start { args = { '--socket-mode', word }, may_fail = true }
      assert.is_nil(none)
      assert.equal(2, status)
      assert.matches(said, log)
    end
    local none, log, status = Broker.start {
      listen = { 'unix:@DIR@/a.sock' }, args = { '--store', 'none', '--socket-group', 'none-such' }, may_fail = true,
    }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.matches("there is no group 'none%-such' %(%-%-socket%-group%)\n", log)
  end)

  it('that a running broker has is not taken away by another', function()
    local broker = start { listen = { 'unix:@DIR@/mine.sock' } }
    local none, log, status = start { listen = { broker.address }, may_fail = true }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.is_truthy(log:find('address already in use', 1, true), log)
    broker:connect():ok 'PING'
    broker:expect_clean_stop()
  end)
end)

describe('the command line of serve', function()
  it('that is wrong ends with status 2 and one line', function()
    for words, text in pairs {
      ['serve --frob'] = "tidemq serve: there is no option '--frob'; see tidemq help serve",
      ['serve now'] = "tidemq serve: it takes only options, not 'now'; see tidemq help serve",
      ['serve --data'] = "tidemq serve: option '--data' needs a value; see tidemq help serve",
      ['serve --node 1024'] = "tidemq serve: --node must be 0-1023, not '1024'; see tidemq help serve",
      ['serve --fsync maybe'] = "tidemq serve: --fsync must be one of always|everysec|no, not 'maybe'; "
        .. 'see tidemq help serve',
      ['serve --log loud'] = "tidemq serve: --log must be one of error|warn|info|debug, not 'loud'; "
        .. 'see tidemq help serve',
      ['serve --idle-timeout soon'] = 'tidemq serve: --idle-timeout must be a duration like 250ms, 30s, 5m, 2h or 1d, '
        .. "from 0s to 1d, not 'soon'; see tidemq help serve",
      ['frobnicate'] = "tidemq: there is no verb 'frobnicate'; see tidemq help",
    } do
      local output, status = shell.run(('%s %s 2>&1 </dev/null'):format(Broker.binary(), words))
      assert.equal(text .. '\n', output)
      assert.equal(2, status)
    end
  end)

  it('for what cannot be started ends with status 1 and one line', function()
    local none, log, status = start { rules = '/nowhere', may_fail = true }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.is_truthy(log:match '^tidemq: [^\n]*/nowhere[^\n]*\n$', log)
    none, log, status = start { rules = { ['routing/broken.lua'] = 'return {' }, may_fail = true }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.is_truthy(log:match '^tidemq: [^\n]*routing/broken%.lua:1:[^\n]*\n$', log)
    none, log, status = Broker.start { args = { '--store', 'redis+unix:/nowhere.sock' }, may_fail = true }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.is_truthy(log:find('tidemq: [^\n]*/nowhere%.sock[^\n]*\n$'), log)
  end)
end)

describe('a connection', function()
  local broker

  setup(function() broker = start() end)
  teardown(function() broker:expect_clean_stop() end)

  it('with a heartbeat hears the broker, and is closed when it says nothing', function()
    broker.vhost = nil -- which is a HELLO too
    local c = broker:connect()
    assert.equal(1000, c:document('HELLO heartbeat=1s').heartbeat_ms)
    local last = c:drain_until '^EVT closed .*$'
    assert.equal('EVT closed busy no input for two heartbeats', last)
    c:expect_closed()
  end)

  it('with a heartbeat stays open while it says something', function()
    broker.vhost = nil -- which is a HELLO too
    local c = broker:connect()
    c:document 'HELLO heartbeat=1s'
    for _ = 1, 3 do
      c:expect_line 'EVT heartbeat'
      c:send 'PING quiet\r\n'
    end
    c:send 'PING\r\n'
    c:drain_until '^OK$'
  end)

  it('that is half-closed by nc gets its answers', function()
    local port = broker.address:match ':(%d+)$'
    local output, status = shell.run((
      [[printf 'DECLARE queue q\nPUB - q 5\nhello\nGET q wait=20ms ack=auto\nGET q wait=20ms\n' | nc -N 127.0.0.1 %s]]
    ):format(port))
    assert.equal(0, status)
    local wanted = '^OK\r\nOK %x+ 1\r\nOK 1\r\nMSG %- %- 1 %- q id=%x+ ts=%d+ 5\r\nhello\r\nOK 0\r\n$'
    assert.is_truthy(output:find(wanted), output)
  end)

  it('that is closed while it waits is given nothing', function()
    local c = broker:enter_vhost()
    c:ok 'DECLARE queue q'
    for _, farewell in ipairs { '', 'QUIT\r\n', '@2 OPEN\r\n@2 QUIT\r\n' } do
      local gone = broker:connect()
      gone:send('@1 OPEN\r\n@1 GET q wait=1h ack=auto\r\nGET q wait=1h\r\n' .. farewell)
      gone:expect_line '@1 OK'
      gone:shutdown()
      gone:drain_until '^@1 OK 0$'
      gone:close()
    end
    c:ok('PUB - q', 'x')
    assert.equal(1, c:get('q')[1].attempt)
  end)

  it('that goes on talking after its end is not listened to', function()
    local c = broker:enter_vhost()
    c:send('QUIT\r\n' .. ('x'):rep(1000000))
    c:expect_line 'OK'
    c:expect_closed()
    c = broker:connect()
    c:send(('x'):rep(65536) .. ('y'):rep(1000000))
    c:expect_line 'ERR too-long a line has at most 65536 bytes'
    c:expect_closed()
    c = broker:connect()
    c:ok 'DECLARE queue q'
    c:send('@1 OPEN\r\n@1 GET q wait=1h\r\nQUIT\r\n' .. ('x'):rep(1000000))
    c:expect_line '@1 OK'
    c:expect_line 'OK'
    local other = broker:connect()
    other:ok('PUB - q', 'x')
    c:expect_line '@1 OK 1'
    assert.equal('x', c:expect_msg(nil, 1).payload)
    c:expect_closed()
  end)
end)

describe('a connection to a broker of its own', function()
  it('over the limit is told so and closed', function()
    local broker = start { args = { '--max-connections', '3' } }
    local open = {}
    for i = 1, 3 do
      open[i] = broker:connect()
      open[i]:ok 'PING'
    end
    for _ = 1, 3 do
      local c = broker:connect()
      c:expect_line 'ERR limit the limit of 3 connections is reached'
      c:expect_closed()
      c:close()
    end
    open[1]:send 'QUIT\r\n'
    open[1]:expect_line 'OK'
    open[1]:expect_closed()
    open[1]:close()
    assert.is_truthy(wait.poll(function()
      local c = broker:connect()
      c:send 'PING\r\n'
      local line = c:read_line()
      c:close()
      return line == 'OK'
    end))
    broker:expect_clean_stop()
  end)

  it('that is silent for the idle timeout is closed', function()
    local broker = start { args = { '--idle-timeout', '50ms' } }
    local c = broker:connect()
    c:ok 'PING'
    c:expect_line 'EVT closed busy no input for the idle timeout'
    c:expect_closed()
    broker:expect_clean_stop()
  end)

  it('that reads nothing of what waits for it is closed, and its messages return', function()
    local broker = start { args = { '--write-timeout', '1s' } }
    local c, lazy = broker:connect(), broker:connect()
    c:ok 'DECLARE queue q durable=0 shards=1'
    -- It is alive, and says so; it only does not read.
    lazy:send 'HELLO name=lazy heartbeat=1s\r\nSUB q s prefetch=1000\r\n'
    local payload = ('x'):rep(100000)
    for _ = 1, 200 do c:ok('PUB - q', payload) end
    local function counts()
      pcall(lazy.send, lazy, 'PING quiet\r\n') -- an error once it is closed
      return c:document 'STATS q'
    end
    assert.is_true(counts().unacked > 0)
    assert.is_true(wait.poll(function() return counts().unacked == 0 end, 20))
    assert.equal(200, counts().ready)
    broker:expect_log 'it read nothing for the write timeout'
    broker:expect_clean_stop()
  end)

  it('that is half-closed gets its answers', function()
    local broker = Broker.start { args = { '--fsync', 'no' } }
    local c = broker:connect()
    c:send 'DECLARE queue q\r\nPUB - q 5\r\nhello\r\nGET q\r\nACK 1\r\nPEEK q\r\n'
    c:shutdown()
    c:expect_line 'OK'
    c:expect '^OK %x+ 1$'
    c:expect_line 'OK 1'
    assert.equal('hello', c:expect_msg().payload)
    c:expect_line 'OK 1'
    assert.same({}, c:expect_json().messages)
    c:expect_closed()
    broker:expect_clean_stop()
  end)

  it('that is half-closed after quiet requests is closed', function()
    local broker = Broker.start { args = { '--fsync', 'no' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    for _ = 1, 20 do
      local quiet = broker:connect()
      quiet:send 'PUB - q quiet 1\r\nx\r\n'
      quiet:shutdown()
      quiet:expect_closed()
    end
    assert.equal('20', c:ok 'PURGE q')
    broker:expect_clean_stop()
  end)

  describe('that goes away while its requests wait', function()
    local served, admin

    setup(function() served = Broker.start { args = { '--max-pending', '16' } } end)
    teardown(function() served:expect_clean_stop() end)
    before_each(function()
      admin = served:enter_vhost()
      admin:ok 'DECLARE queue q'
      admin:ok 'DECLARE queue empty'
      for i = 1, 10 do admin:ok('PUB - q', tostring(i)) end
    end)

    local function wait_unacked(count)
      return assert(wait.poll(function() return admin:stats('q').unacked == count end, 20))
    end

    local function reset(client)
      client.sock:setoption('linger', { on = true, timeout = 0 })
      client:close()
    end

    it('keeps no message, though not all its requests were read', function()
      for _, leave in ipairs { admin.close, reset } do
        local gone = served:connect()
        gone:send(('GET q wait=1h\r\n'):rep(40))
        wait_unacked(10)
        leave(gone)
        wait_unacked(0)
      end
      assert(wait.poll(function() return #admin:document 'LIST connections' == 1 end, 20))
    end)

    it('keeps no message, though Redis does not answer', function()
      local pid = served:redis_pid()
      local gone = served:connect()
      os.execute('kill -STOP ' .. pid)
      gone:send('PUB - empty 1\r\nx\r\n' .. ('GET q\r\n'):rep(10))
      wait_unacked(10)
      gone:close()
      wait_unacked(0)
      os.execute('kill -CONT ' .. pid)
    end)

    it('is answered when it has only closed its side', function()
      local half = served:connect()
      half:send(('GET empty wait=1h\r\n'):rep(40))
      half:shutdown()
      for _ = 1, 40 do half:expect_line('OK 0', 20) end
      half:expect_closed(20)
    end)
  end)

  it('that vanishes loses only what it had not confirmed', function()
    local broker = start()
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    for _ = 1, 50 do
      local other = broker:connect()
      other:send 'SUB q s\r\nPUB - q 100000\r\nhalf'
      other.sock:setoption('linger', { on = true, timeout = 0 }) -- a reset
      other:close()
    end
    c:expect_nothing()
    assert.is_truthy(wait.poll(function()
      return c:document('STATS').connections == 1
    end))
    broker:expect_clean_stop()
  end)
end)

describe('two thousand idle connections', function()
  it('cost little, and disturb nobody', function()
    local broker = start()
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    local before = broker:memory()
    local host, port = broker.address:match '^(.*):(%d+)$'
    local idle = {}
    finally(function()
      for _, sock in ipairs(idle) do sock:close() end
    end)
    -- As many as a small limit of open files allows, which the broker has too.
    local files = tonumber(shell.line 'ulimit -n') or math.huge
    for i = 1, math.min(2000, files - 124) do idle[i] = assert(socket.connect(host, tonumber(port))) end
    assert.is_truthy(wait.poll(function()
      return c:document('STATS').connections == #idle + 1
    end))
    c:ok('PUB - q', 'x')
    assert.equal('x', c:get('q')[1].payload)
    broker:expect_memory_below(before + #idle * 16384)
    for _, sock in ipairs(idle) do sock:close() end
    assert.is_truthy(wait.poll(function()
      return c:document('STATS').connections == 1
    end))
    broker:expect_clean_stop()
  end)
end)

describe('a consumer that does not read', function()
  local broker, c

  -- 32 MiB in a queue that is not durable, so that all of it is in memory once.
  local PAYLOAD = ('x'):rep(1000)
  local COUNT = 32000

  setup(function()
    broker = start { args = { '--window-messages', '100000', '--window-bytes', '200M' } }
    c = broker:connect()
    c:ok 'DECLARE queue q durable=0'
    local part = (('PUB - q quiet %d\r\n%s\r\n'):format(#PAYLOAD, PAYLOAD)):rep(1000)
    for _ = 1, COUNT / 1000 do c:send(part) end
    c:expect_nothing()
  end)
  teardown(function() broker:expect_clean_stop() end)

  it('is not sent more than its socket and buffer take', function()
    local before = broker:memory()
    local slow = broker:connect()
    slow:send 'SUB q s prefetch=65535\r\n'
    -- It is dealt some, and then no more.
    local last
    assert.is_truthy(wait.poll(function()
      local now = c:stats('q').unacked
      local is_still = now > 0 and now == last
      last = now
      return is_still
    end))
    assert.is_true(c:stats('q').ready > 0, 'all of it was dealt out')
    broker:expect_memory_below(before + (16 << 20))
    -- Others are served meanwhile.
    local quick = broker:connect()
    assert.equal(1000, #quick:get 'q max=1000 ack=auto')
    quick:close()
    -- As soon as it reads it gets the rest.
    slow:expect_line 'OK'
    for _ = 1, COUNT - 1000 do slow:expect_msg() end
    assert.equal(0, c:stats('q').ready)
    slow:close()
    assert.is_truthy(wait.poll(function() return c:stats('q').ready == COUNT - 1000 end))
    c:ok 'PURGE q'
  end)

  it('and asks without reading the answers is not read any more', function()
    local before = broker:memory()
    local greedy = broker:connect()
    for _ = 1, 3000 do c:send 'PUB - q quiet 10\r\n0123456789\r\n' end
    c:expect_nothing()
    local ask = ('PEEK q 100\r\n'):rep(1000)
    -- Far more than the broker may answer: at some point it stops to read.
    local sent = 0
    greedy.sock:settimeout(0)
    local stalled = wait.poll(function()
      local last, err, partial
      repeat
        last, err, partial = greedy.sock:send(ask)
        sent = sent + (last or partial or 0)
        if sent > 64 * 1024 * 1024 then return 'never' end
      until err
      assert.equal('timeout', err)
      -- Turns of the broker in which it could read.
      for _ = 1, 20 do c:expect_nothing() end
      local _, writable = socket.select(nil, { greedy.sock }, 0)
      return #writable == 0 and 'stalled'
    end)
    assert.equal('stalled', stalled)
    broker:expect_memory_below(before + (48 << 20))
    c:expect_nothing()
    greedy:close()
    c:ok 'PURGE q'
  end)
end)

describe('SIGTERM', function()
  it('while the broker begins ends it with status 0', function()
    local dir = shell.make_dir 'tidemq-early'
    -- It takes its lock before it loads the rules, which takes a while.
    shell.write_file(dir .. '/rules/routing/slow.lua', [[
      for _ = 1, 1000000 do end
      return { route = function() end }]])
    local output, status = shell.run(([[
      cd %s || exit; %s serve --listen 127.0.0.1:0 --rules rules --rules-budget 5s 2>&1 & broker=$!
      while [ ! -e data/lock ] && [ -e /proc/$broker/exe ]; do :; done
      kill -TERM $broker; wait $broker]]):format(shell.quote(dir), shell.quote(Broker.binary())))
    os.execute('rm -rf ' .. shell.quote(dir))
    assert.equal(0, status, output)
    assert.is_truthy(output:find 'SIGTERM: stopping', output)
  end)

  it('flushes the answers, says why, and ends with status 0', function()
    local broker = Broker.start()
    local c, idle, waiting = broker:connect(), broker:connect(), broker:connect()
    c:ok 'DECLARE queue q'
    idle:ok 'PING'
    waiting:ok 'DECLARE queue empty'
    waiting:send '@1 OPEN\r\nSUB empty s\r\n@1 GET empty wait=1h\r\n'
    waiting:expect_line '@1 OK'
    waiting:expect_line 'OK'
    local part = ('PUB - q 1\r\nx\r\n'):rep(500)
    c:send(part)
    c:expect '^OK %x+ 1$'
    broker:signal 'TERM'
    local confirmed = 1
    for _ = 1, 501 do
      local line = c:read_line()
      if line == 'EVT closed shutdown the broker is stopping' then break end
      assert.is_truthy(line and line:find '^OK %x+ 1$', line)
      confirmed = confirmed + 1
    end
    -- What it had read by then is still answered behind the event.
    while true do
      local line = c:read_line()
      if not line then break end
      if line ~= 'EVT closed shutdown the broker is stopping' then
        assert.is_truthy(line:find '^OK %x+ 1$', line)
        confirmed = confirmed + 1
      end
    end
    idle:expect_line 'EVT closed shutdown the broker is stopping'
    idle:expect_closed()
    local lines = { waiting:read_line(), waiting:read_line() }
    table.sort(lines)
    assert.same({ '@1 OK 0', 'EVT closed shutdown the broker is stopping' }, lines)
    waiting:expect_closed()
    broker:expect_clean_stop() -- status 0, no process left
    broker:restart()
    c = broker:connect()
    local ready = c:document('STATS q').ready
    assert.is_true(ready >= confirmed, ('%d of %d confirmed'):format(ready, confirmed))
    broker:expect_clean_stop()
  end)

  it('charges no consumer, and keeps what was held', function()
    local broker = Broker.start { args = { '--fsync', 'no' } }
    local c = broker:connect()
    c:ok 'DECLARE queue q auto-delete'
    c:ok('PUB - q', 'x')
    c:send 'SUB q s\r\n'
    c:expect_line 'OK'
    c:expect_msg()
    broker:expect_clean_stop()
    broker:restart()
    c = broker:connect()
    local m = c:peek('q')[1]
    assert.equal('x', m.payload)
    assert.equal(0, m.failures)
    broker:expect_clean_stop()
  end)

  it('ends a broker with many connections in the middle of everything', function()
    local broker = start()
    local clients = {}
    for i = 1, 100 do
      clients[i] = broker:connect()
      clients[i]:send(('DECLARE queue q%d\r\nSUB q%d s\r\nPUB - q%d 100000\r\nhalf a payload'):format(i, i, i))
    end
    broker:expect_clean_stop()
  end)
end)

describe('another user of the machine', function()
  it('can read no file of a data directory that was there before', function()
    local broker = Broker.start()
    broker:connect():ok 'DECLARE queue q'
    local function expect_closed()
      assert.equal('755', shell.line('stat -c %a ' .. broker.data))
      assert.equal('', shell.line(('find %s -mindepth 1 -maxdepth 1 -perm /077'):format(broker.data)))
    end
    expect_closed()
    -- A broker before this one left them open.
    broker:expect_clean_stop()
    assert(os.execute('chmod -R go+rX ' .. broker.data))
    broker:restart()
    broker:expect_log 'warn  store: other users could read %S+/appendonlydir; now they cannot'
    expect_closed()
    broker:connect():ok('PUB - q', 'x')
    broker:expect_clean_stop()
  end)

  it('does not see the password of a Redis', function()
    local redis = Redis.start()
    redis:cli('CONFIG', 'SET', 'requirepass', 'secret')
    local url = 'redis+unix:%s' .. redis.path
    for _, options in ipairs {
      { args = { '--store', url:format ':secret@' } },
      { args = { '--store=' .. url:format ':secret@' } },
      { env = { TIDEMQ_STORE = url:format ':secret@' } },
      { config = ('return { store = %q }'):format(url:format ':secret@') },
    } do
      local broker = Broker.start(options)
      broker:connect():ok 'DECLARE queue q'
      local line = shell.read_file(('/proc/%d/cmdline'):format(broker:pid()))
      assert.is_nil(line:find('secret', 1, true))
      assert.is_nil(broker:log():find('secret', 1, true))
      assert.equal(options.args ~= nil, broker:log():find 'warn  the password of %-%-store was' ~= nil)
      broker:expect_clean_stop()
    end
    redis:destroy()
  end)
end)

describe('few descriptors', function()
  it('are worth a warning when more was asked for', function()
    for _, options in ipairs {
      { files = 64, args = { '--max-connections', '500' } },
      { files = 64, config = 'return { ["max-connections"] = 500 }' },
    } do
      local broker = Broker.start(options)
      broker:expect_log 'warn  %-%-max%-connections is 500, but the limit of open files leaves room for %d+; raise it'
      broker:expect_clean_stop()
      broker:destroy()
    end
  end)

  it('leave those that the broker needs for itself, however many clients come', function()
    local broker = Broker.start { files = 64 }
    broker:expect_log 'info  %-%-max%-connections is 20000, but the limit of open files leaves room for %d+'
    local c = broker:connect()
    c:ok 'DECLARE queue q'
    local host, port = broker.address:match '^(.*):(%d+)$'
    local crowd = {}
    for i = 1, 200 do crowd[i] = assert(socket.connect(host, port)) end
    broker:kill9_redis()
    assert.matches('^OK %x+ 1$', c:request('PUB - q', 'x'))
    -- Some are served, some are told why they are not, and some are closed without a word.
    local served, told = 0, 0
    for _, sock in ipairs(crowd) do
      sock:settimeout(wait.limit(20))
      sock:send 'PING\r\n'
      local line = sock:receive '*l'
      served = served + (line == 'OK' and 1 or 0)
      told = told + ((line or ''):find '^ERR limit the limit of %d+ connections is reached' and 1 or 0)
      sock:close()
    end
    assert.is_true(served >= 10 and told >= 1, served .. ' served, ' .. told .. ' told')
    broker:expect_clean_stop()
  end)

  it('that are too few fail the start', function()
    local none, log, status = start { files = 32, may_fail = true }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.is_truthy(log:find 'open files', log)
  end)
end)

describe('a log that nobody reads', function()
  it('stops nobody, and says later what it lacks', function()
    local broker = start {
      log_pipe = true,
      rules = { ['filter/talk.lua'] = [[
        return { match = { exchange = '*' }, publish = function(msg) tide.log.warn(('x'):rep(1500)) end }]] },
    }
    local c = broker:connect()
    c:ok 'DECLARE queue q durable=0'
    -- A pipe takes 64 KiB, and a script may log 50 lines a second.
    assert(os.execute(('head -c 40960 /dev/zero >%s/log'):format(broker.dir)))
    for _ = 1, 60 do c:ok('PUB - q', 'y') end
    c:expect_nothing()
    -- One read takes what is there; the pipe then has room.
    local function read()
      return (shell.run(('dd if=%s/log bs=1M count=1 status=none'):format(broker.dir)))
    end
    read()
    c:document 'RULES reload'
    assert.is_truthy(read():find '^%S+ warn  log: %d+ lines were lost: they were not read\n')
    broker:expect_clean_stop()
  end)
end)

describe('SIGHUP', function()
  it('reloads the rules', function()
    local broker = start { rules = {} }
    local c = broker:connect()
    c:ok 'DECLARE exchange x fanout'
    local before = c:document('RULES status').generation
    broker:signal 'HUP'
    assert.is_truthy(wait.poll(function()
      return c:document('RULES status').generation > before
    end))
    broker:expect_clean_stop()
  end)
end)
