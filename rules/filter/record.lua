-- record: keeps a copy of each message in a topic: a log of an exchange or of a queue, for
-- groups and readers that its consumers do not notice.
--
--   DECLARE topic orders-log retention=30d
--   DECLARE exchange record fanout
--   BIND orders-log record -
--
-- A copy keeps its key: with sharding=hash the copies of a key are in one partition, in
-- order. Put it behind the filters that refuse or change messages (`80-record.lua`).

local TARGET <const> = "record"

return {
  doc = "keep a copy of each message in a topic",
  -- match = { exchange = "orders" },
  -- For what is published to a queue: { exchange = "-", key = "jobs" }

  publish = function(msg)
    -- With exchange "*" in `match` this filter sees the copy too.
    if msg.exchange == TARGET then return end
    msg:copy { exchange = TARGET, headers = { ["x-record-of"] = msg.id, ["x-record-exchange"] = msg.exchange } }
  end,
}
