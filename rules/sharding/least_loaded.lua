-- least_loaded: the shard with the fewest messages, ready or unacknowledged.

return {
  doc = "the shard with the fewest messages",

  new = function()
    return { last = -1 }
  end,

  -- `loads(i)` counts the ready and unacknowledged messages of shard i. The search starts
  -- after the shard that was picked last: otherwise an idle queue would always use its
  -- first shard.
  pick = function(_, n, _, state, loads)
    local best, least
    for i = 1, n do
      local shard = (state.last + i) % n
      local load = loads(shard)
      if not least or load < least then
        best, least = shard, load
      end
    end
    state.last = best
    return best
  end,
}
