-- Many short films are ready before one long one would be.
return {
  doc = "the shortest job first; ten minutes of waiting make up for one of length",
  rank = function(msg)
    local minutes = tonumber(msg.headers.minutes) or 60
    return msg.ts + minutes * 600000
  end,
}
