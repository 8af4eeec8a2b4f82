-- heartbeat: a message at a fixed interval. A listener notices when it stops.
--
-- This file is not active. Copy it under another name, set the address and remove
-- `active = false`.

return {
  doc = "a heartbeat every 30 seconds",
  active = false,
  every = "30s",
  -- A late heartbeat says nothing.
  missed = "skip",

  run = function(broker, tick)
    broker.publish {
      exchange = "", -- the default exchange: `key` is the name of a queue
      key = "heartbeat",
      payload = tostring(tick.ms),
      headers = { ["tick"] = tick.ms },
    }
  end,
}
