-- consistent: like hash, but a new shard takes only its share of the keys. No key moves
-- between two old shards.
--
-- Jump consistent hash (Lamping and Veach, 2014): imagine that shards are added one by one.
-- A key jumps to the j-th shard with probability 1/j, decided by a random sequence of its
-- own. The loop goes from jump to jump, about ln(n) of them.

return {
  doc = "by hash; a new shard moves few keys",
  options = {
    by = { type = "string", default = "key",
           doc = "'key', or the name of a header" },
  },

  -- The shard of a key never changes, so the broker may cache it.
  pure = function(opts)
    return opts.by == "key"
  end,

  pick = function(msg, n, opts)
    local value = opts.by == "key" and msg.key or msg.headers[opts.by] or ""
    local random, shard, jump = tide.hash(value), 0, 0
    while jump < n do
      shard = jump
      random = random * 2862933555777941757 + 1 -- integers wrap around: modulo 2^64
      jump = math.floor((shard + 1) * ((1 << 31) / ((random >> 33) + 1)))
    end
    return shard
  end,
}
