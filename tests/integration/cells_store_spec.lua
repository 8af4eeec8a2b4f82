-- What a store keeps that is split into cells, and who may write it: owners, other numbers of cells, other brokers, and
-- what all cells share.
local Broker = require 'support.broker'
local Http = require 'support.http'
local Redis = require 'support.redis'
local shell = require 'support.shell'
local wait = require 'support.wait'

--- As Redis and the brokers have it.
local function crc16(text)
  local crc = 0
  for i = 1, #text do
    crc = crc ~ text:byte(i) << 8
    for _ = 1, 8 do
      crc = (crc & 0x8000 ~= 0 and crc << 1 ~ 0x1021 or crc << 1) & 0xffff
    end
  end
  return crc
end

--- The first name of a vhost in that cell of so many.
local function vhost_in(cell, cells)
  local i = 0
  repeat i = i + 1 until crc16('shop-' .. i) % cells == cell
  return 'shop-' .. i
end

describe('a store with cells', function()
  local redis, brokers

  before_each(function()
    redis = Redis.start()
    brokers = {}
  end)

  after_each(function()
    for _, broker in ipairs(brokers) do broker:destroy() end
    redis:destroy()
  end)

  local function options(node, cells, more)
    local o = more or {}
    local args = { '--store', redis.url, '--node', node, '--anonymous', table.unpack(o.args or {}) }
    if cells > 1 then
      for _, word in ipairs { '--cluster', '127.0.0.1:0', '--cells', cells } do args[#args + 1] = word end
    end
    o.args = args
    return o
  end

  local function start(node, cells, more)
    local broker = Broker.start(options(node, cells, more))
    brokers[#brokers + 1] = broker
    return broker
  end

  --- The standard error of one that does not stay, and its status.
  local function fail(node, cells)
    local broker = Broker.start((function()
      local o = options(node, cells)
      o.stopped = true
      return o
    end)())
    brokers[#brokers + 1] = broker
    broker:launch()
    local status = wait.poll(function() return broker:exit_status() end, 30)
    return broker:log(), status
  end

  --- One broker for each cell, from 0 on.
  local function start_all(cells, more)
    local owners = {}
    for cell = 0, cells - 1 do
      owners[cell] = start(cell + 1, cells, more and more(cell) or {})
      owners[cell]:expect_log('taking cell ' .. cell .. ' of ' .. cells)
      owners[cell]:expect_log 'recovered '
    end
    return owners
  end

  --- A connection in a vhost, which is made if the broker owns its cell and is told to.
  local function enter(broker, vhost, cell)
    local c = broker:connect()
    if cell then
      c:document('HELLO cell=' .. cell)
      c:ok('DECLARE vhost ' .. vhost)
      c:close()
      c = broker:connect()
    end
    c:document('HELLO vhost=' .. vhost)
    return c
  end

  local function stop_all()
    for _, broker in ipairs(brokers) do
      if broker:is_running() then broker:expect_clean_stop() end
    end
  end

  local function owner_of(cell)
    return redis:cli('HGET', '{tide}:holder:' .. cell, 'node')
  end

  it('has a record for each, and a string where others look for theirs', function()
    start_all(2)
    assert.match('^cells 2 %d+$', redis:cli('GET', '{tide}:holder'))
    assert.same({ '1', '2' }, { owner_of(0), owner_of(1) })
    local split = redis:cli('GET', '{tide}:holder'):match '%d+$'
    local list = redis:cli('CLIENT', 'LIST')
    for cell = 0, 1 do
      local name = ('name=tidemq:%s.%d:%s '):format(split, cell,
        redis:cli('HGET', '{tide}:holder:' .. cell, 'incarnation'))
      assert.truthy(list:find(name, 1, true), name)
    end
  end)

  it('is read by each owner for its own vhosts alone', function()
    local owners = start_all(2)
    for cell = 0, 1 do
      local c = enter(owners[cell], vhost_in(cell, 2), cell)
      c:ok('DECLARE queue of-' .. cell)
      c:ok('PUB - of-' .. cell, 'abc')
      c:close()
    end
    stop_all()
    owners = start_all(2)
    for cell = 0, 1 do
      local c = enter(owners[cell], vhost_in(cell, 2))
      local rows = c:document 'LIST queues'
      assert.same({ 'of-' .. cell, 1 }, { rows[1].name, rows[1].ready })
      c:close()
      owners[cell]:expect_log 'recovered 0 exchanges, 1 queue,'
    end
  end)

  it('keeps all of it when their number changes, while no broker runs', function()
    local whole = start(1, 1)
    local c = whole:connect()
    c:ok 'DECLARE queue jobs'
    for i = 1, 6 do
      c:ok('DECLARE vhost shop-' .. i)
      local e = enter(whole, 'shop-' .. i)
      e:ok 'DECLARE queue jobs'
      e:ok('PUB - jobs', 'message ' .. i)
      e:close()
    end
    c:close()
    whole:expect_clean_stop()
    for _, cells in ipairs { 2, 3, 2, 1 } do
      brokers = {}
      local owners = start_all(cells == 1 and 0 or cells)
      owners[0] = owners[0] or start(1, 1)
      for i = 1, 6 do
        local e = enter(owners[crc16('shop-' .. i) % cells], 'shop-' .. i)
        local got = e:get 'jobs'
        assert.equal('message ' .. i, got[1].payload)
        e:ok 'NACK 1'
        e:close()
      end
      stop_all()
      assert.equal(cells == 1 and 'hash' or 'string', redis:cli('TYPE', '{tide}:holder'))
      assert.equal('0', redis:cli('EXISTS', '{tide}:holder:' .. cells))
    end
    assert.equal('0', redis:cli('EXISTS', '{tide}:holder:0', '{tide}:holder:1', '{tide}:holder:2'))
  end)

  it('takes no broker with another number of them while one lives', function()
    start_all(2)
    for _, cells in ipairs { 1, 3 } do
      local log, status = fail(7, cells)
      assert.equal(1, status)
      assert.match('cell %d of 2 of this store has an owner: node %d, pid %d+ on .*; stop all of its brokers', log)
    end
    assert.match('^cells 2 ', redis:cli('GET', '{tide}:holder'))
    assert.same({ '1', '2' }, { owner_of(0), owner_of(1) })
  end)

  it('is not split while a broker holds all of it', function()
    local whole = start(1, 1)
    local log, status = fail(2, 2)
    assert.equal(1, status)
    assert.match('another broker holds all of this store: node 1, .*; %-%-cells 2 needs it to be stopped', log)
    local c = whole:connect()
    c:ok 'DECLARE queue jobs'
    c:close()
    assert.equal('hash', redis:cli('TYPE', '{tide}:holder'))
  end)

  it('takes no node twice: both would make the same ids', function()
    start_all(2)
    local log, status = fail(2, 2)
    assert.equal(1, status)
    assert.match('cell 1 of 2 of this store has an owner: node 2, .*it has the %-%-node of this broker', log)
  end)

  it('gives the broker that comes back the cell that it had', function()
    local owners = start_all(3)
    owners[2]:kill9()
    owners[1]:expect_clean_stop()
    -- Cell 1 is free as well, and comes first.
    owners[2]:run()
    owners[2]:expect_log 'taking cell 2 of 3 over'
    assert.equal('3', owner_of(2))
  end)

  it('is fenced: an owner that stood still writes nothing more', function()
    local owners = start_all(2)
    local vhost = vhost_in(1, 2)
    local c = enter(owners[1], vhost, 1)
    c:ok 'DECLARE queue jobs'
    owners[1]:signal 'STOP'
    local spare = start(3, 2)
    spare:expect_log 'taking cell 1 of 2 over'
    spare:expect_log 'recovered '
    c:send 'PUB - jobs 3\r\nabc\r\n'
    owners[1]:signal 'CONT'
    assert(wait.poll(function() return owners[1]:exit_status() end), 'it lives')
    assert.match('another broker has taken the store over: node 3', owners[1]:log())
    assert.same({ '1', '3' }, { owner_of(0), owner_of(1) })
    local e = enter(spare, vhost)
    assert.equal(0, e:stats('jobs').ready)
    e:close()
    -- The other one went on.
    e = enter(owners[0], vhost_in(0, 2), 0)
    e:ok 'DECLARE queue jobs'
    e:ok('PUB - jobs', 'abc')
    e:close()
  end)

  it('that was split anew, or joined, is no more a former owner\'s', function()
    local owners = start_all(2)
    for cell = 0, 1 do owners[cell]:signal 'STOP' end
    local whole = start(9, 1)
    for cell = 0, 1 do
      owners[cell]:signal 'CONT'
      assert(wait.poll(function() return owners[cell]:exit_status() end), 'it lives')
      assert.match('taken the store over: one that has split the store anew, or holds all', owners[cell]:log())
    end
    local c = whole:connect()
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'abc')
    c:close()
    whole:signal 'STOP'
    start_all(2)
    whole:signal 'CONT'
    assert(wait.poll(function() return whole:exit_status() end), 'it lives')
    assert.match('taken the store over: one that has split it into cells', whole:log())
  end)

  it('finishes at each owner what a crash has left of its vhosts, and nothing of others', function()
    local function command(...)
      local words = { ... }
      local out = { '*' .. #words .. '\r\n' }
      for _, word in ipairs(words) do out[#out + 1] = ('$%d\r\n%s\r\n'):format(#word, word) end
      return table.concat(out)
    end
    for cell = 0, 1 do
      local vhost = vhost_in(cell, 2)
      redis:cli('HSET', '{tide}:commits', ('1-%d %d'):format(cell, cell),
        command('ZADD', ('tide:{%s/jobs#0}:ready'):format(vhost), '1', '0000000000000001'))
      redis:cli('HSET', '{tide}:erasing', ('queue %s/gone'):format(vhost), 1)
    end
    local first = start(1, 2)
    first:expect_log 'taking cell 0 of 2'
    first:expect_log 'recovered '
    assert.equal('1-1 1', redis:cli('HKEYS', '{tide}:commits'))
    assert.equal('queue ' .. vhost_in(1, 2) .. '/gone', redis:cli('HKEYS', '{tide}:erasing'))
    start(2, 2):expect_log 'recovered '
    assert.equal('0', redis:cli('EXISTS', '{tide}:commits', '{tide}:erasing'))
    assert.equal('1', redis:cli('EXISTS', ('tide:{%s/jobs#0}:ready'):format(vhost_in(1, 2))))
  end)

  it('keeps the mark of an orderly end for each cell', function()
    local owners = start_all(2)
    stop_all()
    assert.equal('1', redis:cli('HEXISTS', '{tide}:ids', 'clean'))
    assert.equal('1', redis:cli('HEXISTS', '{tide}:ids', 'clean:1'))
    owners[1]:run()
    owners[1]:expect_log 'recovered .*recovered '
    -- It has cell 0 now, the first one that is free.
    assert.equal('0', redis:cli('HEXISTS', '{tide}:ids', 'clean'))
    assert.equal('1', redis:cli('HEXISTS', '{tide}:ids', 'clean:1'))
  end)

  it('runs a schedule at the owner of its vhost alone', function()
    local vhost = vhost_in(1, 2)
    local rules = { ['schedule/ticker.lua'] = ([[
      return {
        vhost = "%s",
        every = "100ms",
        missed = "skip",
        run = function(broker, tick) broker.publish { key = "ticks", payload = tostring(tick.ms) } end,
      }
    ]]):format(vhost) }
    local owners = start_all(2, function() return { rules = rules } end)
    local c = enter(owners[1], vhost, 1)
    c:ok 'DECLARE queue ticks'
    assert(wait.poll(function() return c:stats('ticks').ready >= 3 end), 'no ticks')
    c:close()
    for cell = 0, 1 do
      c = owners[cell]:connect()
      c:document('HELLO cell=' .. cell)
      local row = c:document('RULES status').schedules[1]
      c:close()
      assert.same({ 1, cell == 1 }, { row.cell, (row.runs or 0) > 0 })
    end
    assert.equal('1', redis:cli('HEXISTS', '{tide}:rules:schedule', 'ticker'))
  end)

  it('lets a vhost be placed', function()
    local owners = start_all(2)
    local vhost = vhost_in(0, 2)
    local c = owners[0]:connect()
    c:document 'HELLO cell=0'
    c:expect_answer(('DECLARE vhost %s in-cell=2'):format(vhost), 'ERR not-found there is no cell 2: they are numbered '
      .. 'from 0 to 1')
    local function expect_elsewhere(line, name)
      c:send(line .. '\r\n')
      local answer = c:read_line()
      assert.truthy(answer:find(("ERR mismatch vhost '%s' is of cell 1 of 2"):format(name), 1, true), answer)
    end
    expect_elsewhere(('DECLARE vhost %s in-cell=0'):format(vhost_in(1, 2)), vhost_in(1, 2))
    c:ok(('DECLARE vhost %s in-cell=1'):format(vhost))
    expect_elsewhere('DECLARE vhost ' .. vhost, vhost)
    c:close()
    assert.equal('1', redis:cli('HGET', '{tide}:cluster', 'cell:' .. vhost))
    assert.equal('1', redis:cli('SISMEMBER', '{tide}:vhosts', vhost))
    local e
    assert(wait.poll(function()
      e = owners[1]:connect()
      e:send('HELLO vhost=' .. vhost .. '\r\n')
      if e:read_line():find '^DATA' then return true end
      e:close()
    end), 'it does not come')
    e:close()
    e = enter(owners[1], vhost)
    e:ok 'DECLARE queue jobs'
    e:ok('PUB - jobs', 'abc')
    e:send(('DECLARE vhost %s in-cell=0\r\n'):format(vhost))
    e:expect '^ERR exists vhost .* is in cell 1, and stays there'
    e:close()
    stop_all()
    owners = start_all(2)
    e = enter(owners[1], vhost)
    assert.equal('abc', e:get('jobs')[1].payload)
    e:close()
    owners[0]:expect_log 'recovered 0 exchanges, 0 queues'
  end)

  it('lets many vhosts be placed at once', function()
    local owners = start_all(2)
    local c = owners[0]:connect()
    c:document 'HELLO cell=0'
    local names = {}
    for i = 1, 40 do names[i] = vhost_in(0, 2) .. '-' .. i end
    for _, name in ipairs(names) do
      if crc16(name) % 2 == 0 then c:ok(('DECLARE vhost %s in-cell=1'):format(name)) end
    end
    c:close()
    for _, name in ipairs(names) do
      if crc16(name) % 2 == 0 then assert.equal('1', redis:cli('HGET', '{tide}:cluster', 'cell:' .. name)) end
    end
  end)

  it('shares its users', function()
    local owners = start_all(2)
    local c = owners[0]:connect()
    c:ok 'USER add bob pass=x tags=admin'
    c:close()
    local function users_at(cell)
      local e = owners[cell]:connect()
      e:send(('HELLO user=bob pass=x cell=%d\r\n'):format(cell))
      local line = e:read_line()
      if not line:find '^DATA' then e:close() return '' end
      e:close()
      e = owners[cell]:connect()
      e:document('HELLO user=bob pass=x cell=' .. cell)
      local names = {}
      for _, user in ipairs(e:document 'USER list') do names[#names + 1] = user.name end
      e:close()
      return table.concat(names, ' ')
    end
    local function change(cell, line)
      local e = owners[cell]:connect()
      e:document('HELLO user=bob pass=x cell=' .. cell)
      e:ok(line)
      e:close()
    end
    assert(wait.poll(function() return users_at(1) == 'bob' end), 'bob does not come')
    change(1, 'USER add eve pass=y')
    assert(wait.poll(function() return users_at(0) == 'bob eve' end), 'eve does not come')
    change(0, 'USER delete eve')
    assert(wait.poll(function() return users_at(1) == 'bob' end), 'eve does not go')
  end)

  it('shares its rules, and an owner that cannot load them says so', function()
    local function script(n)
      return ('return { match = { key = "never.%d" }, publish = function() end }\n'):format(n)
    end
    local owners = start_all(2, function() return { rules = { ['filter/a.lua'] = script(1) } } end)
    local function hash_at(cell)
      local c = owners[cell]:connect()
      c:document('HELLO cell=' .. cell)
      local hash = c:document('RULES status').hash
      c:close()
      return hash
    end
    local before = hash_at(0)
    assert.equal(before, hash_at(1))
    owners[0]:write_rule('filter/a.lua', script(2))
    assert(wait.poll(function() return hash_at(0) ~= before and hash_at(1) == hash_at(0) end), 'it does not follow')
    owners[1]:expect_log 'is active, from cell, asked for by the owner of another cell'
    -- One that comes later has what the others have, whatever its directory has.
    owners[1]:expect_clean_stop()
    owners[1]:run()
    assert(wait.poll(function() return hash_at(1) == hash_at(0) end), 'it does not follow at its start')
    assert.equal(script(1), shell.read_file(owners[1].rules .. '/filter/a.lua'))
  end)

  it('can be checked, and repaired while no cell has an owner', function()
    local owners = start_all(2)
    local c = enter(owners[1], vhost_in(1, 2), 1)
    c:ok 'DECLARE queue jobs'
    c:ok('PUB - jobs', 'abc')
    c:close()
    local function check(...)
      local words = { shell.quote(Broker.binary()), 'check-store', '--store', shell.quote(redis.url), ... }
      return shell.run(table.concat(words, ' ') .. ' 2>&1 </dev/null')
    end
    local text, status = check()
    assert.equal(0, status, text)
    text, status = check '--repair'
    assert.equal(1, status)
    assert.match('cell %d of 2 of this store has an owner', text)
    stop_all()
    redis:cli('SADD', '{tide}:' .. vhost_in(1, 2) .. ':topic:gone', 0)
    text, status = check '--repair'
    assert.equal('hash', redis:cli('TYPE', '{tide}:holder'), text .. status)
    owners = start_all(2)
    c = enter(owners[1], vhost_in(1, 2))
    assert.equal('abc', c:get('jobs')[1].payload)
    c:close()
  end)

  it('warns of a cell without an owner', function()
    local owner = start(1, 2, { http = '127.0.0.1:0' })
    owner:expect_log 'recovered '
    local http = Http.connect(owner)
    assert(wait.poll(function()
      local warning = http:get('/health/ready?cell=0').json.warnings[1] or {}
      return warning.code == 'cells' and warning.text == 'cell 1 of 2 has no owner: start another broker'
    end, 30), 'no warning')
  end)
end)
