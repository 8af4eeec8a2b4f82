-- @NAME@: what holds for a connection, asked once when a client has logged in.

return {
  doc = "a limit for one user",
  match = { user = "@NAME@" },

  -- nothing: as it is; false, reason: refused; a table: name, vhost, limits of the connection.
  connect = function()
    return { limits = { max_channels = 10 } }
  end,
}
