-- round_robin: one shard after the other.

return {
  doc = "one shard after the other",

  -- What `new` returns is kept for the queue, and given to each call.
  new = function()
    return { last = -1 }
  end,

  pick = function(_, n, _, state)
    state.last = (state.last + 1) % n
    return state.last
  end,
}
