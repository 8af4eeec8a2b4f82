-- Who tries the service out has a vhost for that, and publishes ten messages a second.
local ours <const> = tide.cidr "10.0.0.0/8, 192.168.0.0/16"
return {
  doc = "the trial: from our own network, ten messages a second",
  match = { vhost = "trial" },
  connect = function(client)
    if not client.is_local and not ours:has(client.address) then
      return false, "the trial is for our own network"
    end
    return { limits = { publish_rate = 10 } }
  end,
}
