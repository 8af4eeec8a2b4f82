-- heartbeat: a message at a fixed interval, so that whoever listens notices silence.
--
-- A model, and inert: copy it under a name of your own, set the address, and remove
-- `active = false`.

return {
  doc = "a sign of life, every 30 seconds",
  active = false,
  every = "30s",
  -- A sign of life that comes late is none.
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
