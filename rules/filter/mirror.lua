-- mirror: copies a share of the messages to another exchange, to try a new consumer on
-- real messages. The id selects the share: the answer for a message is always the same.

local TARGET <const> = "mirror"
local SHARE <const> = 0.1

return {
  doc = "copy a share of the messages to another exchange",
  -- match = { exchange = "orders", key = "#" },

  publish = function(msg)
    -- With exchange "*" in `match` this filter sees the copy too.
    if msg.exchange == TARGET or tide.hash(msg.id) % 10000 >= SHARE * 10000 then
      return
    end
    msg:copy { exchange = TARGET, headers = { ["x-mirror-of"] = msg.id } }
  end,
}
