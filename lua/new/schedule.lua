-- @NAME@: what is published when. Remove `active = false` to start it.

return {
  doc = "a message every morning",
  active = false,
  cron = "0 8 * * 1-5", -- or: every = "30s"

  run = function(broker, tick)
    broker.publish {
      exchange = "-", -- the default exchange: `key` is the name of a queue
      key = "@NAME@",
      payload = tostring(tick.ms),
    }
  end,
}
