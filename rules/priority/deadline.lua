-- deadline: the message with the earliest deadline goes first. A header has the deadline:
-- a time ("1795257322468", milliseconds since 1970) or a duration from the publication
-- ("30s"). The ttl of a message is a deadline too. The earlier of the two counts.

return {
  doc = "the earliest deadline first",
  options = {
    header = { type = "string", default = "deadline",
               doc = "header with the deadline: a time or a duration" },
    otherwise = { type = "duration", default = "7d",
                  doc = "deadline of a message without one, after its publication" },
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
    -- Without a deadline of its own a message could wait for ever.
    return deadline < math.huge and deadline or msg.ts + opts.otherwise
  end,
}
