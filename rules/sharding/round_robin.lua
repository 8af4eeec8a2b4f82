-- round_robin: one shard after the other.

return {
  doc = "one shard after the other",

  -- The state of a queue. Each call gets it.
  new = function()
    return { last = -1 }
  end,

  -- After a reload: `old` is a copy of the previous state.
  carry = function(old)
    return old
  end,

  pick = function(_, n, _, state)
    state.last = (state.last + 1) % n
    return state.last
  end,
}
