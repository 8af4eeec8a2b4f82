-- The crash matrix of queues: see support/matrix.lua for what happens and for the variables that
-- choose, support/life.lua for what is checked.
local Life = require 'chaos.support.life'
local Matrix = require 'chaos.support.matrix'

describe('a broker and its Redis keep every promise (TIDE_TEST_SEED=' .. Matrix.seed .. ')', function()
  local matrix, count

  setup(function()
    matrix = Matrix.start(Life)
    count = matrix:count()
  end)

  teardown(function() matrix:destroy() end)

  it('when the connection between them ends at a command', function() matrix:expect_survival('connection', count) end)
  it('when the broker is killed at a command', function() matrix:expect_survival('broker', count) end)
  it('when Redis is killed at a command', function() matrix:expect_survival('redis', count) end)
end)
