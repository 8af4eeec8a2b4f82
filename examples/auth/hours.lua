-- hours: nobody but admins publishes or declares outside of business hours.
--
-- Reading goes on: what is queued is worked off. A decision holds for up to ten seconds.

local FROM <const>, TO <const> = 8, 18 -- o'clock; TO is outside
local DAYS <const> = { [1] = true, [2] = true, [3] = true, [4] = true, [5] = true } -- 0 = Sunday
local OFFSET_H <const> = 1 -- local time is UTC and this; the sandbox knows no time zones
local NAMES <const> = nil -- a pattern: "^orders"; nil: everything

local HOUR_MS <const>, DAY_MS <const> = 3600000, 86400000

local function is_open(now_ms)
  local at <const> = now_ms + OFFSET_H * HOUR_MS
  local hour <const> = at % DAY_MS // HOUR_MS
  -- The first day of 1970 was a Thursday.
  return DAYS[(at // DAY_MS + 4) % 7] and hour >= FROM and hour < TO
end

return {
  doc = "publishing and declaring in business hours alone",

  authorize = function(user, action, object)
    if action == "read" or user.is_admin or is_open(tide.now()) then
      return nil
    elseif NAMES and not object.name:find(NAMES) then
      return nil
    end
    return false, ("%s '%s' is closed; it opens at %d:00 on working days"):format(object.kind, object.name, FROM)
  end,
}
