-- A turn of the event loop that takes long: the log says what it did.
local Broker = require 'support.broker'

-- Runs for ever, until its time is over; the publish is refused by then.
local BURN = [[
return {
  match = { exchange = "burn" },
  publish = function(msg)
    while true do end
  end,
}
]]

local function start(...)
  return Broker.start {
    args = { '--store', 'none', '--rules-budget', '60ms', ... }, rules = { ['filter/50-burn.lua'] = BURN },
  }
end

local function burn(c)
  c:ok 'DECLARE exchange burn topic'
  assert.matches('^ERR rule', c:request('PUB burn k', 'x'))
end

describe('a turn of the event loop', function()
  it('that takes long is in the log, with its parts, the connection and the script', function()
    local broker = start('--slow-turn', '50ms')
    local c = broker:connect()
    burn(c)
    local took, requests, by, longest, scripts, script = broker:expect_log(
      'warn  loop: a turn took (%d+)%.%d ms: [^;]*requests (%d+)%.%d ms[^;]*; the longest: connection (%d+), ' ..
      '(%d+)%.%d ms; scripts in all (%d+)%.%d ms, a call of filter/50%-burn%.lua (%d+)%.%d ms\n')
    assert.equal('1', by)
    for _, ms in ipairs { took, requests, longest, scripts, script } do assert.is_true(tonumber(ms) >= 50) end
    local stats = c:document 'STATS'
    assert.is_true(stats.slow_turns >= 1)
    assert.is_true(stats.loop.max_us >= 50000)
    c:close()
    broker:expect_clean_stop()
  end)

  it('names the request that took longest', function()
    local broker = start('--slow-turn', '50ms')
    local c = broker:connect()
    c:ok 'DECLARE exchange burn topic'
    c:send(('PING\r\n'):rep(20) .. 'EXPLAIN burn k\r\n')
    for _ = 1, 20 do c:expect_line 'OK' end
    assert.matches('budget', c:expect_json().error)
    broker:expect_log 'loop: a turn took .* the longest: EXPLAIN of connection 1, %d+%.%d ms'
    c:close()
    broker:expect_clean_stop()
  end)

  it('is not told with --slow-turn 0', function()
    local broker = start('--slow-turn', '0')
    local c = broker:connect()
    burn(c)
    assert.equal(0, c:document('STATS').slow_turns)
    c:close()
    broker:expect_clean_stop()
    assert.is_nil(broker:log():find('loop:', 1, true))
  end)
end)
