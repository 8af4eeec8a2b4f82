-- What a message costs in a chain of five small filters: below 2 us (issue 3), also when
-- two of them write a header.
--
--   make bench-rules
--
-- The best of many rounds, so that a busy machine does not count. Exit status 1
-- when a chain is over its limit.

package.path = "./tests/?.lua;" .. package.path
local support = require "lua.support.engine"

local LIMIT_NS <const> = 2000
local ROUNDS <const>, MESSAGES <const> = 50, 10000

local function filter(exchange, body)
  return ("return { match = { exchange = '%s', key = 'orders.#' }, publish = function(msg) %s end }"):format(
    exchange, body)
end

local files = {
  ["filter/10-blocked.lua"] = filter("looking", "if msg.headers.blocked then return false, 'blocked' end"),
  ["filter/20-size.lua"] = filter("looking", "if msg.size > 100000 then return false, 'too big' end"),
  ["filter/30-tenant.lua"] = filter("looking", "if not msg.headers.tenant then return false, 'no tenant' end"),
  ["filter/40-key.lua"] = filter("looking", "if msg.key == 'orders.old' then msg.key = 'orders.new' end"),
  ["filter/50-priority.lua"] = filter("looking", "if msg.priority > 9 then msg.priority = 9 end"),
}
for i = 1, 5 do
  local name = ("filter/7%d-mixed.lua"):format(i)
  files[name] = files[({ "filter/10-blocked.lua", "filter/20-size.lua", "filter/30-tenant.lua" })[i]]
  files[name] = files[name] and files[name]:gsub("looking", "mixed")
    or filter("mixed", ("msg.headers.h%d = 'v'"):format(i))
  files[("filter/6%d-write.lua"):format(i)] = filter("writing", ("msg.headers.h%d = 'v'"):format(i))
end
local dir = support.make_dir(files)
local engine = support.open { rules = dir }
support.remove_dir(dir)

local function best_of(exchange)
  local best = math.huge
  local msg = { exchange = exchange, key = "orders.eu", payload = "hello", headers = { tenant = "a", region = "eu" } }
  for _ = 1, ROUNDS do
    best = math.min(best, (assert(engine:filter_ns(msg, MESSAGES))))
  end
  return best
end

local is_over = false
for _, chain in ipairs {
  { "looking", "a message through five filters that look at it" },
  { "mixed", "the same, but two of them write a header" },
} do
  local ns = best_of(chain[1])
  is_over = is_over or ns >= LIMIT_NS
  print(("%-58s %10.0f ns, limit %d%s"):format(chain[2], ns, LIMIT_NS, ns >= LIMIT_NS and ": OVER" or ""))
end
print(("%-58s %10.0f ns"):format("the same, but all of them write one", best_of "writing"))
print(("%-58s %10.0f ns"):format("a message that no filter matches", best_of "other"))
engine:close()
os.exit(not is_over)
