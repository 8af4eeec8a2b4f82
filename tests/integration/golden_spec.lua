-- What the broker says of itself, word for word: a change of a document, a metric or HELP shows as a change of a
-- file in tests/cases/golden. `UPDATE=1 busted tests/integration/golden_spec.lua` writes the files anew.
local Broker = require 'support.broker'
local Http = require 'support.http'
local shell = require 'support.shell'
local wait = require 'support.wait'

local LISTS = {
  'exchanges', 'queues', 'topics', 'groups', 'bindings', 'consumers', 'connections', 'locks', 'vhosts', 'brokers',
}

local DIR = 'tests/cases/golden/'

-- Members whose values differ from run to run, in documents whose other numbers do not.
local VOLATILE = {}
for name in ([[oldest_ready_ms oldest_lease_ms in_1s in_10s in_60s out_1s out_10s out_60s lag_ms since until at last
  last_ms lapses connection pending output token bytes bytes_in bytes_out
  clients]]):gmatch '%S+' do VOLATILE[name] = true end

-- A member a line: a difference is short.
local function broken(text)
  return (text:gsub('([{%[,])(["{])', '%1\n%2'))
end

local function without_volatile(text)
  text = text:gsub('"peer":"[^"]*"', '"peer":"…"'):gsub('"id":"%x+"', '"id":"…"')
  return (text:gsub('"([%w_]+)":%-?[%d.]+', function(name)
    return VOLATILE[name] and ('"%s":N'):format(name) or nil
  end))
end

local function without_numbers(text)
  text = text:gsub('"(%w+)":"[^"]*"', function(name)
    return (name == 'version' or name == 'address') and ('"%s":"…"'):format(name) or nil
  end)
  -- The steps of a tally are there when something fell into them.
  return (text:gsub(':%-?[%d.]+', ':N'):gsub('"steps":%b[]', '"steps":[]'))
end

