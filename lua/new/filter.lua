-- @NAME@: what is refused or changed on entry. Filters run in the order of their names.
--
-- It is active as soon as it is saved, for what `match` says. docs/rules-reference.md lists what
-- `match` takes and what a filter may write.

return {
  doc = "a message needs a customer, and is marked",
  match = { exchange = "@NAME@", key = "#" },

  publish = function(msg)
    if not msg.headers.customer then
      return false, "the header 'customer' is missing" -- the publish gets ERR rejected
    end
    msg.headers["seen-by"] = "@NAME@"
  end,
}
