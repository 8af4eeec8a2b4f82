-- mirror: a copy of a share of the traffic goes to another exchange, to try a new
-- consumer on real messages. The share is taken by id: one message, one answer.

local TARGET <const> = "mirror"
local SHARE <const> = 0.1

return {
  doc = "copy a share of the messages to another exchange",
  -- match = { exchange = "orders", key = "#" },

  publish = function(msg)
    -- The copy comes by here too when `match` has exchange "*".
    if msg.exchange == TARGET or tide.hash(msg.id) % 10000 >= SHARE * 10000 then
      return
    end
    msg:copy { exchange = TARGET, headers = { ["x-mirror-of"] = msg.id } }
  end,
}
