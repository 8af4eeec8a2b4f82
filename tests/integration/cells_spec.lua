-- A store that is split into cells: each has an owner, and every broker passes its clients on to the owner of the cell
-- that they are for.
local Broker = require 'support.broker'
local Certs = require 'support.certs'
local Cluster = require 'support.cluster'
local Http = require 'support.http'
local Redis = require 'support.redis'
local Stomp = require 'support.stomp'
local Websocket = require 'support.websocket'
local shell = require 'support.shell'
local traffic = require 'support.traffic'
local users = require 'support.users'
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

--- Names of vhosts by their cell of two: the first of each is `vhost_of[cell]`.
local vhost_of = {}
for i = 1, 20 do
  local name = 'shop-' .. i
  local cell = crc16(name) % 2
  vhost_of[cell] = vhost_of[cell] or name
end
local default_cell = crc16 '/' % 2

describe('with cells', function()
  local redis, brokers

  before_each(function()
    redis = Redis.start()
    brokers = {}
  end)

  after_each(function()
    for _, broker in ipairs(brokers) do broker:destroy() end
    redis:destroy()
  end)

  local function start(node, options, ...)
    options = options or {}
    options.args = { '--store', redis.url, '--cluster', options.cluster or '127.0.0.1:0', '--cells', '2',
      '--node', node, ... }
    options.cluster = nil
    options.http = options.http or '127.0.0.1:0'
    local broker = Broker.start(options)
    brokers[#brokers + 1] = broker
    return broker
  end

  local function rows_at(broker)
    local c = broker:connect()
    local rows = c:document 'LIST brokers'
    c:close()
    return rows
  end

  --- The nodes by the cells that they own.
  local function owners_at(broker)
    local owners = {}
    for _, row in ipairs(rows_at(broker)) do
      if row.state == 'owner' then owners[row.cell] = row.node end
    end
    return owners
  end

  --- Brokers by the cell that they own, when each has an owner that clients reach.
  local function settle(count)
    local owners
    assert(wait.poll(function()
      local rows = rows_at(brokers[1])
      owners = owners_at(brokers[1])
      return owners[0] and owners[1] and #rows == count
    end, 30), 'a cell has no owner')
    return { [0] = brokers[owners[0]], brokers[owners[1]] }
  end

  --- The two owners, and the spare.
  local function trio(...)
    for node = 1, 3 do start(node, {}, ...) end
    local owner = settle(3)
    for _, broker in ipairs(brokers) do
      if broker ~= owner[0] and broker ~= owner[1] then return owner, broker end
    end
  end

  local function pair(...)
    for node = 1, 2 do start(node, {}, ...) end
    return settle(2)
  end

  local function enter(broker, vhost)
    local c = broker:connect()
    c:document('HELLO vhost=' .. vhost)
    return c
  end

  --- Each vhost that the tests use, with a queue.
  local function declare_all(broker)
    for cell = 0, 1 do
      assert.equal(0, select(2, broker:cli('declare', 'vhost', vhost_of[cell])))
      local c = enter(broker, vhost_of[cell])
      c:ok 'DECLARE queue jobs'
      c:close()
    end
  end

  it('each broker serves the clients of all of them', function()
    local owner = trio()
    declare_all(brokers[2])
    for _, broker in ipairs(brokers) do
      for cell = 0, 1 do
        local c = enter(broker, vhost_of[cell])
        local large = ('0123456789abcdef'):rep(100000)
        c:ok('PUB - jobs', large)
        local direct = enter(owner[cell], vhost_of[cell])
        assert.is_true(large == direct:get('jobs ack=auto')[1].payload)
        assert.equal(50, traffic.publish(direct, 'jobs', 50))
        assert.equal(50, #traffic.take(c, 'jobs', 50))
        c:send 'QUIT\r\n'
        c:expect_line 'OK'
        c:expect_closed()
      end
    end
    -- One that does not say HELLO is in the default vhost.
    for _, broker in ipairs(brokers) do broker:connect():ok 'DECLARE queue jobs' end
    assert.equal(0, owner[default_cell]:connect():stats('jobs').ready)
  end)

  it('HELLO tells of the cell', function()
    local owner = pair()
    declare_all(brokers[1])
    for cell = 0, 1 do
      local hello = brokers[1]:connect():document('HELLO vhost=' .. vhost_of[cell])
      assert.equal(cell, hello.cell)
      assert.equal(2, hello.cells)
      assert.equal(tonumber(owner[cell].options.args[8]), hello.node)
      assert.equal(cell, brokers[2]:connect():document('HELLO cell=' .. cell).cell)
    end
    local c = brokers[1]:connect()
    c:send 'HELLO cell=2\r\n'
    c:expect '^ERR not%-found there is no cell 2: they are numbered from 0 to 1'
  end)

  it('are listed with their owners, at each broker the same', function()
    local owner, spare = trio()
    local function picture(broker)
      local lines = {}
      for i, row in ipairs(rows_at(broker)) do
        lines[i] = ('%s %s %s %s %d'):format(row.node, row.state, row.cell, row.at, row.since)
      end
      return table.concat(lines, '\n')
    end
    local at = {}
    for cell = 0, 1 do
      local c = brokers[1]:connect()
      c:document('HELLO cell=' .. cell)
      at[cell] = c:document 'LIST brokers'
    end
    assert(wait.poll(function() return picture(owner[0]) == picture(owner[1]) end), picture(owner[0]))
    assert.equal(picture(owner[0]), picture(spare))
    for i = 1, 3 do
      assert.equal(i, at[0][i].node)
      assert.equal(at[0][i].at, at[1][i].at)
      assert.equal(at[0][i].since, at[1][i].since)
      assert.equal(brokers[i]:stdout():match 'cluster on (%S+)', at[0][i].at)
    end
    assert.equal('front', rows_at(spare)[tonumber(spare.options.args[8])].state)
    assert.is_nil(rows_at(spare)[tonumber(spare.options.args[8])].cell)
    assert.matches('CELL', (spare:cli('list', 'brokers')))
  end)

  it('STOMP finds them by the host of CONNECT', function()
    trio()
    declare_all(brokers[1])
    for cell = 0, 1 do
      for i, broker in ipairs(brokers) do
        local s = Stomp.connect(broker, { host = vhost_of[cell] })
        s:frame('SEND', { destination = '/queue/jobs', receipt = i }, 'by stomp ' .. i)
        s:expect('RECEIPT', { ['receipt-id'] = tostring(i) })
      end
      assert.equal(3, enter(brokers[1], vhost_of[cell]):stats('jobs').ready)
    end
    -- Bytes of a head may come one by one.
    local s = Stomp.open(brokers[3])
    local head = Stomp.format('CONNECT', { host = vhost_of[1], ['accept-version'] = '1.2' })
    for byte in head:gmatch '.' do s:send(byte) end
    s:expect 'CONNECTED'
    Stomp.connect(brokers[3], { host = '127.0.0.1' })
  end)

  it('HTTP goes on in one connection through the vhosts of several', function()
    trio()
    declare_all(brokers[1])
    for _, broker in ipairs(brokers) do
      local http = Http.connect(broker)
      for i = 1, 6 do
        local vhost = vhost_of[i % 2]
        local answer = http:request('POST', ('/api/vhosts/%s/exchanges/-/publish'):format(vhost),
          { key = 'jobs', payload = 'by http ' .. i })
        assert.equal(200, answer.status)
        -- One request each for those that are passed through.
        if answer.headers.connection == 'close' then http = Http.connect(broker) end
      end
    end
    for cell = 0, 1 do
      assert.equal(9, Http.connect(brokers[1]):get('/api/vhosts/' .. vhost_of[cell] .. '/queues/jobs').json.ready)
      -- A vhost that is not there yet has a cell too.
      local name = 'new-' .. cell
      assert.equal(200, Http.connect(brokers[1]):put('/api/vhosts/' .. name).status)
      assert.equal(200, Http.connect(brokers[2]):get('/api/vhosts/' .. name .. '/queues').status)
      local all = Http.connect(brokers[3]):get('/api/vhosts?cell=' .. cell).json
      local has = {}
      for _, row in ipairs(all.items) do has[row.name] = true end
      assert.is_true(has[vhost_of[cell]])
      assert.is_nil(has[vhost_of[1 - cell]])
    end
    local answer = Http.connect(brokers[3]):get '/api/vhosts?cell=2'
    assert.equal(404, answer.status)
    assert.equal("there is no cell '2': they are numbered from 0 to 1", answer.json.error.text)
    assert.equal(200, Http.connect(brokers[3]):get('/health/ready').status)
  end)

  it('requests over HTTP that come at once are answered in their order', function()
    local owner = pair()
    declare_all(brokers[1])
    local mine, other = '/api/vhosts/' .. vhost_of[0] .. '/queues', '/api/vhosts/' .. vhost_of[1] .. '/queues'
    local http = Http.connect(owner[0])
    http:send('GET', mine):send('GET', mine):send('GET', other):send('GET', mine)
    for _ = 1, 3 do assert.equal(200, http:answer().status) end
    -- The one behind is the client's to ask again, as after any Connection: close.
    http.client:expect_closed()
  end)

  it('a WebSocket says the vhost in its URL', function()
    local owner, spare = trio()
    declare_all(brokers[1])
    for cell = 0, 1 do
      for _, broker in ipairs { owner[0], owner[1], spare } do
        local ws = Websocket.connect(broker, nil, '/stomp?vhost=' .. vhost_of[cell])
        ws:send('CONNECT\naccept-version:1.2\nhost:' .. vhost_of[cell] .. '\n\n\0')
        ws:expect '^CONNECTED\n'
        ws:send 'SEND\ndestination:/queue/jobs\nreceipt:r\n\nx\0'
        ws:expect '^RECEIPT\n'
      end
    end
    local ws = Websocket.connect(owner[0])
    ws:send('CONNECT\naccept-version:1.2\nhost:' .. vhost_of[1] .. '\n\n\0')
    ws:expect('^ERROR\n.*is of cell 1 of 2, and another broker owns that: .*%?vhost= of a URL')
  end)

  it('a session is in one, and says what to do about a vhost of another', function()
    pair()
    declare_all(brokers[1])
    local c = enter(brokers[1], vhost_of[0])
    local words = ("^ERR mismatch vhost '%s' is of cell 1 of 2, and another broker owns that: name the vhost where "
      .. 'the connection begins %%(HELLO vhost=, host of STOMP, %%?vhost= of a URL%%), or the cell '
      .. '%%(HELLO cell=, %%?cell=%%)'):format(vhost_of[1]:gsub('%-', '%%-'))
    c:send('DECLARE vhost ' .. vhost_of[1] .. '\r\n')
    c:expect(words)
    c:send('DELETE vhost ' .. vhost_of[1] .. '\r\n')
    c:expect(words)
    -- Who came for the cell is in no vhost, unless the default one is there.
    local other = 1 - default_cell
    c = brokers[2]:connect()
    c:document('HELLO cell=' .. other)
    for _, line in ipairs { 'DECLARE queue jobs', 'GET jobs', 'SUB jobs s', 'DELETE queue jobs', 'LOCK x ttl=1s' } do
      c:send(line .. '\r\n')
      c:expect("^ERR mismatch vhost '/' is of cell " .. default_cell)
    end
    c:send 'PUB - jobs 1\r\nx\r\n'
    c:expect("^ERR mismatch vhost '/' is of cell " .. default_cell)
    assert.equal(0, #c:document 'LIST queues')
    c:ok('DECLARE vhost made-' .. (other == crc16 'made-1' % 2 and 1 or 2))
  end)

  it('the command line asks all of them', function()
    trio()
    declare_all(brokers[1])
    local out, status = brokers[3]:cli('list', 'vhosts')
    assert.equal(0, status, out)
    for cell = 0, 1 do assert.matches(vhost_of[cell]:gsub('%-', '%%-'), out) end
    local held = { enter(brokers[1], vhost_of[0]), enter(brokers[1], vhost_of[1]) }
    out = brokers[3]:cli('list', 'connections', '--json')
    local seen = {}
    for _, row in ipairs(require('dkjson').decode(out)) do seen[row.vhost] = true end
    assert.is_true(seen[vhost_of[0]] and seen[vhost_of[1]])
    for _, c in ipairs(held) do c:close() end
    -- One that is placed is found there by all, a moment later.
    for cell = 0, 1 do
      out, status = brokers[3]:cli('declare', 'vhost', 'placed-' .. cell, '--in-cell', cell)
      assert.equal(0, status, out)
      for _, broker in ipairs(brokers) do
        assert(wait.poll(function()
          local c = broker:connect()
          c:send('HELLO vhost=placed-' .. cell .. '\r\n')
          return c:read_line():find '^DATA' and c:read_line():find('"cell":' .. cell, 1, true)
        end))
      end
    end
    -- A copy of the definitions is whole, and can be taken in again.
    local file = brokers[1].dir .. '/definitions'
    shell.write_file(file, (brokers[3]:cli('export')))
    local copy = shell.read_file(file)
    for cell = 0, 1 do assert.is_not_nil(copy:find(('"name": "%s"'):format(vhost_of[cell]), 1, true)) end
    assert.equal(0, select(2, brokers[3]:cli('delete', 'vhost', vhost_of[0], '--with-contents')))
    out, status = brokers[2]:cli('import', file)
    assert.equal(0, status, out)
    assert.equal(copy, (brokers[1]:cli('export')))
    assert.equal(0, select(2, brokers[3]:cli('delete', 'vhost', vhost_of[1], '--with-contents')))
    assert(wait.poll(function() return not brokers[3]:cli('list', 'vhosts'):find(vhost_of[1], 1, true) end))
    assert.is_not_nil((brokers[3]:cli('list', 'vhosts', '--url',
      'tide://' .. brokers[1].address .. '/?cell=0')):find(vhost_of[0], 1, true))
  end)

  -- The owner of a cell ends: the spare takes it, and the other cell notices nothing.
  local function take_over(how, seconds)
    local owner, spare = trio()
    declare_all(brokers[1])
    local kept, through = enter(owner[1], vhost_of[1]), enter(spare, vhost_of[1])
    local c = enter(owner[1], vhost_of[0])
    assert.equal(200, traffic.publish(c, 'jobs', 200))
    kept:ok('PUB - jobs', 'kept')
    local held = through:get('jobs')[1]
    owner[0]:signal(how)
    c:drain_to_end(seconds)
    for _, broker in ipairs { owner[1], spare } do
      c = enter(broker, vhost_of[0])
      c:send 'PUB - jobs 4\r\nlast\r\n'
      c:expect('^OK %x+ 1$', seconds)
    end
    assert.equal(202, #traffic.take(enter(spare, vhost_of[0]), 'jobs', 202))
    -- The same sessions still.
    kept:expect_nothing()
    through:ok('ACK ' .. held.tag)
    assert.equal(0, kept:stats('jobs').ready + kept:stats('jobs').unacked)
    assert(wait.poll(function()
      local owners = owners_at(owner[1])
      return owners[0] == tonumber(spare.options.args[8]) and #rows_at(spare) == 2
    end))
    if how == 'STOP' then
      owner[0]:signal 'CONT'
      assert.equal(1, wait.poll(function() return owner[0]:exit_status() end, 30))
    end
  end

  it('a spare takes one whose owner is killed', function() take_over('KILL', 30) end)
  it('a spare takes one whose owner ends in order', function() take_over('TERM', 30) end)
  it('a spare takes one whose owner stands still', function() take_over('STOP', 60) end)

  it('an owner that ends in order tells its clients of the other cell, too', function()
    local owner = pair()
    declare_all(brokers[1])
    local c, direct = enter(owner[0], vhost_of[1]), enter(owner[1], vhost_of[1])
    c:ok('PUB - jobs', 'x')
    assert.equal('x', c:get('jobs')[1].payload)
    owner[0]:expect_clean_stop()
    c:expect_line 'EVT closed shutdown the broker is stopping'
    c:expect_closed()
    assert.equal(1, direct:get('jobs wait=10s')[1].attempt)
    direct:expect_nothing()
  end)

  it('one without an owner is told of, and the others go on', function()
    local owner, away = pair(), 1 - default_cell
    local stays = owner[default_cell]
    declare_all(brokers[1])
    local kept = enter(stays, vhost_of[default_cell])
    owner[away]:kill9()
    local row = assert(wait.poll(function()
      local rows = rows_at(stays)
      return #rows == 2 and rows[1].state == 'none' and rows[1]
    end, 30))
    assert.equal(away, row.cell)
    assert.is_nil(row.node)
    local c, http = stays:connect(), Http.connect(stays)
    c:send('HELLO vhost=' .. vhost_of[away] .. '\r\n')
    http:send('GET', '/api/vhosts/' .. vhost_of[away] .. '/queues')
    kept:ok('PUB - jobs', 'x')
    c:expect('^ERR busy no broker owns cell ' .. away .. ' at the moment, or it cannot be reached: try again', 30)
    assert.equal(503, http:answer().status)
    local out, status = stays:cli('list', 'vhosts')
    assert.equal(1, status)
    assert.matches('cell ' .. away .. ' of 2 is missing', out)
    -- The command line has waited for the reason, too.
    assert.matches('busy: no broker owns cell ' .. away .. ' at the moment', out)
    assert.matches(vhost_of[default_cell]:gsub('%-', '%%-'), out)
    -- Those that wait are served when one comes.
    c = stays:connect()
    c:send('HELLO vhost=' .. vhost_of[away] .. '\r\n')
    start(3)
    assert.equal(away, c:expect_json(30).cell)
  end)

  it('strangers that do not say whom they want are sent away', function()
    users.restore(redis, {
      ann = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' },
        [vhost_of[0]] = { configure = '.*', write = '.*', read = '.*' },
        [vhost_of[1]] = { configure = '.*', write = '.*', read = '.*' } } },
    })
    for node = 1, 2 do
      start(node, {}, '--login-timeout', '1s', '--max-unauthenticated', '3')
    end
    assert(wait.poll(function()
      local ok = pcall(users.connect, brokers[1], 'ann', vhost_of[0])
      local other = pcall(users.connect, brokers[1], 'ann', vhost_of[1])
      return ok and other
    end, 30))
    local late = users.stranger(brokers[1])
    late:send 'HELLO vhost='
    late:expect '^EVT closed denied nobody logged in within 1 s'
    late:expect_closed()
    local first = users.stranger(brokers[1])
    for _ = 1, 3 do users.stranger(brokers[1]):send 'HE' end
    first:expect '^EVT closed limit more than 3 connections have not logged in'
    for cell = 0, 1 do
      local c = users.connect(brokers[2], 'ann', vhost_of[cell])
      c:ok 'DECLARE queue jobs'
      c = users.stranger(brokers[2])
      c:send('HELLO vhost=' .. vhost_of[cell] .. ' user=ann pass=wrong\r\n')
      c:expect '^ERR denied'
    end
  end)

  it('those that say nothing have their time, too', function()
    for node = 1, 2 do start(node, {}, '--idle-timeout', '2s', '--http-timeout', '2s') end
    settle(2)
    local c, http = brokers[1]:connect(), Http.connect(brokers[1])
    c:send 'HELLO'
    http.client:send 'GET /'
    c:expect '^EVT closed busy no input for the idle timeout'
    c:expect_closed()
    http.client:expect_closed()
  end)

  it('what cannot be read is answered by the broker that was asked', function()
    local owner = pair()
    for _, broker in ipairs { owner[0], owner[1] } do
      local c = broker:connect()
      c:send(('x'):rep(70000))
      c:expect '^ERR too%-long'
      c = broker:connect()
      c:send(('\n'):rep(70000) .. 'PING\r\n')
      c:expect_line 'OK'
      c = broker:connect()
      c:send '\22\3\1'
      c:expect '^ERR syntax this port does not speak TLS'
      c = broker:connect()
      c:send 'HELLO vhost=%zz\r\n'
      c:expect '^ERR syntax'
      c = broker:connect()
      c:send 'HELLO vhost='
      c:shutdown()
      c:expect_closed()
      local http = Http.connect(broker)
      http.client:send 'what\r\n\r\n'
      assert.equal(400, http:answer().status)
    end
  end)

  it('are found behind TLS', function()
    local certs = Certs.make()
    for node = 1, 2 do
      local at = 'tls:127.0.0.1:0'
      start(node, { listen = { at }, http = at, cluster = at, certs = certs }, '--tls-ca', certs:cert 'ca')
    end
    settle(2)
    for cell = 0, 1 do
      for _, broker in ipairs(brokers) do
        assert.equal(200, Http.connect(broker):put('/api/vhosts/' .. vhost_of[cell]).status)
        local c = enter(broker, vhost_of[cell])
        c:ok 'DECLARE queue jobs'
        local large = ('0123456789abcdef'):rep(50000)
        c:ok('PUB - jobs', large)
        assert.is_true(large == c:get('jobs ack=auto')[1].payload)
      end
    end
    certs:destroy()
  end)

  it('work on a Redis Cluster', function()
    local cluster = Cluster.start { masters = 3 }
    finally(function() cluster:close() end)
    redis.url = cluster.url
    local owner, spare = trio()
    declare_all(brokers[1])
    local kept = enter(spare, vhost_of[1])
    local c = enter(spare, vhost_of[0])
    c:ok 'DECLARE queue many shards=6'
    assert.equal(100, traffic.publish(c, 'many', 100))
    owner[0]:kill9()
    c:drain_to_end(30)
    c = enter(owner[1], vhost_of[0])
    c:ok('PUB - many', 'x')
    assert.equal(101, c:stats('many').ready)
    kept:expect_nothing()
  end)
end)
