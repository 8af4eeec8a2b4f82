-- What 1 KB of JSON costs a filter: read whole, by a field, by all fields, written.
--
--   make bench-rules
--
-- The best of many rounds, so that a busy machine does not count. Exit status 1 when it
-- is over its limit.

package.path = "./tests/?.lua;" .. package.path
local support = require "lua.support.engine"

local ROUNDS <const>, MESSAGES <const> = 30, 5000
local LIMIT_NS <const> = 10000 -- 532,000 in a decoder written in Lua

local ORDER <const> = [[
{"id":184467440737%03d,"type":"order.placed","version":3,"placed":"2026-03-14T09:26:53Z",
"currency":"EUR","total":1249.90,"paid":true,"coupon":null,"customer":{"id":"c-102938",
"name":"Grete Example","email":"grete@example.org","country":"DE","tier":"gold","since":2011,
"tags":["newsletter","b2c","returns-low"]},"shipping":{"method":"express",
"address":{"street":"Lange Gasse 12","city":"Augsburg","zip":"86152","country":"DE"},
"weight_kg":3.25,"insured":false},"items":[{"sku":"A-1001","name":"Desk lamp","qty":2,"price":49.95,
"tax":0.19},{"sku":"B-2002","name":"Office chair","qty":1,"price":899.00,"tax":0.19},
{"sku":"C-3003","name":"Cable tray","qty":4,"price":12.50,"tax":0.19},{"sku":"D-4004",
"name":"Monitor arm","qty":1,"price":201.00,"tax":0.19}],"meta":{"source":"web","ip":"192.0.2.17",
"session":"9f8e7d6c5b4a39281706","ab":["x1","y2"],"utm":{"campaign":"spring","medium":"mail"}},
"note":"Please ring twice; the bell is \"shy\".","warehouse":"MUC-2","priority":5}]]

-- Nine payloads take turns: a state remembers eight.
local BEGIN <const> = ([[
local ORDER <const> = %q
local payloads, at = {}, 0
for i = 1, 9 do payloads[i] = ORDER:format(i) end
local function all(t)
  local n = 0
  for _, v in pairs(t) do n = n + (type(v) == "table" and all(v) or 1) end
  return n
end
return { match = { exchange = "x" }, publish = function(msg)
  at = at %% 9 + 1
  local text = payloads[at]
]]):format(ORDER)

local function measure(body)
  local dir = support.make_dir { ["filter/a.lua"] = BEGIN .. body .. "\nend }" }
  local engine = support.open { rules = dir }
  support.remove_dir(dir)
  local best, msg = math.huge, { exchange = "x", key = "k", payload = "x" }
  for _ = 1, ROUNDS do
    local started = os.clock()
    for _ = 1, MESSAGES do
      assert(engine:filter(msg))
    end
    best = math.min(best, (os.clock() - started) / MESSAGES * 1e9)
  end
  engine:close()
  return best
end

local nothing, written = measure "", measure "msg.payload = text"
local is_over = false
for _, case in ipairs {
  { "1 KB of JSON: tide.json.decode", "tide.json.decode(text)", nothing, LIMIT_NS },
  { "msg.json: one field of it", "msg.payload = text\nlocal _ = msg.json.customer.country", written, LIMIT_NS / 2 },
  { "msg.json: all fields", "msg.payload = text\nall(msg.json)", written },
  { "msg.json: one field, in a second script", "msg.payload = payloads[1]\nlocal _ = msg.json.customer.country",
    written },
  { "decode, change a field, msg.json = it",
    "local doc = tide.json.decode(text)\ndoc.total = 1\nmsg.json = doc", nothing },
} do
  local ns, limit = measure(case[2]) - case[3], case[4]
  is_over = is_over or limit and ns >= limit
  print(("%-58s %10.0f ns%s"):format(case[1], ns,
    limit and (", limit %d%s"):format(limit, ns >= limit and ": OVER" or "") or ""))
end
os.exit(not is_over)
