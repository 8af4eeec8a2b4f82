-- round_robin: one shard after the other.

return {
  doc = "one shard after the other",

  -- What `new` returns is kept for the queue, and given to each call.
  new = function()
    return { last = -1 }
  end,

  -- After a reload it goes on where it was: `old` is a copy of what was kept before.
  carry = function(old)
    return old
  end,

  pick = function(_, n, _, state)
    state.last = (state.last + 1) % n
    return state.last
  end,
}
