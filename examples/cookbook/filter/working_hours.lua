-- Nobody wants a text message at three in the morning: it waits for eight o'clock where its
-- receiver lives.
local HOUR <const> = 3600000
return {
  doc = "holds messages back outside of 8 to 20 o'clock of the receiver",
  match = { exchange = "sms" },
  publish = function(msg)
    local now = tide.now()
    local t = tide.time.fields(now, msg.headers.zone or "UTC")
    if t.hour >= 8 and t.hour < 20 then return end
    local wait = (8 - t.hour) % 24 * HOUR - t.min * 60000 - t.sec * 1000
    msg.delay = math.max(msg.delay, wait)
  end,
}
