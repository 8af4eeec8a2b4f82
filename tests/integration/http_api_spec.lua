-- The HTTP API is what docs/openapi.json says: each operation is there with its
-- parameters, answers as it says, and asks for the permissions that it needs.
local Broker = require 'support.broker'
local Http = require 'support.http'
local json = require 'dkjson'
local operations = require 'support.http_operations'
local shell = require 'support.shell'
local users = require 'support.users'

local ALL = { configure = '.*', write = '.*', read = '.*' }
local VERBS = { configure = 'configure', write = 'write to', read = 'read from' }
local KINDS = { exchange = 'exchange', queue = 'queue or topic' }

local document = json.decode(shell.read_file 'docs/openapi.json')

local function resolve(value)
  while value['$ref'] do
    local at = document
    for part in value['$ref']:gsub('^#/', ''):gmatch '[^/]+' do at = at[part] end
    value = at
  end
  return value
end

--- The members of a body; of one that is this or that, all of them.
local function add_members(schema, to)
  schema = resolve(schema)
  for _, part in ipairs(schema.anyOf or {}) do add_members(part, to) end
  for name in pairs(schema.properties or {}) do to[name] = true end
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- The patterns for exactly these permissions.
local function patterns_for(needs, except)
  local names = { configure = {}, write = {}, read = {} }
  for i, need in ipairs(needs) do
    if i ~= except then table.insert(names[need[1]], '^' .. need[3] .. '$') end
  end
  local patterns = {}
  for action, list in pairs(names) do patterns[action] = table.concat(list, '|') end
  return patterns
end

