-- /health: what a probe is told.
local Broker = require 'support.broker'
local Http = require 'support.http'
local users = require 'support.users'
local wait = require 'support.wait'

describe('/health/ready', function()
  local broker, http

  local function start(options)
    options.http = '127.0.0.1:0'
    broker = Broker.start(options)
    http = Http.connect(broker)
  end

  after_each(function()
    if not broker then return end
    broker:expect_clean_stop()
    broker:destroy()
    broker = nil
  end)

  local function becomes(status, list, code)
    local answer
    local found = wait.poll(function()
      answer = http:get '/health/ready'
      local first = answer.json[list][1]
      return answer.status == status and (first and first.code) == code
    end)
    assert.is_truthy(found, answer.body)
    assert.equal(status == 200, answer.json.ready)
    assert.same({ live = true }, http:expect(200, 'GET', '/health/live'))
    return answer.json[list][1] and answer.json[list][1].text
  end

  it('says that Redis is away, and when it is back', function()
    start { redis = {} }
    assert.same({ ready = true, reasons = {}, warnings = {} }, http:expect(200, 'GET', '/health/ready'))
    broker.redis:signal 'KILL'
    assert.equal('Redis is away: durable changes wait for it; see whether it runs, the log says more',
      becomes(503, 'reasons', 'store'))
    broker.redis:run()
    becomes(200, 'reasons', nil)
  end)

  it('says that publishes are refused, or held back', function()
    start { args = { '--store', 'none', '--max-memory', '1M' } }
    local c = broker:connect()
    c:ok 'DRAIN'
    assert.equal('publishes are refused (DRAIN)', becomes(503, 'reasons', 'draining'))
    c:ok 'DRAIN off'
    becomes(200, 'reasons', nil)
    c:ok 'DECLARE queue jobs'
    c:send(('PUB - jobs 100000\r\n' .. ('x'):rep(100000) .. '\r\n'):rep(12))
    assert.matches('^publishers are held back: messages fill %d+ MiB of memory$', becomes(503, 'reasons', 'blocked'))
  end)

  it('warns of rules that were refused, and tells no stranger what is in them', function()
    broker = Broker.start { http = '127.0.0.1:0', redis = {}, rules = {}, stopped = true }
    users.restore(broker.redis, { anna = {} })
    broker:run()
    http = Http.connect(broker)
    broker:write_rule('routing/mine.lua', 'this is no Lua')
    local text = becomes(200, 'warnings', 'rules')
    assert.matches('^the rules that were loaded last were refused, and generation %x+ serves: RULES status', text)
    assert.is_nil(text:find('mine', 1, true))
    broker:remove_rule 'routing/mine.lua'
    becomes(200, 'warnings', nil)
  end)

  it('warns when the last good generation serves since the start', function()
    start { rules = {} }
    broker:expect_clean_stop()
    broker:write_rule('routing/mine.lua', 'this is no Lua')
    broker:run()
    http = Http.connect(broker)
    becomes(200, 'warnings', 'rules')
  end)
end)
