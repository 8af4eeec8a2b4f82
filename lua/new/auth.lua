-- @NAME@: who may do what. It is asked before the table of users is.
--
-- With a function `authenticate` it decides about logins too: then everybody must log in.

local PREFIX <const> = "@NAME@."

return {
  doc = "what begins like a user's name is the user's own",

  -- true: allowed; false, reason: denied; nil: the next script or the table decides.
  authorize = function(user, _, object)
    if object.name:sub(1, #PREFIX) ~= PREFIX then
      return nil
    end
    local owner = object.name:match("^[^.]*", #PREFIX + 1)
    if owner ~= user.name then
      return false, ("'%s' belongs to %s"):format(object.name, owner)
    end
  end,
}
