-- docs/stomp.md: every session happens as it is written, and every header that the broker
-- knows is in it.
local Broker = require 'support.broker'
local Stomp = require 'support.stomp'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/stomp.md'

local from_broker = { CONNECTED = true, MESSAGE = true, RECEIPT = true, ERROR = true }

--- The sessions, with the heading that each stands under.
local function sessions()
  local all, heading, at = {}, 'the beginning', 1
  while true do
    local from, to, text = doc:find('\n```stomp\n(.-\n)```\n', at)
    if not from then return all end
    for name in doc:sub(at, from):gmatch '\n## ([^\n]+)' do heading = name end
    all[#all + 1] = { heading = heading, text = text }
    at = to
  end
end

--- What differs from run to run: the id of a message, and the number of a connection.
local ID, PRIVATE = '%f[%x]' .. ('%x'):rep(16) .. '%-%d+%-', 'stomp%-temp%-%d+%-%d+'

local function normalize(line)
  if line:find '^reason:' then line = line:gsub("vhost 'doc%-%d+'", "vhost '/'") end
  return (line:gsub('^timestamp:%d+$', 'timestamp:N'):gsub('^session:%d+$', 'session:N')
    :gsub(ID, 'ID-'):gsub(PRIVATE, 'stomp-temp'))
end

local function play(text, broker)
  local c
  if not text:find '^CONNECT' and not text:find '^STOMP' then
    local vhost = ('doc-%d'):format(math.random(1, 1 << 40))
    broker:connect():ok('DECLARE vhost ' .. vhost)
    c = Stomp.connect(broker, { host = vhost })
  else
    c = Stomp.open(broker)
  end
  local private, ids = nil, {} -- of this run
  for frame in text:gmatch '(.-)%^@\n' do
    local command = frame:match '^%u+'
    if not from_broker[command] then
      c:send((frame:gsub(PRIVATE, function() return private end):gsub(ID, ids)) .. '\0')
    else
      local got = c:expect(command)
      -- The vhost is new, and what depends on the length of its name.
      got.body = got.body:gsub("vhost 'doc%-%d+'", "vhost '/'")
      local head, body = frame:match '^%u+\n(.-)\n\n(.*)$'
      local wanted, lines = {}, {}
      for line in head:gmatch '[^\n]+' do wanted[#wanted + 1] = normalize(line) end
      for i, line in ipairs(got.order) do
        lines[i] = normalize((line:gsub('^content%-length:.*', 'content-length:' .. #got.body)))
        if line:find '^ack:' then ids[head:match('\nack:(' .. ID .. ')')] = line:match(ID) end
        private = private or line:match(PRIVATE)
      end
      assert.same(wanted, lines)
      assert.equal(body, got.body)
    end
  end
  if text:find 'DISCONNECT' or text:find '\nERROR\n' then
    assert.is_nil(c:read())
    assert.is_true(c.is_closed)
  elseif c.version or not text:find 'accept%-version:1%.0,1%.1' then
    c:expect_nothing()
  end
  c:close()
end

describe('a session in docs/stomp.md', function()
  local broker
  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' } } end)
  teardown(function() if broker then broker:destroy() end end)

  for _, s in ipairs(sessions()) do
    it('under ' .. s.heading .. ' happens as it is written', function() play(s.text, broker) end)
  end

  it('is there for most of them', function() assert.is_true(#sessions() >= 6) end)
end)

describe('docs/stomp.md', function()
  it('has every header that the broker knows', function()
    local source = shell.read_file 'core/proto/stomp/stomp_frame.c'
    local count = 0
    for name in source:gmatch '{ "([%l-]+)",%s*STOMP_H_' do
      count = count + 1
      assert.is_truthy(doc:find('`' .. name .. '`', 1, true), name)
    end
    assert.is_true(count >= 29)
  end)

  it('has every header of SUBSCRIBE that is another\'s', function()
    local source = shell.read_file 'core/proto/stomp/stomp_subscribe.c'
    for name in source:gmatch '"(x%-[%l-]+)"' do assert.is_truthy(doc:find('`' .. name .. '`', 1, true), name) end
  end)

  it('has every command', function()
    local source = shell.read_file 'core/proto/stomp/stomp_frame.c':match 'names%[%] = (%b{})'
    for name in source:gmatch '"(%u+)"' do assert.is_truthy(doc:find('`' .. name .. '`', 1, true), name) end
  end)
end)
