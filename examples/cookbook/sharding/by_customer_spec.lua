local tidemq = require "tidemq"

it("by_customer keeps a customer in one shard", function()
  local engine = assert(tidemq.open())
  local shards = assert(engine:strategy("sharding", "by_customer"))
  local function pick(key, payload) return shards:pick({ key = key, payload = payload }, 8) end
  assert.equal(pick("order.new", '{"customer":"c1"}'), pick("order.paid", '{"customer":"c1"}'))
  assert.equal(pick("a", "no JSON"), pick("a", "[]"))
end)
