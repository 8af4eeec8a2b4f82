-- No queue of a tenant fills the disk, whatever its program declares.
return {
  doc = "every queue of a tenant has a limit and an end",
  match = { kind = "queue", vhost = { "acme", "globex" } },
  declare = function(what)
    local wanted = tonumber(what.options["max-length"])
    what.options["max-length"] = tostring(math.min(wanted or 100000, 100000))
    what.options.ttl = what.options.ttl or "7d"
  end,
}
