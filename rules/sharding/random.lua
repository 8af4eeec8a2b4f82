-- random: any shard, all equally likely.

return {
  doc = "any shard",

  pick = function(_, n)
    return tide.random(0, n - 1)
  end,
}
