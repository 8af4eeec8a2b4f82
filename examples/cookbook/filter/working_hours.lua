-- Nobody wants a text message at three in the morning. It waits for eight o'clock where its
-- receiver lives.
return {
  doc = "holds messages back outside of 8 to 20 o'clock of the receiver",
  match = { exchange = "sms" },
  publish = function(msg)
    local zone = msg.headers.zone or "UTC"
    local is_known, at = pcall(tide.time.fields, tide.now(), zone)
    if not is_known then return false, "there is no time zone '" .. zone .. "'" end
    if at.hour >= 8 and at.hour < 20 then return end
    if at.hour >= 20 then at.day = at.day + 1 end
    at.hour, at.min, at.sec, at.ms = 8, 0, 0, 0
    msg.delay = math.max(msg.delay, tide.time.of(at, zone) - tide.now())
  end,
}
