-- Candidate rules that decide in earnest for a share of the keys: RULES shadow … apply=.
local Broker = require 'support.broker'
local Http = require 'support.http'

-- A filter that marks what it has seen with its own name and a count that outlives its rules.
local function mark(name)
  return ([[
return { match = {}, publish = function(msg)
  if msg.headers.fail and "%s" == "next" then error "no" end
  msg.headers.rules = "%s"
  msg.headers.count = tostring(tide.shared.incr("count"))
  if msg.headers.copy then msg:copy { exchange = "-", key = "copies", headers = { copy = false } } end
end }
]]):format(name, name)
end

describe('RULES shadow with apply', function()
  local broker, c, dir

  setup(function()
    broker = Broker.start {
      rules = { ['filter/mark.lua'] = mark 'now', ['retry/mine.lua'] = 'return { decide = function() return 0 end }' },
      args = { '--fsync', 'no' }, http = '127.0.0.1:0',
    }
    dir = broker:copy_rules('next', { ['filter/mark.lua'] = mark 'next',
      ['retry/mine.lua'] = 'return { decide = function() return tide.BURY end }' })
  end)
  teardown(function() broker:expect_clean_stop() end)
  before_each(function()
    c = broker:enter_vhost()
    c:ok 'DECLARE queue q'
    c:ok 'DECLARE queue copies'
    c:ok 'DECLARE exchange x fanout'
    c:ok 'BIND q x -'
  end)
  after_each(function()
    c:request 'RULES shadow drop'
    c:close()
  end)

  -- The rules that decided, by the key, of 200 keys that are each published twice.
  local function deciders()
    local by = {}
    for _ = 1, 2 do
      for i = 1, 200 do c:send(('PUB x k%d h:customer=c%d 1\r\nx\r\n'):format(i, i % 20)) end
      for _ = 1, 200 do c:expect '^OK' end
    end
    for _, m in ipairs(c:get 'q max=400 ack=auto') do
      assert.is_true(by[m.key] == nil or by[m.key] == m.headers.rules, m.key .. ' met both')
      by[m.key] = m.headers.rules
    end
    return by
  end
  local function count(by)
    local n = 0
    for _, rules in pairs(by) do n = n + (rules == 'next' and 1 or 0) end
    return n
  end

  it('decides for a share of the keys, and a larger share has those of the smaller one', function()
    local status = c:document('RULES shadow ' .. dir .. ' share=20% apply=key')
    assert.same({ true, 'key', 0.2 }, { status.active, status.apply, status.share })
    local few = deciders()
    assert.is_true(count(few) > 10 and count(few) < 80, count(few))
    assert.equal(2 * count(few), c:document 'RULES shadow status'.decided)
    c:document('RULES shadow ' .. dir .. ' share=60% apply=key')
    local many = deciders()
    assert.is_true(count(many) > count(few))
    for key, rules in pairs(few) do assert.is_true(rules == 'now' or many[key] == 'next') end
    c:document('RULES shadow ' .. dir .. ' share=100% apply=key')
    assert.equal(200, count(deciders()))
    c:document 'RULES shadow promote'
    assert.equal(200, count(deciders()))
    broker:connect():document 'RULES rollback'
  end)

  it('goes by a header, and leaves messages without it to the active rules', function()
    c:document('RULES shadow ' .. dir .. ' share=50% apply=h:customer')
    local customers = {}
    for key, rules in pairs(deciders()) do
      local customer = tonumber(key:match '%d+') % 20
      assert.is_true(customers[customer] == nil or customers[customer] == rules)
      customers[customer] = rules
    end
    c:document('RULES shadow ' .. dir .. ' share=100% apply=h:customer')
    c:publish('q', 'x')
    c:publish('q h:customer=1', 'x')
    local got = c:get 'q max=2 ack=auto'
    assert.same({ 'now', 'next' }, { got[1].headers.rules, got[2].headers.rules })
    -- What scripts keep is one thing for both.
    assert.equal(tonumber(got[1].headers.count) + 1, tonumber(got[2].headers.count))
    assert.is_true(c:document('EXPLAIN - q h:customer=1').canary)
    assert.is_nil(c:document('EXPLAIN - q').canary)
  end)

  it('may follow a comparison, and takes the retry script too', function()
    c:ok 'DECLARE queue r retry=mine'
    c:document('RULES shadow ' .. dir .. ' share=100%')
    c:publish('r', 'x')
    assert.equal('now', c:get 'r ack=auto'[1].headers.rules)
    assert.is_true(c:document 'RULES shadow status'.compared > 0)
    c:document('RULES shadow ' .. dir .. ' share=100% apply=key')
    c:publish('r', 'x')
    local m = c:get 'r'[1]
    assert.equal('next', m.headers.rules)
    c:ok('NACK ' .. m.tag)
    assert.equal(1, c:stats 'r'.buried)
  end)

  it('leaves a message to the active rules when a script fails, and stops after twenty', function()
    c:document('RULES shadow ' .. dir .. ' share=100% apply=key')
    for _ = 1, 3 do c:publish('q h:fail=1', 'x') end
    c:publish('q', 'x')
    local got = c:get 'q max=10 ack=auto'
    assert.same({ 'now', 'now', 'now', 'next' }, { got[1].headers.rules, got[2].headers.rules, got[3].headers.rules,
      got[4].headers.rules })
    local status = c:document 'RULES shadow status'
    assert.same({ 3, 1, false }, { status.failed, status.decided, status.stopped })
    for _ = 1, 30 do c:publish('q h:fail=1', 'x') end
    assert.equal(30, #c:get 'q max=100 ack=auto')
    status = c:document 'RULES shadow status'
    assert.same({ 20, true }, { status.failed, status.stopped })
    c:publish('q', 'x')
    assert.equal('now', c:get 'q ack=auto'[1].headers.rules)
    c:document('RULES shadow ' .. dir .. ' share=100% apply=key')
    c:publish('q', 'x')
    assert.equal('next', c:get 'q ack=auto'[1].headers.rules)
  end)

  it('decides in transactions, and gives copies ids of their own', function()
    c:document('RULES shadow ' .. dir .. ' share=100% apply=key')
    c:publish('q h:copy=1', 'x')
    local copy, message = c:get 'copies ack=auto'[1], c:get 'q ack=auto'[1]
    assert.not_equal(message.options.id, copy.options.id)
    assert.equal('next', copy.headers.rules)
    c:ok 'BEGIN'
    c:ok('PUB - q', 'x')
    c:ok('PUB - q h:fail=1', 'x')
    c:ok 'COMMIT'
    local got = c:get 'q max=10 ack=auto'
    assert.same({ 'next', 'now' }, { got[1].headers.rules, got[2].headers.rules })
  end)

  it('refuses what it does not know, and other rules', function()
    assert.matches('^ERR syntax apply=user: expected key or h:<name>',
      c:request('RULES shadow ' .. dir .. ' apply=user'))
    c:document('RULES shadow ' .. dir .. ' share=1% apply=key')
    assert.matches('^ERR exists', c:request('RULES shadow ' .. dir .. ' share=1%'))
    local other = broker:copy_rules('other', {})
    assert.matches('^ERR exists', c:request('RULES shadow ' .. other .. ' share=1% apply=key'))
    c:ok 'RULES shadow drop'
    c:publish('q', 'x')
    assert.equal('now', c:get 'q ack=auto'[1].headers.rules)
  end)

  it('is begun by HTTP and by the command line', function()
    local http = Http.connect(broker)
    local answer = http:post('/api/rules/shadow', { dir = dir, share = '100%', apply = 'key' })
    assert.same({ 200, 'key' }, { answer.status, answer.json.apply })
    local text, status = broker:cli('rules', 'shadow', dir, '--share', '50%', '--apply', 'h:customer')
    assert.equal(0, status, text)
    assert.equal('h:customer', c:document 'RULES shadow status'.apply)
  end)
end)
