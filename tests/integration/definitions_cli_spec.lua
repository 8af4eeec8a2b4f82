-- tidemq export and import: all definitions of a broker as a document, in another broker.
local Broker = require 'support.broker'
local shell = require 'support.shell'

describe('tidemq export and import', function()
  local from, to, file

  before_each(function()
    from, to = Broker.start(), Broker.start()
    file = from.dir .. '/definitions.json'
  end)
  after_each(function()
    from:destroy()
    to:destroy()
  end)

  local function declare(broker)
    local c = broker:connect()
    c:ok 'DECLARE vhost shop'
    c:ok 'DECLARE exchange logs topic alternate=amq.fanout'
    c:ok 'DECLARE exchange parts headers'
    c:ok 'DECLARE queue jobs shards=2 ttl=7d retry=fixed retry.delay=1d'
    c:ok 'DECLARE queue mine exclusive'
    c:ok 'DECLARE topic events partitions=3'
    c:ok 'BIND jobs logs eu.#'
    c:ok 'BIND mine logs mine'
    c:ok 'BIND jobs parts - h:name=a%20b x-match=any'
    c:ok 'BIND parts logs - dest=exchange'
    local shop = broker:connect()
    shop:document 'HELLO vhost=shop'
    shop:ok 'DECLARE queue orders durable=0'
    return c
  end

  local function import(...)
    local out, status = to:cli('import', ...)
    return out, status
  end

  it('carries every vhost over, once', function()
    local c = declare(from)
    local out, status = from:cli 'export'
    assert.equal(0, status, out)
    shell.write_file(file, out)
    assert.is_nil(out:find('mine', 1, true))
    local told
    told, status = import(file, '--dry')
    assert.equal(0, status)
    assert.matches('DECLARE topic events partitions=3\n', told, 1, true)
    assert.matches('BIND jobs parts - h:name=a%20b x-match=any\n', told, 1, true)
    assert.same({}, to:connect():document 'LIST queues')
    told, status = import(file)
    assert.equal('declared 9, there already 0, refused 0\n', told)
    assert.equal(0, status)
    assert.equal(out, (to:cli 'export'))
    assert.equal('declared 0, there already 8, refused 0\n', (import(file)))
    c:close()
  end)

  it('names what is there otherwise, and goes on', function()
    declare(from)
    shell.write_file(file, (from:cli 'export'))
    local c = to:connect()
    c:ok 'DECLARE queue jobs ttl=1s'
    local out, status = shell.run(("TIDEMQ_URL='%s' '%s' import '%s' 2>&1"):format(to:url(), Broker.binary(), file))
    assert.equal(1, status)
    assert.matches("refused: DECLARE queue jobs .*queue 'jobs' exists with other options", out)
    assert.matches('declared 8, there already 0, refused 1', out)
    assert.equal(3, #c:document 'LIST bindings')
  end)

  it('carries users over without their passwords', function()
    local c = from:connect()
    c:ok 'USER add root pass=secret-of-root tags=admin'
    c:ok 'USER add shop pass=secret-of-shop'
    c:ok 'USER grant shop / write=^orders'
    c:ok 'USER set shop max-connections=7'
    local url = from:url():gsub('//', '//root:secret-of-root@', 1)
    local out, status = shell.run(("TIDEMQ_URL='%s' '%s' export"):format(url, Broker.binary()))
    assert.equal(0, status, out)
    assert.is_nil(out:find('secret', 1, true))
    shell.write_file(file, out)
    local there = to:connect()
    there:ok 'USER add root pass=other tags=admin'
    url = to:url():gsub('//', '//root:other@', 1)
    local command = ("TIDEMQ_URL='%s' '%s' import '%s' 2>&1"):format(url, Broker.binary(), file)
    out, status = shell.run(command)
    assert.matches("the password of user 'shop': tidemq user passwd", out, 1, true)
    assert.equal(0, status, out)
    assert.matches('declared 1, there already 1, refused 0', out)
    local list = there:document 'USER list'
    assert.same({ name = 'shop', tags = {}, vhosts = { ['/'] = { configure = '', write = '^orders', read = '' } },
      limits = { ['max-connections'] = 7 }, password = false, connections = 0 }, list[2])
    assert.matches('declared 0, there already 2, refused 0', (shell.run(command)))
  end)

  it('refuses what is no file of definitions', function()
    for text, why in pairs {
      ['{'] = "cannot read '", ['{}'] = 'has no definitions: expected what tidemq export or rabbitmqctl',
    } do
      shell.write_file(file, text)
      local out, status = import(file)
      assert.equal(1, status)
      assert.matches(why, out, 1, true)
    end
    local out, status = import(file .. '.gone')
    assert.matches("cannot read '" .. file .. ".gone'", out, 1, true)
    assert.equal(1, status)
  end)

  it("reads RabbitMQ's file, and says what cannot be carried over", function()
    shell.write_file(file, [[{"rabbit_version":"3.13.7","rabbitmq_version":"3.13.7",
"users":[{"name":"guest","password_hash":"x","hashing_algorithm":"rabbit_password_hashing_sha256",
  "tags":["administrator"],"limits":{}}],
"vhosts":[{"name":"/"},{"name":"shop"}],
"permissions":[{"user":"guest","vhost":"shop","configure":".*","write":".*","read":"^q"}],
"topic_permissions":[],"parameters":[],"global_parameters":[{"name":"cluster_name","value":"a"}],
"policies":[{"vhost":"/","name":"p","pattern":"^a","apply-to":"queues","definition":{"message-ttl":1},"priority":0}],
"queues":[{"name":"jobs","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-message-ttl":60000,
    "x-max-length":10,"x-dead-letter-exchange":"","x-dead-letter-routing-key":"dead","x-queue-type":"classic",
    "x-odd":1}},
  {"name":"dead","vhost":"/","durable":true,"auto_delete":false,"arguments":{"x-single-active-consumer":true}},
  {"name":"with blank","vhost":"/","durable":true,"auto_delete":false,"arguments":{}},
  {"name":"log","vhost":"shop","durable":true,"auto_delete":false,
    "arguments":{"x-queue-type":"stream","x-max-age":"7d"}}],
"exchanges":[{"name":"spread","vhost":"/","type":"x-consistent-hash","durable":true,"auto_delete":false,
    "internal":false,"arguments":{"hash-header":"customer"}},
  {"name":"heads","vhost":"/","type":"headers","durable":true,"auto_delete":false,"internal":true,
    "arguments":{"alternate-exchange":"spread"}},
  {"name":"later","vhost":"/","type":"x-delayed-message","durable":true,"auto_delete":false,"internal":false,
    "arguments":{"x-delayed-type":"x-consistent-hash"}},
  {"name":"odd","vhost":"/","type":"x-odd","durable":true,"auto_delete":false,"internal":false,"arguments":{}}],
"bindings":[{"source":"spread","vhost":"/","destination":"jobs","destination_type":"queue","routing_key":"3",
    "arguments":{}},
  {"source":"heads","vhost":"/","destination":"spread","destination_type":"exchange","routing_key":"",
    "arguments":{"x-match":"any","kind":"a","n":1}}]}]])
    local out, status = import(file)
    for _, line in ipairs {
      "not carried over: x-odd of queue 'jobs'", "not carried over: exchange 'odd': there is no type 'x-odd'",
      'not carried over: 1 policies', 'not carried over: 1 global_parameters',
      'refused: DECLARE queue with blank: a name or pattern has white space',
      'refused: USER add guest', 'declared 9, there already 0, refused 2',
    } do
      assert.matches(line, out, 1, true)
    end
    assert.equal(1, status)
    local c = to:connect()
    local options = {}
    for _, queue in ipairs(c:document 'LIST queues') do options[queue.name] = queue.options end
    assert.same({ jobs = { ttl = '60000ms',
      ['max-length'] = '10', overflow = 'dead-letter', ['dead-letter'] = '-/dead' },
      dead = { ['single-active'] = '1' } }, options)
    c:ok 'BIND spread heads - dest=exchange x-match=any h:kind=a h:n=1'
    assert.equal(2, #c:document 'LIST bindings')
    assert.equal('consistent-hash', c:document 'STATS exchange later'.type)
    out = import(file)
    assert.matches('there already 8', out, 1, true)
    assert.same({ partitions = '1', retention = '7d' }, (function()
      local shop = to:connect()
      shop:document 'HELLO vhost=shop'
      return shop:document 'LIST topics'[1].options
    end)())
  end)
end)
