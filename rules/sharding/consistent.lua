-- consistent: as hash, but when a shard is added hardly more than its share of the keys
-- moves, and all of those to the new shard; none moves between two old ones.
--
-- Jump consistent hash (Lamping and Veach, 2014): imagine the shards added one by one.
-- When the j-th comes, a key jumps to it with the probability 1/j, which a random
-- sequence of the key's own decides. The loop goes from jump to jump, about ln(n) of them.

return {
  doc = "by hash, moving few keys when shards are added",
  options = {
    by = { type = "string", default = "key",
           doc = "'key', or the name of the header whose value counts" },
  },

  -- By the key, the shard of a key never changes, so the broker may remember it.
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
