-- The log: its formats, and lines that come again and again.
local Broker = require 'support.broker'
local json = require 'dkjson'

local FAILS = [[return { decide = function(m) error('no ' .. m.key) end }]]

local function start(...)
  return Broker.start { args = { '--store', 'none', ... }, rules = { ['retry/fails.lua'] = FAILS } }
end

local function lines(broker)
  local all = {}
  for line in broker:log():gmatch '([^\n]*)\n' do all[#all + 1] = line end
  return all
end

local function count(broker, pattern)
  local n = 0
  for _, line in ipairs(lines(broker)) do
    if line:find(pattern) then n = n + 1 end
  end
  return n
end

-- Each NACK is a line of the log.
local function fail(c, times)
  for i = 1, times do c:ok('PUB - q', 'm' .. i) end
  c:get('q max=' .. times)
  c:ok('NACK 1-' .. times)
end

local function connect(broker)
  local c = broker:connect()
  c:ok 'DECLARE queue q retry=fails shards=1'
  return c
end

describe('the log', function()
  it('is an object on each line with --log-format json', function()
    local broker = start('--log-format', 'json', '--log', 'debug')
    local c = connect(broker)
    c:ok 'DECLARE queue "\\ retry=fails shards=1'
    c:ok('PUB - "\\', 'm')
    c:get '"\\'
    c:ok 'NACK 1'
    broker:expect_log 'keeping the message'
    broker:write_rule('retry/other.lua', FAILS)
    c:document 'RULES reload'
    c:close()
    broker:expect_clean_stop()
    local seen = {}
    for _, line in ipairs(lines(broker)) do
      local entry = json.decode(line)
      assert.is_truthy(entry.time:find '^20%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$')
      assert.is_truthy(({ debug = true, info = true, warn = true, error = true })[entry.level])
      seen[entry.message] = entry
    end
    assert.equal('info', seen['SIGTERM: stopping'].level)
    assert.is_nil(seen['SIGTERM: stopping'].component)
    local warned, reload = 0, nil
    for message, entry in pairs(seen) do
      if message:find('queue \'"\\\': ', 1, true) == 1 then
        assert.equal('warn', entry.level)
        warned = warned + 1
      end
      if message:find '^generation 2 is active' then reload = entry end
    end
    assert.equal(1, warned)
    assert.equal('rules', reload.component)
  end)

  it('tells of an error of the start in text, whatever its format', function()
    local none, log, status = Broker.start {
      args = { '--log-format', 'json', '--store', 'wrong:' }, may_fail = true,
    }
    assert.is_nil(none)
    assert.equal(1, status)
    assert.is_truthy(log:find '^tidemq: ', log)
  end)

  it('refuses a format that it does not have', function()
    local none, log, status = Broker.start { args = { '--log-format', 'xml' }, may_fail = true }
    assert.is_nil(none)
    assert.equal(2, status)
    assert.is_truthy(log:find('--log-format must be text or json', 1, true) or log:find('text|json', 1, true), log)
  end)

  it('says how often a line was held back, and has others meanwhile', function()
    local broker = start()
    local c = connect(broker)
    fail(c, 500)
    broker:signal 'HUP'
    broker:expect_log 'rules: '
    assert.equal(10, count(broker, "queue 'q': .*keeping the message"))
    -- The period ends without any other line.
    broker:expect_log('keeping the message, next attempt in 5 s %(and 490 more lines like this in 10 s%)\n', 30)
    c:close()
    broker:expect_clean_stop()
    assert.equal(11, count(broker, "queue 'q': "))
  end)

  it('says so at the end of the broker at the latest', function()
    local broker = start('--log-format', 'json')
    local c = connect(broker)
    fail(c, 30)
    c:close()
    broker:expect_clean_stop()
    local all = lines(broker)
    local last = json.decode(all[#all])
    assert.equal('warn', last.level)
    assert.is_truthy(last.message:find('(and 20 more lines like this in 10 s)', 1, true), last.message)
  end)
end)
