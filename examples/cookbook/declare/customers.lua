-- No queue of a customer can fill the disk, even if the program declares no limit.
return {
  doc = "every queue of these customers has a limit and an end",
  match = { queue = "#", vhost = { "acme", "globex" } },
  declare = function(what)
    local wanted = tonumber(what.options["max-length"]) or 100000
    what.options["max-length"] = math.min(wanted, 100000)
    what.options.ttl = what.options.ttl or "7d"
  end,
}
