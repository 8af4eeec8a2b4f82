-- record: keeps a copy of each message in a topic: a log of an exchange or of a queue, for
-- groups and readers that its consumers do not notice.
--
--   DECLARE topic orders-log retention=30d
--   DECLARE exchange record fanout
--   BIND orders-log record -
--
--   return tide.use("record", { match = { exchange = "orders" } })
--   return tide.use("record", { match = { exchange = "-", key = "jobs" } }) -- a queue
--
-- A copy keeps its key: with sharding=hash the copies of a key are in one partition, in
-- order. Put it behind the filters that refuse or change messages (`80-record.lua`).

return {
  doc = "keep a copy of each message in a topic",
  options = { to = { default = "record", doc = "the exchange of the copies" } },

  publish = function(msg, opts)
    -- A match for all exchanges sees the copy too.
    if msg.exchange == opts.to then return end
    msg:copy { exchange = opts.to, headers = { ["x-record-of"] = msg.id, ["x-record-exchange"] = msg.exchange } }
  end,
}
