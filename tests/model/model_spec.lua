-- Random scripts, and those that once failed, against the model of the specification.
-- Far more of them: make model TIME=10m
local Broker = require 'support.broker'
local generate = require 'model.generate'
local lfs = require 'lfs'
local run = require 'model.run'
local script = require 'model.script'

local LENGTH, FIXED = 80, { 1, 2, 3, 4, 5, 6 }

describe('the model of the specification', function()
  local pool = {}

  teardown(function() run.close(pool) end)

  -- AddressSanitizer wants to be loaded first; no other clock then.
  local function is_possible()
    if Broker.is_sanitized() then pending 'no other clock under AddressSanitizer' return false end
    return true
  end

  local function expect_as_the_model_says(seed)
    local window = generate.window(seed)
    local outcome = run.run(pool, window, generate.script(seed, LENGTH))
    if outcome.violation then
      error(('SEED=%d LENGTH=%d ONCE=1 make model repeats and shrinks it:\n%s'):format(
        seed, LENGTH, script.text(window, outcome)))
    end
    assert.is_true(#outcome.done > LENGTH / 2)
  end

  for _, seed in ipairs(FIXED) do
    it('is that of the broker in script ' .. seed, function()
      if is_possible() then expect_as_the_model_says(seed) end
    end)
  end

  it('is that of the broker in a script of chance', function()
    if is_possible() then expect_as_the_model_says(require 'support.seed') end
  end)

  for name in lfs.dir 'tests/model/found' do
    if name:find '%.txt$' then
      it('is that of the broker in ' .. name, function()
        if not is_possible() then return end
        local window, lines = script.read('tests/model/found/' .. name)
        local outcome = run.replay(pool, window, lines)
        assert(not outcome.violation, outcome.violation and script.text(window, outcome))
      end)
    end
  end

  it('has every verb, or says why not', function()
    local broker = Broker.start { args = { '--store', 'none' } }
    local c = broker:connect()
    c:send 'HELP\r\n'
    for verb in ('\n' .. c:expect_data()):gmatch '\n(%u+) ' do
      assert(generate.makers[verb] or generate.left_out[verb], verb .. ' is neither generated nor left out')
    end
    broker:destroy()
  end)

  it('does not take what a queue gives up for the copy that comes in its place', function()
    local spec = require('model.spec').new(1)
    local options = { ['max-length'] = '1', overflow = 'drop-head' }
    spec:request { client = 1, verb = 'DECLARE', words = { 'queue', 'q1' }, options = options, answer = 'OK' }
    local function seen(id)
      return { id = id, payload = 'm1', state = 'ready', exchange = 'fan', key = 'x', priority = 0, rank = 0,
        deliveries = 0, failures = 0 }
    end
    spec.add(spec, spec.queues.q1, seen 'a')
    spec.add(spec, spec.queues.q1, seen())
    spec:overflow()
    assert.matches('which it should not', spec:compare('q1', { seen 'a' }))
    assert.is_nil(spec:compare('q1', { seen 'b' }))
  end)

  it('notices a broker that is wrong', function()
    if not is_possible() then return end
    local lines = { 'c1 DECLARE queue q1', 'c1 PUB - q1 <m1>', 'c1 GET q1' }
    assert.is_nil(run.replay(pool, 16, lines).violation)
    local spec = require 'model.spec'
    local ack = spec.verbs.ACK
    spec.verbs.ACK = function() end -- a model in which ACK does nothing: the broker differs from it
    run.settle_seconds = 1
    lines[#lines + 1] = 'c1 ACK {tag:m1@q1}'
    local outcome = run.replay(pool, 16, lines)
    spec.verbs.ACK = ack
    assert.matches('queue q1 lacks m1, which should be unacked', outcome.violation)
  end)
end)
