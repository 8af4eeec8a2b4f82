-- quiet_hours: messages wait for the morning, except for urgent ones.

return {
  doc = "no deliveries at night, except for urgent messages",
  options = {
    from = { type = "integer", default = 22, min = 0, max = 23, doc = "the hour in which the quiet begins" },
    to = { type = "integer", default = 7, min = 0, max = 23, doc = "the hour in which it ends" },
    zone = { default = "UTC", doc = "a time zone, as Europe/Berlin" },
    urgent = { type = "integer", default = 200, min = 0, max = 256, doc = "this priority or above does not wait" },
  },
  -- match = { queue = "#" },

  deliver = function(msg, _, opts)
    if msg.priority >= opts.urgent then
      return
    end
    local now = tide.now()
    local at = tide.time.fields(now, opts.zone)
    -- Hours since the quiet began, around midnight.
    local since = (at.hour - opts.from) % 24
    local length = (opts.to - opts.from) % 24
    if since >= length then
      return
    end
    at.hour, at.min, at.sec, at.ms = at.hour + length - since, 0, 0, 0
    return tide.time.of(at, opts.zone) - now, "quiet hours"
  end,
}
