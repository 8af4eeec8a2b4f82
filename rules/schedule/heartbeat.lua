-- heartbeat: a message at a fixed interval. A listener notices when it stops.
--
--   return tide.use("heartbeat", { every = "10s", options = { key = "alive" } })
--
-- This file itself is not active; what uses it is.

return {
  doc = "a heartbeat every 30 seconds",
  active = false,
  every = "30s",
  -- A late heartbeat says nothing.
  missed = "skip",
  options = {
    exchange = { default = "-", doc = "where it goes; - is the default exchange, whose keys are queues" },
    key = { default = "heartbeat" },
  },

  run = function(broker, tick, opts)
    broker.publish {
      exchange = opts.exchange,
      key = opts.key,
      payload = tostring(tick.ms),
      headers = { ["tick"] = tick.ms },
    }
  end,
}
