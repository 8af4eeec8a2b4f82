-- @NAME@: a policy: what queues and exchanges of these names have. It may be changed at any time.

return {
  doc = "defaults for the queues of one application",
  match = { queue = "@NAME@.#" },

  declare = function()
  end,
}
