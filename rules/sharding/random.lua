-- random: any shard, each as likely as the others.

return {
  doc = "any shard",

  pick = function(_, n)
    return tide.random(0, n - 1)
  end,
}
