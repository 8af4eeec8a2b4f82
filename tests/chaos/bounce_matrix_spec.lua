-- The crash matrix of a Redis Cluster: each command in turn is answered as by a master that has not its slot, or whose
-- slot is being moved; see support/matrix.lua for the variables that choose, support/life.lua for what is checked.
local Life = require 'chaos.support.life'
local LogLife = require 'chaos.support.log_life'
local Matrix = require 'chaos.support.matrix'

for name, life in pairs { queues = Life, topics = LogLife } do
  describe(('a broker on a Redis Cluster keeps every promise about %s (TIDE_TEST_SEED=%s)'):format(name, Matrix.seed),
    function()
      local matrix, count

      setup(function()
        matrix = Matrix.start(life, true)
        count = matrix:count()
      end)

      teardown(function() matrix:destroy() end)

      for _, what in ipairs { 'moved', 'ask', 'tryagain', 'clusterdown', 'carried' } do
        it('when a command is answered: ' .. what, function() matrix:expect_survival(what, count) end)
      end
    end)
end
