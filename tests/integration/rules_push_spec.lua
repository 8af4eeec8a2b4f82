-- tidemq rules push: a rules directory of another machine becomes the broker's.
local Broker = require 'support.broker'
local DiskFault = require 'support.disk_fault'
local lfs = require 'lfs'
local shell = require 'support.shell'
local wait = require 'support.wait'

local ROUTE <const> = [[return { match = { exchange = "x" }, publish = function(msg) msg.exchange = "%s" end }]]
local NOTHING <const> = [[return { match = { exchange = "no" }, publish = function() end }]]
local SPEC <const> = [[it("is right", function() assert.is_true(%s) end)]]

describe('tidemq rules push', function()
  local broker, c, dir, env

  local function start(...)
    broker = Broker.start { rules = { ['filter/10-old.lua'] = ROUTE:format 'y' }, env = env,
      args = { '--fsync', 'no', '--rules-candidates', '@DIR@', ... } }
    c = broker:connect()
    for _, name in ipairs { 'x', 'y', 'z' } do
      c:ok(('DECLARE exchange %s fanout'):format(name))
      c:ok(('DECLARE queue %s'):format(name))
      c:ok(('BIND %s %s -'):format(name, name))
    end
  end

  before_each(function()
    env = nil
    dir = shell.make_dir 'tidemq-push'
  end)
  after_each(function()
    c:close()
    broker:expect_clean_stop()
    broker:destroy()
    shell.run(("rm -rf '%s'"):format(dir))
  end)

  local function write(files)
    for name, text in pairs(files) do shell.write_file(dir .. '/' .. name, text) end
  end

  -- Its output, with that on standard error, and its exit status.
  local function push(options)
    return shell.run(("'%s' rules push '%s' --url '%s' %s 2>&1"):format(
      Broker.binary(), dir, broker:url(), options or '') .. ' </dev/null')
  end

  local function publish(n)
    for _ = 1, n or 1 do c:ok('PUB x k', 'hello') end
  end

  local function ready() return { c:stats 'x'.ready, c:stats 'y'.ready, c:stats 'z'.ready } end

  local function start_push(options)
    local out = os.tmpname()
    os.execute(("{ '%s' rules push '%s' --url '%s' %s; echo status $?; } >%s 2>&1 &"):format(
      Broker.binary(), dir, broker:url(), options, out))
    return out
  end

  local function wait_for_shadow()
    assert(wait.poll(function() return c:document 'RULES shadow status'.active end))
  end

  local function answer(out)
    local text
    assert(wait.poll(function()
      text = shell.read_file(out)
      return text:find 'status %d'
    end))
    os.remove(out)
    return text
  end

  it('checks, tests, tries and installs what decides alike', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'y', ['filter/20-new_spec.lua'] = SPEC:format 'true',
      ['notes.txt'] = 'x' }
    local out = start_push '--messages 5'
    wait_for_shadow()
    publish(5)
    local text = answer(out)
    assert.matches('\ntrying: %d of 5 publishes compared, 0 differ\n', text)
    assert.matches('active: 1 script, hash %x+: 5 publishes compared, 0 differ\nstatus 0', text)
    assert.same({ 0, 5, 0 }, ready())
    local last = c:document 'RULES log'[1]
    assert.same({ 'promote', 'accepted' }, { last.origin, last.result })
    assert.matches('connection %d+', last.by)
    assert.equal('filter/20-new.lua\n', (shell.run(("cd '%s' && find filter -name '*.lua'"):format(broker.rules))))
    assert.is_false(c:document 'RULES shadow status'.active)
    local hash = c:document 'RULES status'.hash
    broker:restart()
    c = broker:connect()
    assert.equal(hash, c:document 'RULES status'.hash)
  end)

  it('installs what is no change of the directory', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local text, status = push '--now --no-test'
    assert.equal(0, status, text)
    broker:write_rule('filter/30-mine.lua', ROUTE:format 'x')
    assert(wait.poll(function() return c:document 'RULES status'.generation > 2 end))
    local origins = {}
    for i, attempt in ipairs(c:document 'RULES log') do origins[i] = attempt.origin end
    assert.same({ 'files', 'promote', 'start' }, origins)
  end)

  it('drops what decides otherwise, and shows it', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local out = start_push '--for 1h'
    wait_for_shadow()
    publish()
    local text = answer(out)
    assert.matches('nothing has changed, the candidate rules are dropped: decisions differ in queues %(1%), '
      .. 'message %(1%); %-%-allow lists what may\n', text)
    assert.matches('status 1', text)
    assert(wait.poll(function() return not c:document 'RULES shadow status'.active end))
    publish()
    assert.same({ 0, 2, 0 }, ready())
  end)

  it('lets differ what is allowed', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local out = start_push '--messages 3 --allow queues,message'
    wait_for_shadow()
    publish(3)
    assert.matches('3 publishes compared, 3 differ\nstatus 0', answer(out))
    publish()
    assert.same({ 0, 3, 1 }, ready())
  end)

  it('holds back hooks that decide otherwise, and shows it', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'y', ['deliver/10-no.lua'] =
      [[return { match = { queue = "y" }, deliver = function() return false, "not yet" end }]] }
    local out = start_push '--for 1h'
    wait_for_shadow()
    publish()
    assert.equal(1, #c:get 'y')
    local text = answer(out)
    assert.matches('QUEUE .*\ny .*verdict=give +verdict=refuse.*not yet', text)
    assert.matches('candidate rules are dropped: decisions differ in deliver %(1%); %-%-allow lists what may\n', text)
    assert.matches('status 1', text)
    publish()
    assert.equal(1, #c:get 'y')
    out = start_push '--messages 1 --allow deliver'
    wait_for_shadow()
    publish()
    c:get 'y'
    assert.matches('status 0', answer(out))
    publish()
    assert.equal(0, #c:get 'y')
  end)

  it('holds back policies that change what there is, without any traffic', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'y', ['declare/10-ttl.lua'] =
      [[return { match = { queue = "z" }, declare = function(what) what.options.ttl = "1h" end }]] }
    local text, status = push '--for 1h'
    assert.equal(1, status)
    assert.matches('KIND +NAME .*\nqueue +z +/ +options=ttl=0 +options=ttl=1h policy=declare/10%-ttl.lua\n', text)
    assert.matches('decisions differ in declare %(1%); %-%-allow lists what may\n', text)
    text, status = push '--for 1ms --allow declare'
    assert.equal(0, status, text)
  end)

  it('needs no traffic with --now', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local text, status = push '--now --no-test'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 0, 1 }, ready())
  end)

  describe('on a disk that fails', function()
    local fault
    setup(function() fault = DiskFault.new() end)
    teardown(function() fault:destroy() end)

    local function files() return (shell.run(("cd '%s' && find . -type f | sort"):format(broker.rules))) end

    -- The files were written one after the other: what follows the one that it died of was missing.
    it('is finished by the next start, when the broker dies half way', function()
      env = fault:kill '@DIR@/rules/filter/20-new.lua'
      start '--rules-writable'
      write { ['filter/15-no.lua'] = NOTHING, ['filter/20-new.lua'] = ROUTE:format 'z' }
      -- A Redis that takes its time, as on a busy machine, has been told of the rules before the death.
      local slow = io.popen(("while redis-cli -s '%s/redis.sock' EVAL 'for i = 1, 2e7 do end' 0; do :; done 2>&1")
        :format(broker.data))
      local text, status = push '--now --no-test'
      assert.equal(1, status, text)
      assert(wait.poll(function() return broker:exit_status() end))
      slow:close()
      assert.matches('%./filter/10%-old.lua\n%./filter/15%-no.lua\n', files())
      assert.is_nil(files():find('20-new', 1, true))
      broker.options.env = nil
      c = broker:restart():connect()
      assert.equal('start', c:document 'RULES status'.origin)
      publish()
      assert.same({ 0, 0, 1 }, ready())
      assert.is_nil(files():find('10-old', 1, true))
      assert.is_nil(files():find('.push', 1, true))
    end)

    it('changes nothing when it is full', function()
      env = fault:full '@DIR@/rules/.push/1'
      start '--rules-writable'
      write { ['filter/15-no.lua'] = NOTHING, ['filter/20-new.lua'] = ROUTE:format 'z' }
      local before = files()
      local text, status = push '--now --no-test'
      assert.equal(1, status)
      assert.matches("the rules are active, but '.*/rules/.push' cannot be written: No space left on device; a restart "
        .. 'loads what the rules directory has', text)
      assert.equal(before, files())
      publish()
      assert.same({ 0, 0, 1 }, ready())
      c = broker:restart():connect()
      publish()
      assert.same({ 0, 1, 1 }, ready())
    end)

    -- What stands in the way came after the files were listed.
    it('serves with what was pushed, when it cannot be finished', function()
      env = fault:kill '@DIR@/rules/filter/20-new.lua'
      start '--rules-writable'
      write { ['filter/15-no.lua'] = NOTHING, ['filter/20-new.lua'] = ROUTE:format 'z' }
      push '--now --no-test'
      assert(wait.poll(function() return broker:exit_status() end))
      broker.options.env = nil
      local place = broker.rules .. '/filter/20-new.lua'
      assert(lfs.mkdir(place))
      c = broker:restart():connect()
      local status = c:document 'RULES status'
      assert.equal('last good', status.origin)
      assert.matches("pushed rules are only partly in the rules directory, and '.*/20%-new.lua' cannot be changed: "
        .. 'Is a directory; a reload goes on when this is repaired', status.refusal.error)
      c:send 'RULES reload\r\n'
      c:expect '^ERR rule pushed rules are only partly'
      publish()
      assert.same({ 0, 0, 1 }, ready())
      assert(lfs.rmdir(place))
      c:document 'RULES reload'
      assert.is_nil(files():find('.push', 1, true))
      assert.equal('reload', c:document 'RULES status'.origin)
    end)
  end)

  local function uploads() return (shell.run(("ls '%s/uploads' 2>/dev/null"):format(broker.dir))) end

  it('leaves nothing behind when it is interrupted', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    for _, signal in ipairs { 'INT', 'TERM', 'KILL' } do
      local out = os.tmpname()
      local pid = shell.line(("'%s' rules push '%s' --url '%s' --for 1h --no-test >%s 2>&1 & echo $!"):format(
        Broker.binary(), dir, broker:url(), out))
      wait_for_shadow()
      assert.matches('%.push\n', uploads())
      shell.run(('kill -%s %s'):format(signal, pid))
      assert(wait.poll(function() return not c:document 'RULES shadow status'.active end))
      assert(wait.poll(function() return uploads() == '' end))
      if signal ~= 'KILL' then
        assert(wait.poll(function()
          return shell.read_file(out):find 'interrupted: nothing has changed, the candidate rules are dropped\n$'
        end))
      end
      os.remove(out)
    end
    publish()
    assert.same({ 0, 1, 0 }, ready())
  end)

  it('leaves nothing behind when the broker is killed', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local out = start_push '--for 1h --no-test'
    wait_for_shadow()
    broker:kill9()
    assert.matches('status 1', answer(out))
    assert.matches('%.push\n', uploads())
    c = broker:run():connect()
    assert.equal('', uploads())
    assert.is_false(c:document 'RULES shadow status'.active)
  end)

  it('shows on a terminal what it waits for, in one line', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'y' }
    local out = os.tmpname()
    os.execute(("script -qfec \"'%s' rules push '%s' --url '%s' --no-test --messages 2 --for 1h; echo status \\$?\" %s "
      .. '>/dev/null 2>&1 </dev/null &'):format(Broker.binary(), dir, broker:url(), out))
    assert(wait.poll(function() return shell.read_file(out):find('trying: 0 of 2', 1, true) end))
    publish(2)
    local text
    assert(wait.poll(function()
      text = shell.read_file(out)
      return text:find '\nstatus %d'
    end))
    os.remove(out)
    assert.matches('\r\27%[Ktrying: 0 of 2 publishes compared, 0 differ, 1h left\r\27%[K', text)
    assert.matches('\r\27%[Kactive: 1 script, hash', text)
  end)

  it('waits for nobody: who comes second is told who is there', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local out = start_push '--for 1h --no-test'
    wait_for_shadow()
    local text, status = push '--now --no-test'
    assert.equal(1, status)
    assert.matches("^tidemq: exists: other candidate rules are in the shadow: '[^']*%.push', by connection %d+ "
      .. "'tidemq%-rules' from 127%.0%.0%.1:%d+, for %d+ s; wait until they are active or dropped\n$", text)
    assert.matches("^connection %d+ 'tidemq%-rules' from", c:document 'RULES shadow status'.by)
    c:ok 'RULES shadow drop'
    assert.matches('somebody has dropped the candidate rules\nstatus 1', answer(out))
  end)

  it('says what a directory cannot be pushed for', function()
    start '--rules-writable'
    local function refused(pattern)
      local text, status = push '--now --no-test'
      assert.equal(1, status)
      assert.matches('^tidemq: nothing is pushed: ' .. pattern .. '\n$', text)
    end
    write { ['filter/my rule.lua'] = 'return {}' }
    refused "'filter/my rule.lua' is no path of a rules file: expected a name like filter/10%-vip.lua, .*"
    os.remove(dir .. '/filter/my rule.lua')
    write { ['a/b/c/d/e/f/deep.lua'] = 'return {}' }
    refused "'a/b/c/d/e/f/deep.lua' is no path of a rules file: .* at most four deep and 200 bytes"
    shell.run(("rm -r '%s'/a"):format(dir))
    -- A link into itself has no end.
    shell.run(("ln -s . '%s/again'"):format(dir))
    refused "'again/.*' is a folder at a depth of 16"
    os.remove(dir .. '/again')
    write { ['filter/20-new.lua'] = ('-'):rep(2 << 20) }
    refused "'filter/20%-new.lua' has 2097152 bytes; a rules file has at most 262144"
    write { ['filter/20-new.lua'] = ROUTE:format 'y' }
    for i = 1, 1000 do write { [('lib/m%d.lua'):format(i)] = 'return 1' } end
    refused "'.*' has 1%d%d%d files of %d+ bytes; a push has at most 1000 files of 4194304 bytes together"
    shell.run(("rm -r '%s'/*"):format(dir))
    refused "there are no scripts in '.*'"
    write { ['filter/x_spec.lua'] = SPEC:format 'true' }
    refused "there are no scripts in '.*'"
    assert.equal('', uploads())
  end)

  -- A directory of releases is made of links, as that of a ConfigMap is.
  it('sends what links lead to', function()
    start '--rules-writable'
    local other = broker.dir .. '/other'
    shell.write_file(other .. '/20-new.lua', ROUTE:format 'z')
    shell.run(("ln -s '%s' '%s/filter'"):format(other, dir))
    local text, status = push '--now'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 0, 1 }, ready())
    assert.equal(ROUTE:format 'z', shell.read_file(broker.rules .. '/filter/20-new.lua'))
    shell.run(("mkdir '%s/retry' && ln -s nowhere '%s/retry/lost.lua'"):format(dir, dir))
    text, status = push '--now --no-test'
    assert.equal(1, status)
    assert.matches("^tidemq: cannot read '.*/retry/lost.lua': No such file or directory\n$", text)
  end)

  it('follows no link in the place that it writes to', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local other = broker.dir .. '/other'
    shell.run(("mkdir '%s' && ln -s '%s' '%s/uploads'"):format(other, other, broker.dir))
    local text, status = push '--now --no-test'
    assert.equal(1, status)
    assert.matches("the files cannot be written below '.*' %(serve %-%-rules%-candidates%): a folder on the way is a "
      .. 'symbolic link, which is not followed\n$', text)
    os.remove(broker.dir .. '/uploads')
    shell.run(("mv '%s/filter'/* '%s' && rmdir '%s/filter' && ln -s '%s' '%s/filter'"):format(
      broker.rules, other, broker.rules, other, broker.rules))
    text, status = push '--now --no-test'
    assert.equal(1, status)
    assert.matches("'.*/rules/filter/20%-new.lua' cannot be written: a folder on the way is a symbolic link, which is "
      .. 'not followed; a restart loads what the rules directory has\n$', text)
    assert.equal('10-old.lua\n', (shell.run(("ls '%s'"):format(other))))
  end)

  it('stops before the broker for what check, or a spec, finds', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = 'return {' }
    local text, status = push()
    assert.equal(1, status)
    assert.matches('nothing is pushed: tidemq check .* does not pass', text)
    write { ['filter/20-new.lua'] = ROUTE:format 'z', ['filter/a_spec.lua'] = SPEC:format 'false' }
    text, status = push()
    assert.equal(1, status)
    assert.matches('nothing is pushed: tidemq test .* does not pass', text)
    text, status = push '--allow color'
    assert.equal(2, status)
    assert.matches("%-%-allow takes error, queues, shard, rank, message, retry, deliver, settled, "
      .. "declare, connect, all, not 'color'", text)
    text, status = push '--share 300%'
    assert.equal(2, status)
    assert.matches('^tidemq rules: %-%-share must be a percentage above 0, up to 100, not .300%%', text)
    publish()
    assert.same({ 0, 1, 0 }, ready())
  end)

  it('tells what the broker finds', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = 'return {' }
    local text, status = push '--no-test'
    assert.equal(1, status)
    assert.matches('filter/20%-new.lua:1: ', text)
    assert.matches('nothing has changed: the broker\'s check fails', text)
  end)

  it('says that the broker writes no rules directory, unless they are for now', function()
    start()
    -- It says so before it looks at the files.
    write { ['filter/20-new.lua'] = 'return {', ['filter/a_spec.lua'] = SPEC:format 'false' }
    local text, status = push '--now'
    assert.equal(1, status)
    assert.matches('^tidemq: nothing has changed: .*serve %-%-rules%-writable', text)
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    os.remove(dir .. '/filter/a_spec.lua')
    assert.same({ 0, 0, 0 }, ready())
    text, status = push '--now --transient'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 0, 1 }, ready())
    assert.matches('10%-old.lua', (shell.run(("ls '%s/filter'"):format(broker.rules))))
    c:send 'RULES shadow promote install\r\n'
    c:expect '^ERR denied the broker does not write its rules directory'
  end)

  it('names all that is missing in its first refusal', function()
    start()
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    c:ok 'USER add root pass=secret tags=admin'
    c:ok 'USER grant root / configure=.* write=.* read=.*'
    c:ok 'USER add bob pass=secret'
    c:ok 'USER grant bob / configure=.* write=.* read=.*'
    local command = "'%s' rules push '%s' --url '%s' 2>&1"
    local text, status = shell.run(command:format(Broker.binary(), dir,
      broker:url():gsub('//', '//bob:secret@')))
    assert.equal(1, status)
    assert.matches("denied: RULES needs a user with the tag admin, and user 'bob' has not; the broker needs serve "
      .. '%-%-rules%-candidates DIR, and %-%-rules%-writable unless the push is %-%-transient\n$', text)
    local other = Broker.start { args = { '--fsync', 'no', '--store', 'none' } }
    text, status = shell.run(command:format(Broker.binary(), dir, other:url()))
    assert.equal(1, status)
    assert.matches('^tidemq: denied: .* %-%-rules%-candidates DIR, and with %-%-rules%-writable if they are to stay ',
      text)
    other:expect_clean_stop()
  end)

  it('asks when nothing was compared; where nobody answers --yes is needed', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local text, status = push '--no-test --for 1ms'
    assert.equal(1, status)
    assert.matches('tidemq: nothing has changed, the candidate rules are dropped: nothing was compared, '
      .. 'since no message came meanwhile; %-%-yes makes them active all the same\n$', text)
    local function ask(word)
      return shell.run(("printf '%s\\n' | script -qfec \"'%s' rules push '%s' --url '%s' --no-test --for 1ms\" "
        .. '/dev/null'):format(word, Broker.binary(), dir, broker:url()))
    end
    text, status = ask 'n'
    assert.equal(1, status, text)
    assert.matches('nothing was compared, .*; make the rules active all the same%? %[y/N%] ', text)
    publish()
    assert.same({ 0, 1, 0 }, ready())
    text, status = ask 'y'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 1, 1 }, ready())
    write { ['filter/20-new.lua'] = ROUTE:format 'x' }
    text, status = push '--no-test --for 1ms --yes'
    assert.equal(0, status, text)
    publish()
    assert.same({ 1, 1, 1 }, ready())
  end)

  it('names in its help all that may differ', function()
    start()
    local help = shell.run(Broker.binary() .. ' help rules')
    local words = help:match 'push: what may differ: ([%l, ]+)'
    local text, status = push '--allow nothing'
    assert.equal(2, status)
    assert.equal(words, text:match 'takes (.-), not')
    for _, word in ipairs { 'queues', 'deliver', 'settled', 'declare', 'connect', 'all' } do
      assert.is_truthy((words .. ','):find(word .. ',', 1, true), word)
    end
    local documented = shell.read_file 'docs/rules.md':match '%-%-allow` takes(.-)%.\n'
    for word in words:gmatch '%l+' do assert.is_truthy(documented:find('`' .. word .. '`', 1, true), word) end
  end)

  it('sends large files in parts, modules too', function()
    start '--rules-writable'
    local long = ('-- %s\n'):format(('x%% \u{e4}'):rep(20)):rep(300)
    write { ['filter/20-new.lua'] = 'local to = require "lib.to"\n' .. long .. ROUTE:gsub('"%%s"', 'to.name'),
      ['lib/to.lua'] = 'return { name = "z" }\n' .. long }
    local text, status = push '--now'
    assert.equal(0, status, text)
    assert.matches('^active: 1 script, 1 module, hash', text:match '[^\n]*\n$')
    publish()
    assert.same({ 0, 0, 1 }, ready())
    assert.equal(shell.read_file(dir .. '/lib/to.lua'), shell.read_file(broker.rules .. '/lib/to.lua'))
  end)

  it('is for administrators, and takes rules files alone', function()
    start '--rules-writable'
    c:expect_answer('RULES upload done', 'ERR not-found nothing has been uploaded: RULES upload <path> text=<text> '
      .. 'comes before')
    c:expect_answer('RULES upload a.lua', 'ERR syntax text= is missing: expected a part of the file')
    assert.same({ writable = true }, c:document 'RULES upload begin')
    c:ok 'RULES upload a.lua text=return%20{'
    c:send 'RULES upload ../a.lua text=x\r\n'
    c:expect "^ERR syntax '../a.lua' is no path of a rules file"
    c:expect_answer('RULES upload done', 'ERR not-found nothing has been uploaded: RULES upload <path> text=<text> '
      .. 'comes before')
    c:ok 'RULES upload retry/a.lua text=return'
    c:ok 'RULES upload b.lua text=return'
    c:expect_answer('RULES upload retry/a.lua text=x',
      "ERR exists 'retry/a.lua' has been uploaded already; the parts of a file follow each other")
    c:ok 'RULES upload retry/a.lua text=return%20'
    c:ok 'RULES upload retry/a.lua text={decide=tide.bucket}'
    local document = c:document 'RULES upload done'
    assert.is_true(document.check.fit, document.check.text)
    assert.equal('return {decide=tide.bucket}',
      shell.read_file(broker.dir .. '/' .. document.dir .. '/retry/a.lua'))
  end)
end)
