-- The C library with the option `reconnect`, and the broker killed under it: nothing that
-- was confirmed is lost, and nothing is there twice.
local Broker = require 'support.broker'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

local quote = shell.quote

describe('a client that reconnects', function()
  local broker, dir, running

  after_each(function()
    if not broker then return end
    for _, program in ipairs(running) do
      if program.pipe then program.stop() end
    end
    os.execute('rm -rf ' .. quote(dir))
    broker:destroy()
    broker = nil
  end)

  -- A socket has the same address after a restart. By the broker's own directory
  -- kill9_all would know the clients, and kill them too.
  local function start(args)
    broker = Broker.start { listen = { 'unix:@DIR@/broker.sock' }, args = args }
    dir, running = shell.make_dir 'tidemq-client', {}
    assert(os.execute(('ln -s %s %s/broker'):format(quote(broker.dir), quote(dir))))
    return broker:connect()
  end

  it('may make a broker fail a transaction by a tag that was never given out', function()
    local c = start()
    c:ok 'DECLARE queue q'
    c:ok 'BEGIN'
    c:ok('PUB - q', 'a')
    c:send 'ACK 9223372036854775807\r\n'
    c:expect '^ERR not%-found tag 9223372036854775807 was never given out'
    c:send 'COMMIT\r\n'
    c:expect '^ERR not%-found '
    assert.equal(0, c:stats('q').ready)
  end)

  local function url() return 'tide+unix:' .. dir .. '/broker/broker.sock' end

  -- In the background. It writes to files, and is ended with the test.
  local function run(name, command)
    local base = dir .. '/' .. name
    local program = { out = base .. '.out', err = base .. '.err' }
    -- timeout passes SIGTERM on, also when the test is killed.
    program.pipe = assert(io.popen(('sh -c %s >%s 2>%s; echo status $?'):format(
      quote(('echo $$ >%s; exec timeout %d %s'):format(quote(base .. '.pid'), wait.limit(200), command)),
      quote(program.out), quote(program.err))))
    program.pid = assert(wait.poll(function()
      return tonumber((shell.read_file(base .. '.pid') or ''):match '^(%d+)\n')
    end))
    running[#running + 1] = program
    function program.stop()
      os.execute('kill -TERM ' .. program.pid)
      return program.status()
    end
    function program.log() return shell.read_file(program.err) end
    function program.status()
      local status = program.pipe:read('a'):match '^status (%d+)\n$'
      program.pipe:close()
      program.pipe = nil
      return math.tointeger(tonumber(status))
    end
    return program
  end

  local function ready(c, queue) return c:stats(queue).ready end

  local function expect_some(c, queue, count)
    if wait.poll(function() return ready(c, queue) >= count end, 60) then return end
    error(('%d of %d messages in %s: %s'):format(ready(c, queue), count, queue, running[1].log()))
  end

  -- Every number up to `last` is in the queue once.
  local function expect_each_once(c, queue, last, pattern)
    local seen, count = {}, 0
    while true do
      local messages = c:get(queue .. ' max=1000 ack=auto')
      if #messages == 0 then break end
      for _, m in ipairs(messages) do
        local number = assert(tonumber(m.payload:match(pattern)), m.payload)
        assert(not seen[number], ('%s is there twice'):format(m.payload))
        seen[number] = true
        count = count + 1
      end
    end
    assert.equal(last, count)
    for i = 1, last do assert(seen[i], i .. ' is missing') end
  end

  it('publishes each line once, whatever is killed', function()
    local last = 20000
    local c = start()
    c:ok 'DECLARE queue lines'
    local command = ('seq %d | %s pub --url %s --reconnect --lines - lines'):format(last, quote(Broker.binary()),
      quote(url()))
    local program = run('pub', 'sh -c ' .. quote(command))
    expect_some(c, 'lines', last // 10)
    broker:kill9()
    c = broker:run():connect()
    expect_some(c, 'lines', last // 3)
    broker:kill9_all()
    c = broker:run():connect()
    expect_some(c, 'lines', last // 2)
    c = broker:restart():connect()
    assert.equal(0, program.status(), program.log())
    assert.equal(('published %d messages\n'):format(last), shell.read_file(program.out))
    local _, lost = program.log():gsub('connecting again', '')
    -- On a machine that hesitates it may be done before the last of them.
    assert(lost >= 1, program.log())
    expect_each_once(c, 'lines', last, '^%d+$')
  end)

  it('goes on with the standby', function()
    local last = 5000
    local redis, standby = Redis.start(), nil
    finally(function()
      if standby then standby:destroy() end
      redis:destroy()
    end)
    local c = start { '--store', redis.url }
    standby = Broker.start { listen = { 'unix:@DIR@/broker.sock' }, stopped = true,
      args = { '--store', redis.url, '--standby' } }
    standby:launch()
    standby:expect_log('standing by', 30)
    c:ok 'DECLARE queue lines'
    local command = ('seq %d | %s pub --url %s --reconnect --lines - lines'):format(last, quote(Broker.binary()),
      quote(url() .. ',tide+unix:' .. standby.dir .. '/broker.sock'))
    local program = run('pub', 'sh -c ' .. quote(command))
    expect_some(c, 'lines', last // 10)
    broker:kill9()
    assert.is_true(standby:wait_ready())
    assert.equal(0, program.status(), program.log())
    expect_each_once(standby:connect(), 'lines', last, '^%d+$')
  end)

  local function build_worker()
    local build = Broker.binary():match '^(.*)/'
    local program = dir .. '/work'
    local output, status = shell.run(([[
      flags=$(nm '%s/libtidemq.a' | grep -q __asan_ && echo -fsanitize=address,undefined)
      cc -Wall -Wextra -Werror -Iinclude $flags examples/c/worker.c '%s/libtidemq.a' \
        $(pkg-config --libs libuv openssl) -o '%s' 2>&1]]):format(build, build, program))
    assert.equal('', output)
    assert.equal(0, status)
    return program
  end

  it('works on, and does each job once', function()
    local jobs = 300
    local c = start()
    local program = run('worker', quote(build_worker()) .. ' ' .. quote('tide+unix:/nonexistent,' .. url()))
    local function publish(first, past)
      for i = first, past do c:ok('PUB - example.jobs id=' .. i, tostring(i)) end
    end
    assert(wait.poll(function()
      c:send 'LIST queues\r\n'
      return #c:expect_json() == 2
    end))
    publish(1, 100)
    expect_some(c, 'example.results', 20)
    broker:kill9()
    c = broker:run():connect()
    publish(101, 200)
    expect_some(c, 'example.results', 120)
    broker:kill9_all()
    c = broker:run():connect()
    publish(201, jobs)
    expect_some(c, 'example.results', jobs)
    assert(wait.poll(function()
      local stats = c:stats 'example.jobs'
      return stats.ready + stats.unacked + stats.delayed == 0
    end, 60), 'a job is left over')
    assert.equal(0, program.stop(), program.log())
    local _, again = program.log():gsub('connected again', '')
    assert.equal(2, again, program.log())
    expect_each_once(c, 'example.results', jobs, '^(%d+) is done$')
  end)

  it('prints on', function()
    local c = start()
    c:ok 'DECLARE queue news'
    local program = run('sub', ('%s sub --url %s --reconnect --format %s news'):format(
      quote(Broker.binary()), quote(url()), quote '%p\\n'))
    local function expect_output(pattern)
      local text
      assert(wait.poll(function()
        text = shell.read_file(program.out)
        return text:find(pattern)
      end, 60), text)
    end
    c:ok('PUB - news', 'one')
    expect_output '^one\n$'
    broker:kill9()
    c = broker:run():connect()
    c:ok('PUB - news', 'two')
    -- The first comes again if Redis had not its ack yet.
    expect_output '^one\n.*two\n$'
    assert.equal('', (shell.read_file(program.out):gsub('one\n', ''):gsub('^two\n', '', 1)))
    assert.truthy(program.log():find('connected again\n', 1, true))
  end)

  it('reads a topic on, without a gap and without a repetition', function()
    local last = 600
    local c = start()
    c:ok 'DECLARE topic log partitions=4'
    local program = run('sub', ('%s sub --url %s --reconnect --from first --prefetch 7 --format %s log'):format(
      quote(Broker.binary()), quote(url()), quote '%p\\n'))
    local function output() return shell.read_file(program.out) end
    local function count() return select(2, output():gsub('\n', '')) end
    local function publish(first, past)
      for i = first, past do c:ok(('PUB - log h:n=%d'):format(i), tostring(i)) end
    end
    publish(1, last // 3)
    broker:kill9()
    c = broker:run():connect()
    publish(last // 3 + 1, last // 2)
    assert(wait.poll(function() return count() > last // 3 end, 60), program.log())
    broker:kill9_all()
    c = broker:run():connect()
    publish(last // 2 + 1, last)
    assert(wait.poll(function() return count() >= last end, 60), program.log())
    local seen = {}
    for line in output():gmatch '%d+' do
      assert(not seen[line], line .. ' is there twice')
      seen[line] = true
    end
    for i = 1, last do assert(seen[tostring(i)], i .. ' is missing') end
  end)

  it('ends when it is no longer let in', function()
    local c = start()
    c:ok 'DECLARE queue news'
    c:ok 'USER add root pass=secret tags=admin'
    c:ok 'USER grant root / write=.*'
    c:ok 'USER add reader pass=novel'
    c:ok 'USER grant reader / read=.*'
    local program = run('sub', ('env TIDEMQ_URL=%s %s sub --reconnect --format %s news'):format(
      quote(url() .. '?user=reader&pass=novel'), quote(Broker.binary()), quote '%p\\n'))
    c:ok('PUB - news', 'one')
    assert(wait.poll(function() return shell.read_file(program.out) == 'one\n' end))
    c:ok 'USER delete reader'
    assert.equal(1, program.status(), program.log())
    assert.equal("tidemq: event: closed denied user 'reader' was deleted\n"
      .. "tidemq: user 'reader' was deleted; connecting again\n"
      .. 'tidemq: denied: the user or the password is wrong\n', program.log())
  end)

  it('finds its brokers in the environment', function()
    start()
    local output, status = shell.run(('TIDEMQ_URL=%s %s ping 2>&1'):format(
      quote('tide+unix:/nonexistent,tide://127.0.0.1:1/,' .. url()), quote(Broker.binary())))
    assert.equal(0, status, output)
    output, status = shell.run(('TIDEMQ_URL=tide+unix:/nonexistent,tide://127.0.0.1:1/ %s ping 2>&1'):format(
      quote(Broker.binary())))
    assert.equal('tidemq: cannot connect to 127.0.0.1:1: connection refused\n', output)
    assert.equal(1, status)
  end)

  it('is for messages without a number', function()
    local output, status = shell.run(('%s sub --reconnect --count 1 news 2>&1'):format(quote(Broker.binary())))
    assert.equal('tidemq sub: --count does not take --reconnect; see tidemq help sub\n', output)
    assert.equal(2, status)
  end)
end)
