-- The crash matrix: see support/matrix.lua for what happens, support/life.lua for what is
-- checked. A part of the points is taken by chance; `make matrix` takes all.
--
--   TIDE_MATRIX_SEED   which points, and in which order; printed when one fails
--   TIDE_MATRIX_SHARE  one point in so many; default 10
--   TIDE_MATRIX_PART   i/n: of these, the i-th of n parts, for n processes side by side
--   TIDE_MATRIX_POINT  one point alone, as a fault names it: '137 before broker'
local Matrix = require 'chaos.support.matrix'
local wait = require 'support.wait'

local seed = tonumber(os.getenv 'TIDE_MATRIX_SEED') or os.time() % 1000000
local share = tonumber(os.getenv 'TIDE_MATRIX_SHARE') or 10
local part, parts = (os.getenv 'TIDE_MATRIX_PART' or '1/1'):match '^(%d+)/(%d+)$'
local only = os.getenv 'TIDE_MATRIX_POINT'

--- The points of a life with so many commands, in an order that the seed gives.
local function shuffled_points(count, what)
  local points = {}
  for at = 1, count do
    points[#points + 1] = { at = at, when = 'before', what = what }
    points[#points + 1] = { at = at, when = 'after', what = what }
  end
  for i = #points, 2, -1 do
    local j = math.random(i)
    points[i], points[j] = points[j], points[i]
  end
  return points
end

local function chosen(count, what)
  if only then
    local at, when, its_what = only:match '^(%d+) (%l+) (%l+)$'
    return its_what == what and { { at = tonumber(at), when = when, what = what } } or {}
  end
  math.randomseed(seed)
  local points, mine = shuffled_points(count, what), {}
  for i = 1, #points, share do
    if (i // share) % tonumber(parts) == tonumber(part) - 1 then mine[#mine + 1] = points[i] end
  end
  return mine
end

describe('a broker and its Redis keep every promise (TIDE_MATRIX_SEED=' .. seed .. ')', function()
  local matrix, count

  setup(function()
    matrix = Matrix.start()
    count = matrix:count()
  end)

  teardown(function() matrix:destroy() end)

  local function survives(what)
    local faults = {}
    local points = chosen(count, what)
    local said = wait.deadline(5)
    for i, point in ipairs(points) do
      local fault = matrix:run(point)
      if fault then
        faults[#faults + 1] = ('TIDE_MATRIX_POINT="%d %s %s": %s'):format(point.at, point.when, what, fault)
      end
      if os.getenv 'TIDE_MATRIX_PROGRESS' and wait.left(said) == 0 then
        io.stderr:write(('part %s: %s: %d of %d points, %d faults\n'):format(part, what, i, #points, #faults))
        said = wait.deadline(5)
      end
    end
    assert(#faults == 0, ('%d of %d points (of %d commands):\n%s'):format(#faults, #points, count,
      table.concat(faults, '\n')))
  end

  it('when the connection between them ends at a command', function() survives 'connection' end)
  it('when the broker is killed at a command', function() survives 'broker' end)
  it('when Redis is killed at a command', function() survives 'redis' end)
end)
