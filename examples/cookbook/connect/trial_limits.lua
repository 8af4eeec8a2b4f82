-- Who tries the service out has a vhost of his own, and may publish ten messages a second.
return {
  doc = "trial users: ten messages a second, from the network of the office or not at all",
  match = { vhost = "trial" },
  connect = function(client)
    if not client.is_local and not tide.cidr "10.0.0.0/8, 192.168.0.0/16":has(client.address) then
      return false, "the trial is for our own network"
    end
    return { limits = { publish_rate = 10 } }
  end,
}
