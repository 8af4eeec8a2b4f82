-- DECLARE vhost on-demand=1: PUB, SUB and GET of a queue that is not there make it.
local Broker = require 'support.broker'
local Http = require 'support.http'
local json = require 'dkjson'
local shell = require 'support.shell'
local users = require 'support.users'
local wait = require 'support.wait'

local function names(c)
  local found = {}
  for _, q in ipairs(c:document 'LIST queues') do found[#found + 1] = q.name end
  table.sort(found)
  return table.concat(found, ' ')
end

describe('a vhost that makes queues on demand', function()
  local broker, c

  setup(function() broker = Broker.start { rules = {}, http = '127.0.0.1:0' } end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok(('DECLARE vhost %s on-demand=1'):format(broker.vhost))
  end)
  after_each(function() c:close() end)

  it('makes those that are published to', function()
    c:send 'PUB - jobs must 1\r\na\r\n'
    c:expect '^OK %x+ 1$'
    c:publish('jobs', 'b')
    c:publish('other', 'c')
    assert.equal('jobs other', names(c))
    assert.equal('a b', c.payload_text(c:get 'jobs max=5'))
    -- As if by a DECLARE without options.
    c:ok 'DECLARE queue jobs'
  end)

  it('makes those that are read', function()
    assert.same({}, c:get 'first second')
    c:ok 'SUB third s'
    assert.equal('first second third', names(c))
    c:send 'PUB - third quiet 1\r\nx\r\n'
    assert.equal('x', c:expect_msg().payload)
    c:send 'GET fourth wait=1h\r\nPUB - fourth 1\r\ny\r\n'
    c:expect_line 'OK 1'
    assert.equal('y', c:expect_msg().payload)
    c:expect '^OK %x+ 1$'
  end)

  it('makes none for any other request', function()
    for _, line in ipairs {
      'PEEK no', 'PURGE no', 'KICK no', 'STATS no', 'GET no id=0000000000000001', 'DELETE queue no', 'GET no group=g',
      'SUB no s group=g', 'SUB no s partition=1', 'BIND no amq.direct k', 'DECLARE queue no ttl=1s update',
    } do
      c:send(line .. '\r\n')
      c:expect '^ERR not%-found '
    end
    c:ok 'DECLARE exchange x direct'
    c:send 'PUB x no must 1\r\na\r\n'
    c:expect '^ERR unroutable '
    c:ok 'DECLARE queue dying dead-letter=-/gone'
    c:publish('dying', 'a')
    c:get 'dying'
    c:ok 'NACK 1 dead'
    assert.equal(1, c:stats('dying').buried)
    assert.equal('dying', names(c))
  end)

  it('makes none whose name is no name', function()
    c:send 'PUB - - must 1\r\na\r\n'
    c:expect '^ERR unroutable '
    assert.equal('', names(c))
  end)

  it('says so in EXPLAIN, and makes none', function()
    local said = c:document 'EXPLAIN - jobs'
    assert.same({}, said.queues)
    assert.is_true(said.on_demand)
    assert.equal('', names(c))
    assert.is_nil(c:document('EXPLAIN amq.direct jobs').on_demand)
  end)

  it('makes them within a transaction', function()
    c:ok 'BEGIN'
    c:send 'PUB - jobs must 1\r\na\r\n'
    c:expect '^OK'
    assert.equal('', names(c))
    c:send 'COMMIT\r\n'
    c:expect '^OK'
    assert.equal('a', c.payload_text(c:get 'jobs'))
  end)

  it('follows the address that a filter gives', function()
    broker:write_rule('filter/10-moved.lua', [[
return {
  match = { key = "moved" },
  publish = function(msg) msg.exchange, msg.key = "", "here" end,
}]])
    c:document 'RULES reload'
    c:publish('moved', 'a')
    assert.equal('here', names(c))
    broker:remove_rule 'filter/10-moved.lua'
    c:document 'RULES reload'
  end)

  it('asks the policies, whose options and refusals count', function()
    broker:write_rule('declare/10-tubes.lua', [[
return tide.use("bounds", { match = { queue = "#" }, options = { defaults = "expires=1h,expires-if=empty" } })
]])
    broker:write_rule('declare/20-names.lua', [[
return {
  match = { queue = "#" },
  declare = function(what) if what.name:find "^typo" then return false, "that is a typo" end end,
}]])
    c:document 'RULES reload'
    c:publish('jobs', 'a')
    local q = c:document('LIST queues')[1]
    assert.equal('1h', q.options.expires)
    assert.equal('empty', q.options['expires-if'])
    c:ok 'DECLARE queue jobs'
    for _, line in ipairs { 'GET typo', 'SUB typo s', 'PUB - typo 1\r\na' } do
      c:send(line .. '\r\n')
      c:expect '^ERR rejected that is a typo'
    end
    broker:remove_rule 'declare/10-tubes.lua'
    broker:remove_rule 'declare/20-names.lua'
    c:document 'RULES reload'
  end)

  it('is told and changed by all doors', function()
    local http = Http.connect(broker)
    local function vhost()
      for _, v in ipairs(c:document 'LIST vhosts') do
        if v.name == broker.vhost then return v end
      end
    end
    assert.is_true(vhost().on_demand)
    c:ok('DECLARE vhost ' .. broker.vhost)
    assert.is_true(vhost().on_demand)
    http:expect(200, 'PUT', '/api/vhosts/' .. broker.vhost, { ['on-demand'] = 0 })
    assert.is_false(vhost().on_demand)
    c:expect_answer('GET tube', ("ERR not-found there is no queue 'tube' in vhost '%s'"):format(broker.vhost))
    local out, status = broker:cli('declare', 'vhost', broker.vhost, 'on-demand=1')
    assert.equal(0, status, out)
    http:expect(200, 'POST', ('/api/vhosts/%s/exchanges/-/publish'):format(broker.vhost),
      { key = 'jobs', payload = 'a' })
    assert.equal('jobs', names(c))
    out, status = broker:cli('get', 'tube')
    assert.equal(0, status, out)
    assert.equal('jobs tube', names(c))
    c:send(('DECLARE vhost %s on-demand=2\r\n'):format(broker.vhost))
    c:expect '^ERR syntax '
    http:close()
  end)

  it('forgets that with its end', function()
    c:ok 'DECLARE vhost brief on-demand=1'
    c:ok 'DELETE vhost brief'
    c:ok 'DECLARE vhost brief'
    assert.equal('', broker:redis_cli('HGET', '{tide}:vhost-options', 'brief'))
    c:ok 'DELETE vhost brief'
  end)
end)

describe('queues on demand', function()
  local broker
  after_each(function() broker:destroy() end)

  it('survive a restart, with their messages, and so does the vhost', function()
    broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE vhost / on-demand=1'
    c:publish('jobs', 'a')
    broker:kill9()
    broker:run()
    c = broker:connect()
    assert.equal('a', c.payload_text(c:get 'jobs'))
    c:publish('more', 'b')
    assert.equal('jobs more', names(c))
    c:ok 'DECLARE vhost / on-demand=0'
    broker:kill9()
    broker:run()
    c = broker:connect()
    c:send 'GET third\r\n'
    c:expect '^ERR not%-found '
    broker:expect_clean_stop()
    local out, status = shell.run(('%s check-store --data %s/data 2>&1'):format(Broker.binary(), broker.dir))
    assert.equal(0, status, out)
  end)

  it('need the right to declare', function()
    local function may(patterns) return { vhosts = { ['/'] = patterns } } end
    broker = users.start {
      root = { tags = { 'admin' }, vhosts = { ['/'] = { configure = '.*', write = '.*', read = '.*' } } },
      app = may { configure = '^own', write = '.*', read = '^(own|foreign)' },
    }
    local root, app = users.connect(broker, 'root'), users.connect(broker, 'app')
    app:send 'DECLARE vhost / on-demand=1\r\n'
    app:expect '^ERR denied '
    root:ok 'DECLARE vhost / on-demand=1'
    for _, line in ipairs { 'GET foreign', 'SUB foreign s', 'PUB - foreign 1\r\na' } do
      app:send(line .. '\r\n')
      app:expect_line "ERR denied user 'app' may not configure queue or topic 'foreign' in vhost '/'"
    end
    app:send 'GET hidden\r\n'
    app:expect '^ERR denied .* read from '
    app:publish('own.jobs', 'a')
    assert.equal('own.jobs', names(root))
    root:close()
    app:close()
  end)

  it('have their number bounded', function()
    broker = Broker.start { args = { '--max-queues', 2 } }
    local c = broker:connect()
    c:ok 'DECLARE vhost / on-demand=1'
    c:get 'a b'
    for _, line in ipairs { 'GET c', 'SUB c s', 'PUB - c 1\r\na' } do
      c:send(line .. '\r\n')
      c:expect_line 'ERR limit the limit of 2 queues is reached'
    end
  end)

  it('go when they are empty and unused, if a policy says so', function()
    broker = Broker.start { rules = {} }
    broker:write_rule('declare/10-tubes.lua', [[
return tide.use("bounds", { match = { queue = "#" }, options = { defaults = "expires=20ms,expires-if=empty" } })
]])
    local c = broker:connect()
    c:document 'RULES reload'
    c:ok 'DECLARE vhost / on-demand=1'
    c:publish('full', 'a')
    c:get 'empty'
    assert.is_true(wait.poll(function() return names(c) == 'full' end))
    c:get 'full ack=auto'
    assert.is_true(wait.poll(function() return names(c) == '' end))
  end)

  it('are carried over by export and import', function()
    broker = Broker.start()
    local c = broker:connect()
    c:ok 'DECLARE vhost / on-demand=1'
    c:ok 'DECLARE vhost plain'
    local file = broker.dir .. '/definitions.json'
    local out = broker:cli 'export'
    shell.write_file(file, out)
    assert.same({ ['on-demand'] = '1' }, json.decode(out).vhosts[1].options)
    assert.is_nil(json.decode(out).vhosts[2].options)
    c:ok 'DECLARE vhost / on-demand=0'
    assert.equal('declared 1, there already 0, refused 0\n', (broker:cli('import', file)))
    assert.equal(out, (broker:cli 'export'))
    assert.equal('declared 0, there already 0, refused 0\n', (broker:cli('import', file)))
  end)
end)
