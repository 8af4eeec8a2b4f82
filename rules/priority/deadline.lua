-- deadline: what must be done first goes first. A message says by when in a header,
-- as a time ("1795257322468", milliseconds since 1970) or as a duration from its
-- publication ("30s"), or has a time to live; the earlier of the two counts.

return {
  doc = "the earliest deadline first",
  options = {
    header = { type = "string", default = "deadline",
               doc = "the header that has the deadline: a time or a duration" },
    otherwise = { type = "duration", default = "7d",
                  doc = "how long after its publication a message without a deadline has" },
  },

  rank = function(msg, _, opts)
    local deadline = math.huge
    local text = msg.headers[opts.header]
    if text and text:find("^%d+$") then
      deadline = tonumber(text)
    elseif text and tide.duration(text) then
      deadline = msg.ts + tide.duration(text)
    end
    if msg.ttl then
      deadline = math.min(deadline, msg.ts + msg.ttl)
    end
    -- A message without a deadline gets one, or it could wait for ever.
    return deadline < math.huge and deadline or msg.ts + opts.otherwise
  end,
}