describe('the HTTP API', function()
  local broker, admin, root
  local exchanges = {} -- for openapi_check.py

  local function connect(user)
    return Http.connect(broker, { user = user, password = user and users.password })
  end

  setup(function()
    broker = Broker.start { redis = {}, stopped = true, rules = {}, http = '127.0.0.1:0',
      args = { '--rules-candidates', '@DIR@' } }
    local all = {
      root = { tags = { 'admin' }, vhosts = { ['/'] = ALL } }, watcher = { tags = { 'monitor' } },
      all = { vhosts = { ['/'] = ALL } }, other = { vhosts = { ['/'] = ALL } }, gone = {},
    }
    for i, row in ipairs(operations) do
      for k in ipairs(row.needs or {}) do
        all[('not-%d-%d'):format(i, k)] = { vhosts = { ['/'] = patterns_for(row.needs, k) } }
      end
      if row.needs then all['may-' .. i] = { vhosts = { ['/'] = patterns_for(row.needs) } } end
    end
    users.restore(broker.redis, all)
    broker:run()
    local filter = 'return { match = { exchange = "%s" }, publish = function() end }'
    broker:copy_rules('next', { ['filter/10-next.lua'] = filter:format 'x' })
    admin, root = users.connect(broker, 'root'), connect 'root'
    broker:write_rule('filter/90-later.lua', filter:format 'y')
    admin:document 'RULES reload'
  end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  --- What the rows name is there, and what they make is not.
  local function prepare(row)
    for _, line in ipairs {
      'DRAIN off', 'DELETE queue q', 'DELETE topic t', 'DELETE queue new', 'DELETE topic new', 'DELETE exchange new',
      'DECLARE queue q', 'DECLARE queue other', 'DECLARE topic t partitions=1', 'DECLARE exchange x direct',
      'DECLARE exchange y direct', 'BIND q x k', 'UNBIND q x more', 'RULES shadow drop',
    } do
      admin:request(line)
    end
    for i = 1, 3 do
      admin:ok('PUB - q h:number=' .. i, 'payload ' .. i)
      admin:ok('PUB - t', 'record ' .. i)
    end
    admin:ok(('NACK %s bury'):format(admin:get 'q'[1].tag))
    for _, group in ipairs { 'g', 'old' } do admin:ok('ACK ' .. admin:get('t group=' .. group)[1].tag) end
    if row.shadow then admin:document 'RULES shadow next' end
  end

  local doomed -- what collects garbage would close it
  local replacements = {
    CONNECTION = function()
      doomed = users.connect(broker, 'root')
      collectgarbage() -- of those before it alone
      assert(doomed)
      return admin:document 'LIST connections sort=connection order=desc max=1'[1].connection
    end,
    ID = function() return admin:document('PEEK q').messages[1].id end,
    BURIED = function() return admin:document('PEEK q state=buried').messages[1].id end,
    RECEIPT = function(http)
      return http:expect(200, 'POST', '/api/vhosts/%2F/queues/q/get', {}).messages[1].receipt
    end,
    OFFSET = function(http)
      return http:expect(200, 'POST', '/api/vhosts/%2F/topics/t/get', { group = 'g' }).messages[1].receipt
    end,
  }

  local function fill(value, http)
    if type(value) == 'table' then
      local copy = setmetatable({}, getmetatable(value))
      for name, member in pairs(value) do copy[name] = fill(member, http) end
      return copy
    end
    if type(value) ~= 'string' then return value end
    return (value:gsub('@(%u+)@', function(name) return tostring(replacements[name](http)) end))
  end

  --- Ask as somebody; gives the answer and the body that was sent.
  local function ask(row, http, more)
    local method, path = row[1]:match '^(%S+) (%S+)$'
    path = fill(row.path or path, http)
    if more then path = path .. (path:find('?', 1, true) and '&' or '?') .. more end
    local body = fill(row.body, http)
    local answer = http:request(method, path, body, body and { ['Content-Type'] = 'application/json' })
    return answer, body
  end

  --- Likewise, of somebody who is not to be let in: nothing stands for what there is.
  local function ask_denied(row, http)
    local method, path = row[1]:match '^(%S+) (%S+)$'
    path = (row.path or path):gsub('@CONNECTION@', '1'):gsub('@%u+@', '0000000000000001')
    return http:request(method, path, row.body)
  end

  local routes

  local function is_described(path) return path:find '^/api' or path:find '^/health' end

  it('has each of its routes in docs/openapi.json, with the same parameters, and no other', function()
    local described, there = {}, {}
    for path, item in pairs(document.paths) do
      for method, operation in pairs(item) do
        local names = {}
        for _, parameter in ipairs(operation.parameters or {}) do
          if parameter['in'] == 'query' then names[parameter.name] = true end
        end
        if operation.requestBody then
          add_members(operation.requestBody.content['application/json'].schema, names)
        end
        described[method:upper() .. ' ' .. path] = table.concat(sorted(names), ' ')
      end
    end
    routes = root:expect(200, 'GET', '/api').routes
    for _, route in ipairs(routes) do
      if is_described(route.path) then
        table.sort(route.parameters)
        -- What a topic is called in its path makes no difference.
        local path = route.path:gsub('^(.*/topics/){queue}', '%1{topic}')
        there[route.method .. ' ' .. path] = table.concat(route.parameters, ' ')
      end
    end
    assert.same(described, there)
  end)

  it('has a row in support/http_operations.lua for each operation', function()
    local has, missing = {}, {}
    for _, row in ipairs(operations) do has[row[1]] = true end
    for path, item in pairs(document.paths) do
      for method in pairs(item) do
        local name = method:upper() .. ' ' .. path
        if not has[name] then missing[#missing + 1] = name end
        has[name] = nil
      end
    end
    assert.same({}, missing)
    assert.same({}, sorted(has))
  end)

  --- A sample has the columns of the history.
  local function read_sample(row)
    local http = connect 'root'
    http:send('GET', row.path)
    assert.equal(200, http:head().status)
    local sample = json.decode(http:chunk():match '^event: stats\ndata: ({.*})\n\n$')
    local is_column = {}
    for _, name in ipairs(root:expect(200, 'GET', '/api/history').columns) do is_column[name] = true end
    for name in pairs(sample) do assert.is_true(is_column[name], name) end
    assert.is_true(is_column.published)
    http:close()
  end

  for i, row in ipairs(operations) do
    it('does ' .. row[1], function()
      prepare(row)
      if row.is_endless then
        read_sample(row)
        return
      end
      local answer, body = ask(row, root)
      assert.equal(200, answer.status, answer.body)
      exchanges[#exchanges + 1] = json.encode {
        operation = row[1], status = answer.status, request = body, answer = answer.json,
      }
    end)

    it('refuses a parameter that it does not know: ' .. row[1], function()
      prepare(row)
      -- Refused before its body is read, it ends the connection.
      local http = connect 'root'
      local answer = ask(row, http, 'nonsense=1')
      http:close()
      assert.equal(400, answer.status, answer.body)
      assert.matches("has no parameter 'nonsense'", answer.json.error.text, 1, true)
      exchanges[#exchanges + 1] = json.encode { operation = row[1], status = 400, answer = answer.json }
    end)

    if row.free then
      it('needs no login for ' .. row[1], function()
        local nobody = connect()
        assert.equal(200, ask_denied(row, nobody).status)
        nobody:close()
      end)
    else
      it('wants a login for ' .. row[1], function()
        local nobody = connect()
        local answer = ask_denied(row, nobody)
        assert.same({ 401, 'denied' }, { answer.status, answer.json.error.code })
        exchanges[#exchanges + 1] = json.encode { operation = row[1], status = 401, answer = answer.json }
        nobody:close()
      end)
    end

    for k, need in ipairs(row.needs or {}) do
      it(('asks whether one may %s %s for %s'):format(VERBS[need[1]], need[3], row[1]), function()
        prepare(row)
        local name = ('not-%d-%d'):format(i, k)
        local http = connect(name)
        local answer = ask_denied(row, http)
        assert.equal(403, answer.status, answer.body)
        assert.equal(("user '%s' may not %s %s '%s' in vhost '/'"):format(name, VERBS[need[1]], KINDS[need[2]],
          need[3]), answer.json.error.text)
        exchanges[#exchanges + 1] = json.encode { operation = row[1], status = 403, answer = answer.json }
        http:close()
      end)
    end

    if row.needs then
      it('needs no other permission for ' .. row[1], function()
        prepare(row)
        local http = connect('may-' .. i)
        local answer = ask_denied(row, http)
        assert.is_true(answer.status == 200 or answer.status == 404, answer.body)
        http:close()
      end)
    end

    if row.tag then
      it(('needs the tag %s for %s'):format(row.tag, row[1]), function()
        prepare(row)
        for _, name in ipairs { 'all', row.tag == 'admin' and 'watcher' or nil } do
          local http = connect(name)
          local answer = ask_denied(row, http)
          assert.equal(403, answer.status, answer.body)
          assert.matches('needs a user with the tag ' .. row.tag, answer.json.error.text, 1, true)
          http:close()
        end
      end)
    end
  end

  it('changes what exists with update', function()
    local queue, exchange = '/api/vhosts/%2F/queues/changing', '/api/vhosts/%2F/exchanges/changing'
    root:expect(200, 'PUT', queue, { options = { ttl = '1h' } })
    local refused = root:expect_error(409, 'mismatch', 'PUT', queue, { options = { ttl = '2h' } })
    assert.matches("'changing' exists with other options: it has ttl=1h, not ttl=2h; the option update", refused)
    root:expect(200, 'PUT', queue, { options = { ttl = '2h' }, update = true })
    root:expect(200, 'PUT', queue, { options = { ttl = '2h' }, update = false })
    refused = root:expect_error(409, 'mismatch', 'PUT', queue, { options = { durable = false }, update = true })
    assert.matches('it keeps durable=1, because ', refused)
    root:expect_error(409, 'exists', 'PUT', queue, { options = { update = true }, update = true })
    root:expect_error(400, 'syntax', 'PUT', queue, { update = 'soon' })
    root:expect(200, 'PUT', exchange, { type = 'topic' })
    root:expect_error(409, 'mismatch', 'PUT', exchange, { type = 'topic', options = { internal = true } })
    root:expect(200, 'PUT', exchange, { type = 'topic', options = { internal = true }, update = true })
    root:expect(200, 'DELETE', queue)
    root:expect(200, 'DELETE', exchange)
    root:expect_error(404, 'not-found', 'PUT', queue, { options = { ttl = '1h' }, update = true })
    root:expect_error(404, 'not-found', 'PUT', exchange, { type = 'topic', update = true })
  end)

  it('takes an option that is false as 0', function()
    local queue = '/api/vhosts/%2F/queues/memory'
    root:expect(200, 'PUT', queue, { options = { durable = false } })
    assert.matches('it has durable=0, not durable=1',
      root:expect_error(409, 'mismatch', 'PUT', queue, { options = { durable = true } }))
    root:expect(200, 'DELETE', queue)
  end)

  it('refuses tags that are no texts', function()
    local http = connect 'root'
    for _, tags in ipairs { '[1]', '["monitor",null]', '[[]]' } do
      local answer = http:request('PUT', '/api/users/vera', ('{"password":"secret","tags":%s}'):format(tags),
        { ['Content-Type'] = 'application/json' })
      assert.equal("tags: expected an array of strings, not '[…]'", answer.json.error.text)
    end
    http:close()
  end)

  it('takes and gives what docs/openapi.json says', function()
    assert.is_true(#exchanges > 2 * #operations)
    local file = broker.dir .. '/exchanges'
    shell.write_file(file, table.concat(exchanges, '\n') .. '\n')
    local out, status = shell.run(('python3 tests/integration/support/openapi_check.py docs/openapi.json <%s 2>&1')
      :format(shell.quote(file)))
    assert.equal('', out)
    assert.equal(0, status)
  end)
end)
