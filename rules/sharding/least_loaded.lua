-- least_loaded: to the shard with the fewest messages, waiting or with consumers.

return {
  doc = "to the shard that has the least to do",

  new = function()
    return { last = -1 }
  end,

  -- `loads(i)` counts the messages of shard i that are ready or unacknowledged. The
  -- search begins behind the shard that was picked last, so that equals take turns;
  -- else an idle queue would only ever use its first shard.
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
