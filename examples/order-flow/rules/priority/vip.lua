-- vip: better customers wait less, and no customer waits for ever.
--
-- The header `tier` names the tier of the customer. Each tier has a head start: the
-- queue serves a message as if it had been published that much earlier. A gold order
-- overtakes ordinary orders of the last ten minutes, but no older ones. A stream of
-- gold orders cannot starve the others.

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