-- Each line once.
local function distinct(text)
  local lines, seen = {}, {}
  for line in text:gmatch '[^\n]+' do
    if not seen[line] then lines[#lines + 1] = line end
    seen[line] = true
  end
  return table.concat(lines, '\n')
end

-- Without the values of series and labels.
local function metric_shape(text)
  return distinct((text:gsub('[^\n]+', function(line)
    return line:match '^#.*' or (line:gsub('[^ ]+$', ''):gsub('=".-"', ''))
  end)))
end

local function compare(name, text)
  local path = DIR .. name
  text = text .. '\n'
  if os.getenv 'UPDATE' then shell.write_file(path, text) end
  assert.equal(shell.read_file(path), text)
end

-- Something of each kind, in a state that no clock changes.
local SCENE = {
  'DECLARE exchange orders topic', 'DECLARE exchange all fanout alternate=orders',
  'DECLARE queue jobs shards=2 max-bytes=1000000', 'DECLARE queue ordered order-by=key durable=0',
  'DECLARE queue plain', 'DECLARE topic events partitions=2', 'BIND jobs orders orders.#',
  'BIND plain all #',
}

local function set_scene(c)
  for _, request in ipairs(SCENE) do c:ok(request) end
  for i = 1, 6 do c:ok('PUB orders orders.eu', 'job ' .. i) end
  c:ok('PUB orders nowhere', 'lost')
  for _ = 1, 2 do c:ok('PUB - ordered', 'one after the other') end
  for i = 1, 3 do c:ok('PUB - events', 'event ' .. i) end
  c:ok('PUB - plain delay=1h', 'later')
  c:ok 'GET jobs max=3'
  for _ = 1, 3 do c:expect_msg() end
  c:ok 'ACK 1'
  c:ok 'NACK 2 bury'
  c:ok 'PAUSE plain out'
  c:ok 'SUB plain s1 prefetch=5'
  c:ok 'LOCK nightly ttl=1h'
  c:ok 'SUB events s2 group=billing prefetch=2 from=first'
  c:expect '^EVT assigned s2'
  for _ = 1, 2 do c:expect_msg() end
end

-- What differs from one machine to the next.
local function without_place(text)
  return (text:gsub("'[^' ]+/gone'", "'…/gone'"):gsub('%f[%x]' .. ('%x'):rep(16) .. ' %(active%)', '… (active)'))
end

describe('what the broker says of itself', function()
  local broker, c, http

  setup(function()
    broker = Broker.start { http = '127.0.0.1:0', args = { '--fsync', 'no' } }
    http = Http.connect(broker)
    http:expect(200, 'GET', '/health/live') -- accepted before the other one
    c = broker:connect()
    c:enter_vhost('golden', 'name=golden')
    set_scene(c)
  end)
  teardown(function()
    http:close()
    c:close()
    broker:expect_clean_stop()
  end)

  local function text_of(request)
    c:send(request .. '\r\n')
    return (c:expect_data())
  end

  for _, what in ipairs(LISTS) do
    it('LIST ' .. what, function()
      compare('list_' .. what .. '.txt', broken(without_volatile(text_of('LIST ' .. what))))
    end)
  end

  it('LIST history, now', function()
    compare('list_now.txt', broken((text_of('LIST now'):gsub(':[%w.-]+', ':N'))))
    compare('list_history.txt', broken((text_of('LIST history'):gsub('"rows":.*', ''))))
  end)

  it('which keys there are to sort by', function()
    local lines = {}
    for _, what in ipairs(LISTS) do
      c:send('LIST ' .. what .. ' sort=?\r\n')
      lines[#lines + 1] = what .. ': ' .. c:read_line()
    end
    compare('sort.txt', table.concat(lines, '\n'))
  end)

  for name, request in pairs {
    queue = 'STATS jobs', ordered = 'STATS ordered', plain = 'STATS plain', topic = 'STATS events',
    exchange = 'STATS exchange orders', default = 'STATS exchange -',
  } do
    it(request, function() compare('stats_' .. name .. '.txt', broken(without_volatile(text_of(request)))) end)
  end

  it('STATS, RULES status, HELP', function()
    -- Redis tells how much memory it has after the first question.
    assert(wait.poll(function() return text_of('STATS'):find '"store":{.*"memory_bytes"' end))
    compare('stats.txt', broken(without_numbers(text_of 'STATS')))
    compare('rules_status.txt', distinct((broken(without_numbers(text_of 'RULES status')):gsub(':"[^"\n]*"', ':"…"')
      :gsub('"histogram":[%d,%[%]]*%]', '"histogram":[]'))))
    compare('help.txt', text_of 'HELP')
  end)

  it('/metrics, each queue and each vhost', function()
    local text
    assert(wait.poll(function()
      text = http:get('/metrics').body
      return text:find '\ntidemq_store_memory_bytes '
    end))
    compare('metrics.txt', metric_shape(text))
    compare('metrics_vhost.txt', metric_shape(http:get('/metrics?per=vhost').body))
  end)

  -- A missing word, a bad value, an unknown option, a name that is not there. The golden file has the requests, too:
  -- to add one, write a line "<request>: " and run with UPDATE=1.
  local function compare_answers(name, ask)
    local lines = {}
    for request in shell.read_file(DIR .. name):gmatch '([^\n]-): [^\n]*' do
      lines[#lines + 1] = request .. ': ' .. without_place(ask(request))
    end
    compare(name, table.concat(lines, '\n'))
  end

  it('wrong usage of administrative verbs', function()
    compare_answers('wrong_line.txt', function(request)
      c:send(request .. '\r\n')
      return c:read_line()
    end)
  end)

  it('wrong usage over HTTP', function()
    compare_answers('wrong_http.txt', function(request)
      local method, path, body = request:match '^(%S+) (%S+) ?(.*)$'
      path = path:gsub('^@', '/api/vhosts/golden'):gsub('^%$', '/api/vhosts/golden/queues/')
      local answer = http:request(method, path, body ~= '' and body or nil, { ['Content-Type'] = 'application/json' })
      return ('%d %s'):format(answer.status, (answer.body:gsub('\n$', '')))
    end)
  end)
end)
