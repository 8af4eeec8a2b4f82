-- @NAME@: what holds for a connection, asked once when a client has logged in.
--
-- It is active as soon as it is saved, for what `match` says.

return {
  doc = "one user has few channels, and comes from this network alone",
  match = { user = "@NAME@" },

  -- nothing: as it is; false, reason: refused; a table: name, vhost, limits of the connection.
  connect = function(client)
    if not (client.address or ""):find("^10%.") then -- nil: a Unix socket
      return false, "not from there"
    end
    return { limits = { max_channels = 10 } }
  end,
}
