-- What a metric costs a rule: at most 0.2 us for one that was made while the file was
-- loaded (issue 14).
--
--   make bench-rules
--
-- The best of some rounds, without the loop around the calls. Exit status 1 above a limit.

package.path = "./tests/?.lua;" .. package.path
local support = require "lua.support.engine"

local CALLS <const>, ROUNDS <const>, LIMIT_NS <const> = 100000, 7, 200

local rows = {
  { "counter:incr() of a counter with a label", "c:incr()", LIMIT_NS },
  { "gauge:set(n) of a gauge with a label", "g:set(i)", LIMIT_NS },
  { "histogram:observe(n) with ten buckets", "h:observe(i % 1000)", LIMIT_NS },
  { "a counter with a label of the message", 'tide.counter("by", { a = msg.key, b = "x" }):incr()' },
  { "tide.shared.incr(key)", 'tide.shared.incr("k")' },
}
local code = {}
for i, row in ipairs(rows) do
  code[i] = ("function(msg) for i = 1, %d do %s end end"):format(CALLS, row[2])
end
local dir = support.make_dir { ["sharding/s.lua"] = ([[
  local c, g = tide.counter("c", { a = "x" }), tide.gauge("g", { a = "x" })
  local h = tide.histogram("h", { buckets = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000 } })
  local runs = { %s, function() for i = 1, %d do end end }
  return { pick = function(msg) runs[tonumber(msg.key)](msg) return 0 end }]]):format(table.concat(code, ", "), CALLS) }
local engine = support.open { rules = dir, budget_ms = 5000 }
local strategy = assert(engine:strategy("sharding", "s"))

local function best_ns(number)
  local best = math.huge
  for _ = 1, ROUNDS do
    local began = os.clock()
    assert(strategy:pick({ key = tostring(number) }, 1000000))
    best = math.min(best, os.clock() - began)
  end
  return best / CALLS * 1e9
end

local empty, is_over = best_ns(#rows + 1), false
for i, row in ipairs(rows) do
  local ns, limit = best_ns(i) - empty, row[3]
  is_over = is_over or limit and ns >= limit
  print(("%-58s %10.0f ns%s%s"):format(row[1], ns, limit and (", limit %d"):format(limit) or "",
    limit and ns >= limit and ": OVER" or ""))
end
strategy:close()
engine:close()
support.remove_dir(dir)
os.exit(not is_over)
