local tidemq = require "tidemq"

it("webhook_signature refuses what is not signed", function()
  local engine = assert(tidemq.open { secrets = { webhook = "key" } })
  local message = { exchange = "webhooks", key = "k", headers = {},
    payload = "The quick brown fox jumps over the lazy dog" }
  assert.matches("does not fit", select(2, engine:filter(message)))
  -- As Wikipedia's article on HMAC has it.
  message.headers.signature = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
  assert(engine:filter(message))
end)
