-- vip: better customers wait less, and nobody waits for ever.
--
-- A message is served as if it had been published earlier by the head start of
-- its customer's tier (the header `tier`). A gold order overtakes what ordinary
-- customers ordered within the last ten minutes, but not what has been waiting
-- for longer: a stream of gold orders cannot starve the others.

return {
  doc = "by the time of publication, with a head start for the tier of the customer",
  options = {
    header = { type = "string", default = "tier", doc = "the header that names the tier" },
    gold = { type = "duration", default = "10m", doc = "the head start of gold" },
    silver = { type = "duration", default = "1m", doc = "the head start of silver" },
  },

  rank = function(msg, _, opts)
    local head_start = { gold = opts.gold, silver = opts.silver }
    return msg.ts - (head_start[msg.headers[opts.header]] or 0)
  end,
}
