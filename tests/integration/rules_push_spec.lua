-- tidemq rules push: a rules directory of another machine becomes the broker's.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local ROUTE <const> = [[return { match = { exchange = "x" }, publish = function(msg) msg.exchange = "%s" end }]]
local SPEC <const> = [[it("is right", function() assert.is_true(%s) end)]]

describe('tidemq rules push', function()
  local broker, c, dir

  local function start(...)
    broker = Broker.start { rules = { ['filter/10-old.lua'] = ROUTE:format 'y' },
      args = { '--fsync', 'no', '--rules-candidates', '@DIR@', ... } }
    c = broker:connect()
    for _, name in ipairs { 'x', 'y', 'z' } do
      c:ok(('DECLARE exchange %s fanout'):format(name))
      c:ok(('DECLARE queue %s'):format(name))
      c:ok(('BIND %s %s -'):format(name, name))
    end
  end

  before_each(function() dir = shell.make_dir 'tidemq-push' end)
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
      Broker.binary(), dir, broker:url(), options or ''))
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
    assert.matches('%d+ files are active, hash %x+: 5 publishes compared, 0 differ\nstatus 0', answer(out))
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

  it('drops what decides otherwise, and shows it', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local out = start_push '--for 1h'
    wait_for_shadow()
    publish()
    local text = answer(out)
    assert.matches('nothing has changed, the candidate rules are dropped: 1 queues, 1 messages of the decisions differ',
      text)
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

  it('needs no traffic with --now', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local text, status = push '--now --no-test'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 0, 1 }, ready())
  end)

  it('leaves nothing behind when it is interrupted', function()
    start '--rules-writable'
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    for _, signal in ipairs { 'TERM', 'KILL' } do
      local pid = shell.line(("'%s' rules push '%s' --url '%s' --for 1h --no-test >/dev/null 2>&1 & echo $!"):format(
        Broker.binary(), dir, broker:url()))
      wait_for_shadow()
      shell.run(('kill -%s %s'):format(signal, pid))
      assert(wait.poll(function() return not c:document 'RULES shadow status'.active end))
    end
    publish()
    assert.same({ 0, 1, 0 }, ready())
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
    assert.matches("%-%-allow takes error, queues, shard, rank, message, retry and all, not 'color'", text)
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
    write { ['filter/20-new.lua'] = ROUTE:format 'z' }
    local text, status = push '--now'
    assert.equal(1, status)
    assert.matches('serve %-%-rules%-writable', text)
    assert.same({ 0, 0, 0 }, ready())
    text, status = push '--now --transient'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 0, 1 }, ready())
    assert.matches('10%-old.lua', (shell.run(("ls '%s/filter'"):format(broker.rules))))
    c:send 'RULES shadow promote install\r\n'
    c:expect '^ERR denied the broker does not write its rules directory'
  end)

  it('sends large files in parts, modules too', function()
    start '--rules-writable'
    local long = ('-- %s\n'):format(('x%% \u{e4}'):rep(20)):rep(300)
    write { ['filter/20-new.lua'] = 'local to = require "lib.to"\n' .. long .. ROUTE:gsub('"%%s"', 'to.name'),
      ['lib/to.lua'] = 'return { name = "z" }\n' .. long }
    local text, status = push '--now'
    assert.equal(0, status, text)
    publish()
    assert.same({ 0, 0, 1 }, ready())
    assert.equal(shell.read_file(dir .. '/lib/to.lua'), shell.read_file(broker.rules .. '/lib/to.lua'))
  end)

  it('is for administrators, and takes rules files alone', function()
    start '--rules-writable'
    c:expect_answer('RULES upload done', 'ERR not-found nothing has been uploaded: RULES upload <path> text=<text> '
      .. 'comes before')
    c:expect_answer('RULES upload a.lua', 'ERR syntax usage: RULES upload <path> text=<text>, or RULES upload done')
    c:ok 'RULES upload a.lua text=return%20{'
    c:send 'RULES upload ../a.lua text=x\r\n'
    c:expect "^ERR syntax '../a.lua' is no path of a rules file"
    c:expect_answer('RULES upload done', 'ERR not-found nothing has been uploaded: RULES upload <path> text=<text> '
      .. 'comes before')
    c:ok 'RULES upload a.lua text=return'
    c:ok 'RULES upload b.lua text=return'
    c:expect_answer('RULES upload a.lua text=x',
      "ERR exists 'a.lua' has been uploaded already; the parts of a file follow each other")
    c:ok 'RULES upload a.lua text=return%20'
    c:ok 'RULES upload a.lua text={}'
    local document = c:document 'RULES upload done'
    assert.is_true(document.check.fit)
    assert.equal('return {}', shell.read_file(broker.dir .. '/' .. document.dir .. '/a.lua'))
  end)
end)
