-- What a message costs in a chain of five small filters: below 2 us (issue 3).
--
--   make build/luatide.so && lua5.4 tests/bench/filter_chain.lua
--
-- The best of many rounds, so that a busy machine does not count. Exit status 1
-- when it is over the limit.

package.path = "./tests/?.lua;" .. package.path
local support = require "lua.support.engine"

local LIMIT_NS <const> = 2000
local ROUNDS <const>, MESSAGES <const> = 50, 10000

local function filter(body)
  return "return { match = { exchange = 'orders', key = 'orders.#' }, publish = function(msg) " .. body .. " end }"
end

local dir = support.make_dir {
  ["filter/10-blocked.lua"] = filter "if msg.headers.blocked then return false, 'blocked' end",
  ["filter/20-size.lua"] = filter "if msg.size > 100000 then return false, 'too big' end",
  ["filter/30-tenant.lua"] = filter "if not msg.headers.tenant then return false, 'no tenant' end",
  ["filter/40-key.lua"] = filter "if msg.key == 'orders.old' then msg.key = 'orders.new' end",
  ["filter/50-priority.lua"] = filter "if msg.priority > 9 then msg.priority = 9 end",
}
local engine = support.open { rules = dir }
support.remove_dir(dir)

local function best_of(msg)
  local best = math.huge
  for _ = 1, ROUNDS do
    best = math.min(best, (assert(engine:filter_ns(msg, MESSAGES))))
  end
  return best
end

local headers = { tenant = "a", region = "eu" }
local chain = best_of { exchange = "orders", key = "orders.eu", payload = "hello", headers = headers }
local none = best_of { exchange = "other", key = "orders.eu", payload = "hello", headers = headers }
engine:close()
print(("a chain of five filters: %.0f ns a message (limit %d); none that matches: %.0f ns"):format(
  chain, LIMIT_NS, none))
os.exit(chain < LIMIT_NS)
