-- The accounts department's system is switched off at night and on Sundays.
local zone <const> = "Europe/Berlin"
return {
  doc = "tries again when the other system is on: Monday to Saturday, 6 to 22 o'clock",
  decide = function()
    local now = tide.now()
    local t = tide.time.fields(now + 300000, zone)
    if t.weekday ~= 7 and t.hour >= 6 and t.hour < 22 then return 300000 end
    local day = t.hour >= 22 and 1 or 0
    local monday = t.weekday == 7 and 1 or (t.weekday == 6 and day == 1) and 2 or day
    return tide.time.of { year = t.year, month = t.month, day = t.day + monday, hour = 6, zone = zone } - now
  end,
}
