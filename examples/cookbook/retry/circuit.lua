-- When a partner's service is down, all its jobs fail. They wait together, and one probes.
return {
  doc = "after many failures in a minute all jobs wait; one of them probes",
  options = { failures = { type = "integer", default = 20, doc = "in a minute" } },
  decide = function(msg, _, opts)
    local partner = msg.headers.partner or "?"
    local recent = tide.shared.incr("failures " .. partner, 1, "1m")
    if recent < opts.failures then return 1000 end
    local is_probe = tide.shared.add("probe " .. partner, true, "30s")
    return is_probe and 30000 or tide.random(60000, 120000)
  end,
}
