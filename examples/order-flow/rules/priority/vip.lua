-- vip: better customers wait less, and no customer waits for ever.
--
-- The header `tier` gives a message a head start: it is served as if it had been published
-- earlier. By default a gold order overtakes ordinary orders of the last ten minutes. It
-- does not overtake older ones, so a stream of gold orders starves nobody.

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
