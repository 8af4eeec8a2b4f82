-- A busy broker on a real Redis Cluster whose masters die, hand over, and give a slot away: what `make chaos
-- STORE=cluster` does for longer, and at random. An OK says that a replica has it.
local Place = require 'chaos.support.place'
local faults = require 'chaos.support.faults'
local seed = require 'support.seed'

describe('a broker on a Redis Cluster', function()
  local place, figures

  setup(function()
    math.randomseed(seed)
    figures = {}
    place = Place.new(figures, { store = 'cluster', confirm = 'replicas=1' })
  end)
  teardown(function() place:destroy() end)

  --- What the ledger raises is a table.
  local function keeps(promises, ...)
    local ok, err = xpcall(promises, function(e)
      return type(e) == 'table' and e.broken .. '\n' .. place.broker:log():sub(-3000) or debug.traceback(e)
    end, ...)
    assert(ok, err)
  end

  local function hurt(name)
    local fault = assert(faults[name], name)
    place:connect()
    place:work(10)
    fault.begin(place)
    place:work_for(fault.seconds / 2)
    if fault.finish then fault.finish(place) end
    place:start()
    place:work(10)
    place:close()
  end

  for _, name in ipairs {
    'CLUSTER FAILOVER', 'a slot that stays open', 'kill -9 of a master and the broker', 'a slot that moves',
    'kill -9 of a master of three',
  } do
    it('goes on after ' .. name, function() keeps(hurt, name) end)
  end

  it('has lost nothing, and gives nothing again that was acknowledged', function()
    keeps(place.drain, place)
    assert.is_true(figures.confirmed > 100 and figures['log confirmed'] > 100)
  end)
end)
