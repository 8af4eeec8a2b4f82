local tidemq = require "tidemq"

it("debounce lets one message for each document pass in 30 seconds", function()
  local engine = assert(tidemq.open())
  local function save(document)
    return engine:filter { exchange = "documents", key = "document.saved", headers = { document = document } }
  end
  engine:set_now(1000000)
  assert.equal(30000, assert(save "a").delay)
  assert.is_nil(save "a")
  assert(save "b")
  engine:set_now(1030001)
  assert(save "a")
end)
