-- The command-line verbs: what they print, and with which status they end.
local Broker = require 'support.broker'
local json = require 'dkjson'
local shell = require 'support.shell'
local verbs = require 'support.verbs'
local wait = require 'support.wait'

describe('the command line', function()
  local broker
  local queue, number = nil, 0

  setup(function()
    broker = Broker.start { args = { '--fsync', 'no' }, listen = { '127.0.0.1:0', 'unix:@DIR@/sock' }, rules = {} }
  end)
  teardown(function() if broker then broker:destroy() end end)
  before_each(function()
    number = number + 1
    queue = 'q' .. number
  end)

  local function tide(...) return verbs.tide(broker, ...) end
  local function refused(...) verbs.refused(broker, ...) end
  local function run(command) return verbs.run(broker, command) end

  describe('pub and get', function()
    it('carry payload, headers and priority', function()
      tide('declare', 'queue', queue)
      local receipt = tide('pub', '--header', 'type=text/plain', '--header', 'note=50% off',
        '--priority', '9', '-', queue, 'hello')
      assert.matches('^published %x+ to 1 queue\n$', receipt)
      assert.equal('- ' .. queue .. ' 1 9 type=text/plain note=50% off <hello>\n',
        tide('get', '--format', '%e %k %a %P %h <%p>\\n', queue))
      assert.equal('', tide('get', queue))
    end)

    it('give JSON to programs', function()
      tide('declare', 'queue', queue)
      local receipt = json.decode(tide('pub', '--json', '--header', 'a=b', '-', queue, 'hello'))
      assert.equal(1, receipt.queues)
      local msg = json.decode(tide('get', '--json', queue))
      assert.equal(receipt.id, msg.id)
      assert.equal('hello', msg.payload)
      assert.same({ a = 'b' }, msg.headers)
      assert.equal(1, msg.attempt)
      assert.is_false(msg.redelivered)
    end)

    it('take a payload of any bytes from standard input', function()
      tide('declare', 'queue', queue)
      run(([[printf 'a\000b\r\n' | tidemq pub - %s -]]):format(queue))
      assert.equal('a\0b\r\n', (run(("tidemq get --format %%p %s"):format(queue))))
    end)

    it('say how many of several are stored, when the others are refused', function()
      tide('declare', 'queue', queue, 'max-length=312', 'overflow=reject')
      refused(1, '^tidemq: 312 of 1000 stored; then: full: ', 'pub', '--count', '1000', '-', queue, 'x')
      refused(1, '^tidemq: 0 of 2 stored; then: full: ', 'pub', '--count', '2', '-', queue, 'x')
      tide('purge', queue)
      local output, status = run(('seq 2000 | tidemq pub --json --lines - %s 2>/dev/null'):format(queue))
      assert.same({ '{"published":312}\n', 1 }, { output, status })
      output = run(('seq 3 | tidemq pub --lines - %s 2>&1'):format(queue))
      assert.matches('^tidemq: 0 of 3 sent are stored; then: full: ', output)
    end)

    it('name queues and topics each', function()
      local topic = queue .. '-log'
      tide('declare', 'exchange', queue .. '-x', 'fanout')
      for _, kind in ipairs { 'queue', 'topic' } do
        local name = kind == 'topic' and topic or queue
        tide('declare', kind, name)
        tide('bind', name, queue .. '-x', '-')
      end
      assert.matches('^published %x+ to 1 queue and 1 topic, partition %d offset 0\n$',
        tide('pub', queue .. '-x', 'k', 'x'))
      local receipt = json.decode(tide('pub', '--json', queue .. '-x', 'k', 'x'))
      assert.same({ 2, 1 }, { receipt.queues, receipt.topics })
      tide('declare', 'topic', topic .. '2')
      tide('bind', topic .. '2', queue .. '-x', '-')
      assert.matches('^published %x+ to 1 queue and 2 topics, ', tide('pub', queue .. '-x', 'k', 'x'))
      assert.matches('^published %x+ to 1 topic, partition', tide('pub', '-', topic, 'x'))
    end)

    it('publish each line, and several times', function()
      tide('declare', 'queue', queue)
      assert.equal('published 1500 messages\n', (run(('seq 1500 | tidemq pub --lines - %s'):format(queue))))
      assert.equal('published 3 messages\n', tide('pub', '--count', '3', '-', queue, 'x'))
      local lines = tide('get', '--max', '1000', '--format', '%p ', queue)
      assert.matches('^1 2 3 4 ', lines)
      assert.matches(' 999 1000 $', lines)
    end)

    it('delay a message, and let it expire', function()
      tide('declare', 'queue', queue)
      tide('pub', '--delay', '1h', '-', queue, 'later')
      tide('pub', '--ttl', '1ms', '-', queue, 'short')
      assert.matches('later', tide('peek', '--state', 'delayed', queue))
      assert.equal('', tide('get', '--wait', '30ms', queue))
    end)

    it('refuse instead of acknowledge', function()
      tide('declare', 'queue', queue, 'retry=exponential', 'retry.base=1h')
      tide('pub', '-', queue, 'x')
      tide('get', '--nack', '--reason', 'no paper', queue)
      local stats = json.decode(tide('stats', '--json', queue))
      assert.equal(1, stats.delayed)
      assert.equal(1, stats.nacked)
      assert.matches(' REASON +TEXT +[^\n]*\n[^\n]* nack +no paper +', tide('peek', '--state', 'delayed', queue))
      refused(2, '%-%-reason needs %-%-nack', 'get', '--reason', 'no paper', queue)
    end)
  end)

  describe('sub', function()
    it('prints and acknowledges what comes, up to a count', function()
      tide('declare', 'queue', queue)
      tide('pub', '--count', '5', '-', queue, 'x')
      assert.equal(('%s x\n'):format(queue):rep(3), tide('sub', '--count', '3', queue))
      local stats = json.decode(tide('stats', '--json', queue))
      assert.equal(2, stats.ready)
      assert.equal(3, stats.acked)
      assert.equal(3, stats.delivered)
    end)

    it('takes no more than the count, with auto acks too', function()
      tide('declare', 'queue', queue)
      tide('pub', '--count', '250', '-', queue, 'x')
      assert.equal(('x'):rep(205), tide('sub', '--ack', 'auto', '--count', '205', '--format', '%p', queue))
      assert.equal(45, json.decode(tide('stats', '--json', queue)).ready)
      assert.equal(('x'):rep(45), tide('sub', '--timeout', '500ms', '--count', '99', '--format', '%p', queue))
    end)

    it('has a priority, and says on standard error what happens to it', function()
      local c = broker:connect()
      tide('declare', 'queue', queue, 'single-active=1')
      c:ok(('SUB %s other priority=-4'):format(queue))
      c:expect_line 'EVT active other'
      tide('pub', '--count', '3', '-', queue, 'x')
      for _ = 1, 3 do c:expect_msg() end
      -- It has the higher priority, and waits for what the other one holds.
      local pipe = io.popen(("'%s' sub --url '%s' --priority -3 --timeout 10s --notify-lease 5s %s 2>&1"):format(
        Broker.binary(), broker:url(), queue))
      c:expect_line 'EVT relieved other'
      c:send 'NACK 1 requeue quiet\r\nACK 2-3 quiet\r\n'
      assert.equal('tidemq: event: active cli', pipe:read())
      assert.equal(queue .. ' x', pipe:read())
      c:send('DECLARE queue ' .. queue .. ' ack-timeout=5m update\r\n')
      c:drain_until '^EVT updated other ack%-timeout=5m$'
      c:expect_line 'OK'
      assert.equal('tidemq: event: updated cli ack-timeout=5m', pipe:read())
      c:ok 'UNSUB other'
      c:ok('DELETE queue ' .. queue)
      assert.equal('tidemq: the subscription ended: cli queue-deleted', pipe:read())
      pipe:close()
      for arguments, says in pairs {
        ['--priority 3 --count 1'] = 'sub: --count takes none of --exclusive, --notify-lease and --priority',
        ['--priority 3x'] = "sub: --priority must be -1000 to 1000, not '3x'",
        ['--exclusive --count 1'] = 'sub: --count takes none of --exclusive, --notify-lease and --priority',
        ['--notify-lease 1s --ack auto'] = 'sub: --notify-lease needs --ack manual',
      } do
        local output, status = run(('tidemq sub %s q 2>&1'):format(arguments))
        assert.equal(2, status)
        assert.equal(('tidemq %s; see tidemq help sub\n'):format(says), output)
      end
    end)

    it('ends when nothing has come for a time', function()
      tide('declare', 'queue', queue)
      tide('pub', '-', queue, 'x')
      assert.equal(queue .. ' x\n', tide('sub', '--timeout', '500ms', '--ack', 'auto', queue))
    end)

    it('gives back what a reader that went away has not seen', function()
      tide('declare', 'queue', queue)
      tide('pub', '--count', '200', '-', queue, ('x'):rep(4000))
      local output = run(('tidemq sub --count 200 %s | head -n 2 | wc -l'):format(queue))
      assert.equal('2', output:match '%d+')
      local stats = json.decode(tide('stats', '--json', queue))
      assert.equal(200, stats.ready + stats.delayed + stats.acked)
      assert.is_true(stats.acked < 200)
    end)

    for signal, verb in pairs { TERM = 'sub', INT = 'get --max 5' } do
      it(('leave in order at SIG%s: nothing counts as failed (%s)'):format(signal, verb), function()
        tide('declare', 'queue', queue)
        for i = 1, 5 do tide('pub', '-', queue, i) end
        local pipe = io.popen(("echo $$; exec '%s' %s --format '%%p\\n' --url %s %s"):format(
          Broker.binary(), verb, broker:url(), queue))
        local pid = pipe:read 'l'
        local function stats() return json.decode(tide('stats', '--json', queue)) end
        -- It has them, catches signals, and waits until the first one is read.
        assert(wait.poll(function()
          local caught = shell.read_file('/proc/' .. pid .. '/status'):match 'SigCgt:%s+(%x+)'
          return stats().unacked == 5 and tonumber(caught, 16) & 0x4002 == 0x4002
        end))
        assert(os.execute(('kill -%s %s'):format(signal, pid)))
        assert.equal('1', pipe:read 'a':gsub('\n', ''))
        local _, how, number_of_signal = pipe:close()
        assert.same({ 'signal', signal == 'TERM' and 15 or 2 }, { how, number_of_signal })
        assert(wait.poll(function() return stats().unacked == 0 end))
        assert.equal('2 1\n3 1\n4 1\n5 1\n', tide('get', '--max', '9', '--format', '%p %a\\n', queue))
      end)
    end

    it('loses no message to a reader that stops after a line', function()
      tide('declare', 'queue', queue)
      local c = broker:connect()
      for i = 1, 20 do c:ok('PUB - ' .. queue, 'line ' .. i) end
      for i = 1, 3 do
        assert.equal(('line %d\n'):format(i), run(("tidemq sub --format '%%p\\n' %s | head -n 1"):format(queue)))
        assert.is_truthy(wait.poll(function() return c:stats(queue).ready == 20 - i end))
      end
      assert.equal('line 4\nline 5\n', run(("tidemq get --max 9 --format '%%p\\n' %s | head -n 2"):format(queue)))
      assert.is_truthy(wait.poll(function() return c:stats(queue).ready == 15 end))
      assert.equal(5, c:stats(queue).acked)
      c:close()
    end)

    it('ends with an error when its queue is deleted', function()
      tide('declare', 'queue', queue)
      local pipe = io.popen(("'%s' sub --url tide://%s %s 2>&1; echo $?"):format(
        Broker.binary(), broker.address, queue))
      local c = broker:connect()
      repeat
        local found = #c:document 'LIST consumers' > 0
      until found
      tide('delete', 'queue', queue)
      assert.equal('tidemq: the subscription ended: cli queue-deleted\n1\n', pipe:read 'a')
      pipe:close()
      c:close()
    end)
  end)

  describe('definitions', function()
    it('are made, bound, listed and deleted', function()
      local exchange = 'x_' .. queue
      assert.equal('', tide('declare', 'exchange', exchange, 'topic', 'durable=0'))
      assert.equal('', tide('declare', 'queue', queue, 'durable=0', 'exclusive=0'))
      assert.equal('', tide('bind', queue, exchange, 'a.*.#'))
      assert.matches('EXCHANGE +TO +DESTINATION +PATTERN', tide('list', 'bindings'))
      assert.matches(exchange .. ' +queue +' .. queue .. ' +a%.%*%.#', tide('list', 'bindings'))
      assert.matches('\n' .. exchange .. ' +topic +no ', tide('list', 'exchanges'))
      assert.matches(queue .. ' +0 +0 +0 +0 [-0 ]+ +0 +no ', tide('list', 'queues'))
      assert.matches('to 1 queue', tide('pub', exchange, 'a.b', 'x'))
      assert.equal('', tide('unbind', queue, exchange, 'a.*.#'))
      refused(1, '^tidemq: unroutable: no queue takes', 'pub', exchange, 'a.b', 'x')
      assert.matches('to 0 queues', tide('pub', '--unroutable', exchange, 'a.b', 'x'))
      refused(1, '^tidemq: exists: .*not empty', 'delete', 'queue', '--if-empty', queue)
      assert.equal('purged 1 message\n', tide('purge', queue))
      assert.equal('{"ok":true}\n', tide('delete', 'queue', '--json', '--if-empty', queue))
      assert.equal('', tide('delete', 'exchange', exchange))
    end)

    it('warn of a dead-letter target that is not there', function()
      local output = tide('declare', 'queue', queue, 'dead-letter=dead_' .. queue)
      assert.equal(("tidemq declare: warning: dead-letter=dead_%s: there is no exchange 'dead_%s' (a queue is written "
        .. "-/dead_%s); until it is declared, dead messages are buried\n"):format(queue, queue, queue), output)
      local c = broker:connect()
      c:expect_answer(('DECLARE queue other_%s dead-letter=-/gone'):format(queue),
        "OK warning dead-letter=-/gone: there is no queue 'gone'; until it is declared, dead messages are buried")
      c:ok 'DECLARE exchange dead fanout'
      c:ok(('DECLARE queue third_%s dead-letter=dead/key'):format(queue))
      c:ok(('DECLARE queue fourth_%s dead-letter=-/%s'):format(queue, queue))
      c:close()
    end)

    it('have values with spaces', function()
      local exchange = 'x_' .. queue
      tide('declare', 'exchange', exchange, 'headers')
      tide('declare', 'queue', queue)
      tide('bind', queue, exchange, '-', 'city=New York')
      assert.matches('to 1 queue', tide('pub', '--header', 'city=New York', exchange, 'k', 'x'))
      refused(1, '^tidemq: unroutable: ', 'pub', '--header', 'city=York', exchange, 'k', 'x')
      assert.matches(queue .. ' ', tide('explain', '--header', 'city=New York', exchange, 'k'))
      assert.matches(queue .. ' ', tide('explain', exchange, 'k', 'a payload'))
    end)

    it('kick what is buried', function()
      tide('declare', 'queue', queue, 'delivery-limit=1')
      tide('pub', '--count', '3', '-', queue, 'x')
      tide('get', '--nack', '--max', '3', queue)
      assert.equal('kicked 2 messages\n', tide('kick', '--count', '2', queue))
      assert.equal('{"ok":true,"count":1}\n', tide('kick', '--json', queue))
    end)
  end)

  describe('what shows', function()
    it('peek does not take, and cannot drive the terminal', function()
      tide('declare', 'queue', queue)
      tide('pub', '-', queue, 'a\27[31mb')
      local table_of = tide('peek', queue)
      assert.matches('^ID +EXCHANGE +KEY ', table_of)
      assert.matches('a%.%[31mb', table_of)
      assert.equal('a\27[31mb', json.decode(tide('peek', '--json', queue)).messages[1].payload)
      assert.matches('a\27%[31mb', tide('get', queue))
    end)

    it('peek says why, where, when and after how many attempts a dead letter died', function()
      tide('declare', 'queue', queue .. '.dead')
      tide('declare', 'queue', queue, 'dead-letter=-/' .. queue .. '.dead', 'retry=none')
      tide('pub', '-', queue, 'x')
      tide('get', '--nack', '--reason', 'no paper', queue)
      assert(wait.poll(function() return tide('peek', queue .. '.dead') ~= '' end))
      assert.matches('REASON +TEXT +SOURCE +DIED +ATTEMPTS +HEADERS [^\n]*\n[^\n]* nack +no paper +' .. queue
        .. ' +%d+%-%d+%-%d+T%S+Z +1 ', tide('peek', queue .. '.dead'))
    end)

    it('peek finds messages, and reads a queue to its end', function()
      tide('declare', 'queue', queue)
      for i = 1, 3 do tide('pub', '--count', '70', '--header', 'part=' .. i, '-', queue, 'text ' .. i) end
      local count = select(2, tide('peek', '--all', queue):gsub('text %d', ''))
      assert.equal(210, count)
      count = select(2, tide('peek', '--all', '--match', 'text 2', queue):gsub('text 2', ''))
      assert.equal(70, count)
      assert.equal('', tide('peek', '--all', '--match', 'key:nowhere', queue))
      local page = json.decode(tide('peek', '--json', '--count', '70', '--match', 'h:part=1', queue))
      assert.equal(70, #page.messages)
      page = json.decode(tide('peek', '--json', '--after', page.next, queue))
      assert.equal('text 2', page.messages[1].payload)
      assert.equal(10, #page.messages)
    end)

    it('redrive sends dead letters back', function()
      tide('declare', 'queue', queue .. '.dead')
      tide('declare', 'queue', queue, 'dead-letter=-/' .. queue .. '.dead')
      tide('pub', '--count', '3', '-', queue, 'x')
      tide('sub', '--count', '3', '--format', '', queue)
      tide('pub', '--count', '2', '-', queue .. '.dead', 'y')
      assert.equal('sent back 0, left 2\n', tide('redrive', queue .. '.dead'))
      assert.equal('{"ok":true,"moved":2,"left":0}\n',
        tide('redrive', '--json', '--count', '2', '--match', 'y', '--to', '-/' .. queue, queue .. '.dead'))
      assert.equal('', tide('get', '--max', '2', '--match', 'two words', queue))
      tide('pub', '-', queue, 'two words')
      assert.equal('two words', tide('get', '--match', 'two words', '--format', '%p', queue))
      assert.equal('yy', tide('get', '--max', '2', '--format', '%p', queue))
    end)

    it('explain names the rules that decide', function()
      tide('declare', 'queue', queue, 'priority=strict', 'retry=exponential')
      local text = tide('explain', '--priority', '7', '--delay', '1m', '-', queue)
      assert.matches('priority/strict%.lua', text)
      assert.matches('retry/exponential%.lua', text)
      assert.matches(' %-7 ', text)
      assert.matches('delayed', text)
    end)

    it('show times and durations with their units', function()
      tide('declare', 'queue', queue)
      tide('pub', '--delay', '90m', '-', queue, 'hello')
      local time = '%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ'
      assert.matches('TS +DUE .*' .. time .. '  ' .. time .. '  ', tide('peek', '--state', 'delayed', queue))
      local text = tide('explain', '--delay', '90m', '--ttl', '1s', '-', queue)
      assert.matches('\ndelay +1h30m\ndue +' .. time .. '\nttl +1s\nexpires +' .. time .. '\n', text)
      assert.matches('uptime_ms +%d[%d.smh]*\n', tide('stats'))
      assert.matches('\nloaded_ms +' .. time .. '\n', tide('rules', 'status'))
      assert.matches('NUMBER +PUBLISHED .* ' .. time .. ' ', tide('rules', 'recent', '1'))
      assert.matches('ATTEMPT +AT +DELAY +HAPPENS\n +1 +0s +500ms  retry\n',
        tide('rules', 'simulate', 'retry', 'exponential', 'base=500ms'))
    end)

    it('leave out columns that no row needs', function()
      assert.is_nil(tide('rules', 'status'):find('LAST ERROR', 1, true))
      assert.is_nil(tide('rules', 'simulate', 'retry', 'fixed'):find('ERROR', 1, true))
      broker:write_rule('retry/broken.lua', 'return { decide = function() error "no luck" end }\n')
      broker:write_rule('schedule/tick.lua', 'return { every = "1h", run = function() end }\n')
      broker:write_rule('schedule/idle.lua', 'return { every = "1h", active = false, run = function() end }\n')
      broker:write_rule('filter/10-bad.lua',
        'return { match = { key = "bad" }, publish = function() error "oh" end }\n')
      broker:write_rule('retry/park.lua', [[return { decide = function(msg, failure)
        if failure.failures < 2 then return 1000 end
        msg.headers.why = failure.reason
        msg:copy { exchange = "-", key = "alarm" }
        return tide.dead_letter("-", "parking")
      end }]])
      tide('rules', 'reload')
      assert.matches('HAPPENS +TO +COPIES +HEADERS\n +1 +0s +1s +retry +%- +%- +%-\n'
        .. ' +2 +1s +%- +dead%-letter +%- parking +%- alarm +why=nack\n', tide('rules', 'simulate', 'retry', 'park'))
      assert.matches('HAPPENS +ERROR\n[^\n]*no luck', tide('rules', 'simulate', 'retry', 'broken'))
      refused(1, 'oh', 'pub', '-', 'bad', 'hello')
      local text = tide('rules', 'status')
      assert.matches('ERRORS +TIME US [^\n]*CIRCUIT +LAST ERROR\n', text)
      assert.is_nil(text:find('SKIPPED', 1, true))
      assert.matches('\n  filter/10%-bad.lua [^\n]* filter/10%-bad%.lua:1: oh\n', text)
      -- What is not active has neither.
      assert.matches('ACTIVE +NEXT +RUNNING', text)
      assert.matches('\n  idle +[^\n]+ no +%- +%-\n', text)
      for _, path in ipairs { 'retry/broken.lua', 'retry/park.lua', 'schedule/tick.lua', 'schedule/idle.lua',
        'filter/10-bad.lua' } do
        broker:remove_rule(path)
      end
      tide('rules', 'reload')
    end)

    it('go by pages, in any order', function()
      for i = 1, 3 do
        tide('declare', 'queue', 'paged_' .. i)
        for _ = 1, i do tide('pub', '-', 'paged_' .. i, 'x') end
      end
      local page = tide('list', 'queues', '--match', 'PAGED', '--sort', 'ready', '--max', '1', '--offset', '1')
      assert.matches('^NAME [^\n]*\npaged_2 +2 [^\n]*\n$', page)
      page = tide('list', 'queues', '--match', 'paged', '--sort', 'ready', '--order', 'asc')
      assert.matches('\npaged_1 .*\npaged_3 ', page)
      assert.matches('\n/ +%d', tide('list', 'vhosts'))
      refused(1, 'sort=size: expected name, ready', 'list', 'queues', '--sort', 'size')
      refused(2, '%-%-order must be one of asc|desc', 'list', 'queues', '--order', 'up')
    end)

    it('are in the order of names', function()
      for _, name in ipairs { 'zeta', 'alpha', 'mid' } do tide('declare', 'queue', 'sorted_' .. name) end
      assert.matches('sorted_alpha .*sorted_mid .*sorted_zeta ', tide('list', 'queues'))
    end)

    it('fit the terminal', function()
      tide('declare', 'queue', queue)
      local longest = 0
      for line in run('export COLUMNS=70; tidemq list rules'):gmatch '[^\n]+' do longest = math.max(longest, #line) end
      assert.is_true(longest <= 70 and longest > 60, longest)
      assert.matches('a pattern of words: %* is one word, # any number\n', run 'tidemq list rules')
    end)

    it('have further lines on a narrow terminal, with whole ids and names, and without empty ones', function()
      tide('declare', 'queue', queue)
      tide('pub', '--header', 'long=' .. ('word '):rep(14) .. 'last', '-', queue, 'x')
      tide('pub', '-', queue, 'x')
      local printed = run('export COLUMNS=70; tidemq peek --wide ' .. queue)
      assert.matches('^ID +EXCHANGE .*\n    HEADERS\n', printed)
      assert.matches('\n%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x +%- ', printed)
      assert.matches('\n    long=word [^\n]*\n    [^\n]*last\n', printed)
      assert.is_nil(printed:find('\n +%-\n'), printed)
      for line in printed:gmatch '[^\n]+' do assert.is_true(#line <= 70, line) end
    end)

    it('leave out on a narrow terminal what is not so important, and say how to see it', function()
      local long = queue .. '-' .. ('long'):rep(12) .. '-end'
      tide('declare', 'queue', long, 'ttl=1h', 'max-length=100000')
      tide('pub', '--header', 'tier=gold', '--priority', '3', '-', long, ('payload '):rep(20))
      for what, kept in pairs { ['list queues'] = 'READY', ['peek ' .. long] = 'PAYLOAD' } do
        local narrow = run(('export COLUMNS=80; tidemq %s 2>/dev/null'):format(what))
        local title = narrow:match '^[^\n]*'
        assert.matches(kept, title)
        local rows = select(2, narrow:gsub('\n', ''))
        for line in narrow:gmatch '[^\n]+' do assert.is_true(utf8.len(line) <= 80, line) end
        -- One line for each row.
        local whole = tide(table.unpack(what:match '^list' and { 'list', 'queues' } or { 'peek', long }))
        assert.equal(select(2, whole:gsub('\n', '')), rows)
        -- No terminal, or --wide: nothing is missing.
        local hint = run(('export COLUMNS=80; tidemq %s 2>&1 >/dev/null'):format(what))
        if what:find 'list' then assert.matches(queue .. '%-longlong.*%.%.%..*long%-end ', narrow) end
        local names = hint:match '^%-%-wide shows also: (.*)\n$'
        assert.is_string(names, hint)
        local wide = run(('export COLUMNS=80; tidemq %s --wide 2>&1'):format(what))
        assert.is_nil(wide:find('--wide', 1, true))
        for name in names:gmatch '[^, ]+' do
          name = name:gsub('_', ' '):upper()
          if name == 'WHOLE' then break end
          assert.is_nil(title:find('%f[%w]' .. name .. '%f[%W]'), name)
          assert.is_truthy(whole:find(name, 1, true), name)
          assert.is_truthy(wide:find(name, 1, true), name)
        end
        assert.is_truthy(whole:find(long, 1, true))
        assert.is_truthy(wide:find(long, 1, true))
      end
    end)

    it('tell of a decision in words', function()
      tide('declare', 'queue', queue)
      tide('pub', '-', queue, 'x')
      assert.matches(' ' .. queue .. ' +1 +' .. queue .. ' %(shard 0, rank 0%)\n', tide('rules', 'recent', '1'))
      tide('pub', '--unroutable', '-', 'nobody', 'x')
      assert.matches(' nobody +1 +no queue\n', tide('rules', 'recent', '1'))
    end)

    it('rules and lists are documents with --json', function()
      assert.matches('\ngeneration +%d+\n', '\n' .. tide('rules', 'status'))
      assert.matches('\n  shipped/routing/topic%.lua +%d+ +%d+ ', tide('rules', 'status'))
      assert.matches('^generation %d+ is active, hash %x+\n$', tide('rules', 'reload'))
      assert.equal('active  no\n', tide('rules', 'shadow', 'status'))
      assert.matches('shipped/routing/topic%.lua +%d+ +%d+ +%d+ .*a pattern of words', tide('list', 'rules'))
      assert.is_table(json.decode(tide('rules', 'status', '--json')).scripts)
      for _, what in ipairs { 'exchanges', 'queues', 'bindings', 'consumers', 'connections', 'rules' } do
        assert.is_table(json.decode(tide('list', '--json', what)), what)
        assert.matches('^%u', tide('list', what))
      end
      assert.matches('tidemq%-list', tide('list', 'connections'))
    end)

    it('rules top counts what scripts cost, and rules show what they take', function()
      tide('declare', 'exchange', 'topped', 'topic')
      tide('declare', 'queue', queue)
      tide('bind', queue, 'topped', 'a.*')
      for _ = 1, 3 do tide('pub', 'topped', 'a.b', 'hello') end
      local row = tide('rules', 'top'):match('routing/topic%.lua[^\n]*')
      local calls, hits, errors = row:match('(%d+) +(%d+) +(%d+)')
      assert.is_true(tonumber(calls) >= 1 and tonumber(hits) >= 2)
      assert.equals('0', errors)
      assert.matches('closed$', row)
      local top = json.decode(tide('rules', 'top', '--json'))
      for i = 2, #top do assert.is_true(top[i - 1].time_us >= top[i].time_us) end
      local text = tide('rules', 'show', 'exponential')
      assert.matches('\nfile +shipped/retry/exponential%.lua\n', text)
      assert.matches('\nfactor +number +2 ', text)
      assert.matches('NAME +TYPE +DEFAULT +ALLOWED +DOC', text)
      assert.equals('topic', json.decode(tide('rules', 'show', 'routing/topic', '--json'))[1].name)
      assert.matches('\nsource\n    1  %-%- ', tide('rules', 'show', 'exponential', '--source'))
      assert.is_nil(text:find('\nsource\n', 1, true))
      refused(1, "there is no script 'nope', and modules are not shown; there are ", 'rules', 'show', 'nope')
    end)

    it('stats and ping', function()
      assert.matches('\nuptime_ms +%d', tide('stats'))
      assert.matches('\nstore\n  kind +embedded\n', tide('stats'))
      assert.is_number(json.decode(tide('stats', '--json')).published)
      assert.matches('^OK in ', tide('ping'))
      assert.is_true(json.decode(tide('ping', '--json')).ok)
    end)
  end)

  describe('the address', function()
    it('may be a Unix socket, or come from the environment', function()
      local path = broker.addresses[2]:match '^unix:(.*)$'
      local output, status = run(('TIDEMQ_URL=tide+unix:%s tidemq ping'):format(path))
      assert.equal(0, status)
      assert.matches('^OK in ', output)
    end)

    it('names the vhost', function()
      local name = 'other-' .. number
      local url = ('tide://%s/%s'):format(broker.address, name)
      -- A wrong name makes none.
      refused(1, ("^tidemq: not%%-found: there is no vhost '%s', only '/'.*; DECLARE vhost %s makes it\n$")
        :format((name:gsub('%-', '%%-')), (name:gsub('%-', '%%-'))), 'declare', 'queue', '--url', url, queue)
      assert.is_nil(tide('list', 'vhosts'):find(name, 1, true))
      assert.equal('', tide('declare', '--url', url, 'vhost', name))
      tide('declare', 'queue', '--url', url, queue, 'durable=0')
      assert.matches(queue, tide('list', '--url', url, 'queues'))
      assert.is_nil(tide('list', 'queues'):find(queue, 1, true))
      refused(1, ("^tidemq: not%%-found: there is no queue '%s' in vhost '/'; vhost 'other.*' has one")
        :format(queue), 'get', queue)
      tide('delete', '--url', url, 'queue', queue)
      tide('delete', '--url', url, 'vhost', name)
      assert.is_nil(tide('list', 'vhosts'):find(name, 1, true))
    end)
  end)

  describe('an error is one line', function()
    it('status 1 for what is refused or fails', function()
      refused(1, '^tidemq: not%-found: there is no queue', 'get', 'nowhere')
      refused(1, '^tidemq: not%-found: there is no exchange', 'pub', 'nowhere', 'k', 'x')
      refused(1, '^tidemq: unroutable: ', 'pub', '-', 'nowhere', 'x')
      refused(1, '^tidemq: not%-found: .*routing script', 'declare', 'exchange', 'e', 'nope')
      refused(1, '^tidemq: syntax: .*no option', 'declare', 'queue', queue, 'colour=red')
      refused(1, '^tidemq: cannot connect to ', 'ping', '--url', 'tide://127.0.0.1:1')
      refused(1, '^tidemq: the URL ', 'ping', '--url', 'http://127.0.0.1')
      tide('declare', 'queue', queue)
      refused(1, '^tidemq: mismatch: ', 'declare', 'queue', queue, 'shards=2')
    end)

    it('status 2 for wrong usage', function()
      refused(2, 'an argument is missing', 'pub', '-')
      refused(2, 'NAME is missing; usage: tidemq rules %[options%] show NAME;', 'rules', 'show')
      refused(2, 'too many arguments; usage: tidemq rules %[options%] eval CODE;', 'rules', 'eval', '1', '2')
      refused(2, 'too many arguments; usage: tidemq rules %[options%] status;', 'rules', 'status', 'x')
      refused(2, "'push' needs an argument", 'rules', 'push')
      refused(2, "nothing follows 'top'", 'rules', 'top', 'x')
      refused(2, "'rules show' does not take %-%-share", 'rules', 'show', 'x', '--share', '1%')
      refused(2, 'give a PAYLOAD', 'pub', '-', 'k')
      refused(2, 'give a PAYLOAD', 'pub', '--lines', '-', 'k', 'x')
      refused(2, 'too many arguments', 'ping', 'x')
      refused(2, "no option '%-%-colour'", 'ping', '--colour')
      refused(2, "option '%-%-count' needs a value", 'sub', queue, '--count')
      refused(2, '%-%-priority must be 0%-255', 'pub', '--priority', '256', '-', 'k', 'x')
      refused(2, '%-%-delay must be a duration', 'pub', '--delay', 'soon', '-', 'k', 'x')
      refused(2, '%-%-header must be NAME=VALUE', 'pub', '--header', 'x', '-', 'k', 'x')
      refused(2, '%-%-ack must be one of manual|auto', 'sub', '--ack', 'never', queue)
      refused(2, "'cats': LIST takes exchanges, queues, .* or rules;", 'list', 'cats')
      refused(2, "'cat': DECLARE takes exchange, queue, topic or vhost;", 'declare', 'cat', 'x')
      refused(2, 'TYPE is missing', 'declare', 'exchange', 'x')
      refused(2, "'dance': RULES takes reload, ", 'rules', 'dance')
      refused(2, "'upload': that is for programs", 'rules', 'upload', 'begin')
      refused(2, 'is not a name', 'purge', 'a b')
    end)

    it('status 2 for a verb that there is not', function()
      local output, status = run 'tidemq dance 2>&1'
      assert.equal(2, status)
      assert.matches("there is no verb 'dance'", output)
    end)
  end)

  it('explains itself', function()
    local overview = run 'tidemq help'
    for _, verb in ipairs { 'pub', 'sub', 'get', 'peek', 'declare', 'delete', 'bind', 'unbind', 'purge',
      'kick', 'list', 'stats', 'explain', 'rules', 'request', 'ping' } do
      assert.matches('\n  ' .. verb .. ' +%l', overview)
      local page, status = run('tidemq help ' .. verb)
      assert.equal(0, status)
      assert.matches('usage: tidemq ' .. verb, page)
    end
    assert.matches('\n  serve +%l', overview)
    assert.equal((run 'tidemq help pub'), (run 'tidemq pub --help'))
    assert.equal((run 'tidemq help'), (run 'tidemq -h'))
    local output, status = run 'tidemq help dance 2>&1'
    assert.equal(2, status)
    assert.matches('no verb', output)
  end)

  it('says on a terminal that it still waits', function()
    local dir = shell.make_dir 'tidemq-cli'
    local address = assert(broker.addresses[1])
    broker:signal 'STOP'
    -- `script` gives it a terminal.
    local pipe = assert(io.popen(("TERM=dumb script -qfec '%s ping --url tide://%s' %s/typescript"):format(
      Broker.binary(), address, dir)))
    local seen = wait.poll(function()
      return (shell.read_file(dir .. '/typescript') or ''):find("still waiting for the broker's answer", 1, true)
    end)
    broker:signal 'CONT'
    local output = pipe:read 'a'
    pipe:close()
    os.execute('rm -rf ' .. shell.quote(dir))
    assert.is_truthy(seen, output)
    assert.matches('OK in %d+', output)
  end)

  it('says when its output cannot be written', function()
    tide('declare', 'queue', queue)
    tide('pub', '-', queue, 'x')
    local output, status = run(('tidemq get %s 2>&1 >/dev/full'):format(queue))
    assert.equal(1, status)
    assert.matches('^tidemq: cannot write to standard output: ', output)
    -- What could not be printed was not acknowledged.
    assert.equal(queue .. ' x\n', tide('get', '--wait', '5s', queue))
  end)
end)
