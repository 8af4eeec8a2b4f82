-- A turn of the event loop that takes long: the log says what it did.
local Broker = require 'support.broker'

-- Runs for the milliseconds in the key.
local BURN = [[
return {
  match = { exchange = "burn" },
  publish = function(msg)
    local n = 0
    for i = 1, tonumber(msg.key) * 20000 do n = n + i % 7 end
  end,
}
]]

local function start(...)
  return Broker.start { args = { '--store', 'none', '--rules-budget', '10s', ... }, rules = { ['filter/50-burn.lua'] = BURN } }
end

describe('a turn that takes long', function()
  it('is in the log, with its parts, the connection and the script', function()
    local broker = start('--slow-turn', '20ms')
    local c = broker:connect()
    local number = c:document('HELLO').connection
    c:ok 'DECLARE exchange burn topic'
    c:ok('PUB burn 300', 'x') for i=1,20000 do c:send('DECLARE queue q'..i..' quiet\r\n') end c:ok 'PING' c:document 'LIST queues' c:document 'STATS'
    broker:expect_clean_stop()
    print(broker:log())
  end)
end)
