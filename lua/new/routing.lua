-- @NAME@: which bindings take a message. DECLARE exchange x @NAME@
--
-- The index may be any value. It is made anew after a restart or a reload, from the bindings.

return {
  doc = "the pattern is the beginning of the routing key",
  -- The decision depends on msg.key alone: the broker remembers it for each key.
  pure = true,

  new = function()
    return {} -- here: the prefix of each binding, by `dest`, a number that stands for it
  end,

  bind = function(index, pattern, dest)
    index[dest] = pattern
  end,

  unbind = function(index, _, dest)
    index[dest] = nil
  end,

  route = function(index, msg, to)
    for dest, prefix in pairs(index) do
      if msg.key:sub(1, #prefix) == prefix then
        to(dest)
      end
    end
  end,
}
