-- @NAME@: a policy: what queues of these names have. It may be changed at any time.
--
-- It is active as soon as it is saved, for what `match` says.

return {
  doc = "messages of these queues do not live for ever",
  match = { queue = "@NAME@.#" },

  -- false, reason: nothing is declared. Options are texts; nil is the default.
  declare = function(what)
    if what.kind == "queue" and not what.options.ttl then
      what.options.ttl = "7d"
    end
  end,
}
