-- hours: nobody but admins publishes or declares outside of business hours.
--
--   return tide.use("hours", { options = { zone = "Europe/Berlin", to = 17 } })
--
-- Reading goes on: what is queued is worked off. A decision holds for up to ten seconds.

return {
  doc = "publishing and declaring in business hours alone",
  active = false,
  options = {
    from = { type = "integer", default = 8, min = 0, max = 24, doc = "o'clock" },
    to = { type = "integer", default = 18, min = 0, max = 24, doc = "o'clock; this hour is outside" },
    days = { type = "list", of = "integer", default = { 1, 2, 3, 4, 5 }, doc = "1 is Monday" },
    zone = { default = "UTC", doc = "whose clocks: Europe/Berlin" },
    names = { default = "", doc = "a Lua pattern; what does not match it is always open" },
  },

  new = function(opts)
    local is_open = {}
    for _, day in ipairs(opts.days) do
      is_open[day] = true
    end
    tide.time.fields(0, opts.zone) -- a wrong zone is refused now
    return is_open
  end,

  authorize = function(user, action, object, opts, is_open)
    if action == "read" or user.is_admin or not object.name:find(opts.names) then
      return nil
    end
    local at = tide.time.fields(tide.now(), opts.zone)
    if is_open[at.weekday] and at.hour >= opts.from and at.hour < opts.to then
      return nil
    end
    return false, ("%s '%s' is closed; it opens at %d:00"):format(object.kind, object.name, opts.from)
  end,
}
