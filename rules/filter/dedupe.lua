-- dedupe: a message whose id has been seen within a window is refused.
--
-- The id is what the publisher put into a header. Copy this file to one whose
-- name comes late (90-dedupe.lua): an id counts as seen once it has come by here.

local HEADER <const> = "message-id"
local WINDOW <const> = tide.duration "10m"
local MAX <const> = 100000 -- ids that are remembered; then the oldest is forgotten

local seen = {} -- when an id came
local ids, first, last = {}, 1, 0 -- those in `seen`, the oldest first

local function forget_until(time)
  while first <= last and (seen[ids[first]] <= time or last - first + 1 >= MAX) do
    seen[ids[first]] = nil
    ids[first] = nil
    first = first + 1
  end
end

return {
  doc = "refuse what was published already, by a header",
  -- match = { exchange = "*", key = "#" },

  publish = function(msg)
    local id = msg.headers[HEADER]
    if not id then
      return
    end
    -- A copy to another exchange is another message.
    id = msg.exchange .. "\0" .. id
    local now = tide.now()
    if seen[id] and now - seen[id] < WINDOW then
      return false, "a message with this " .. HEADER .. " was published already"
    end
    if tide.is_dry_run() then
      return
    end
    forget_until(now - WINDOW)
    last = last + 1
    seen[id], ids[last] = now, id
  end,
}
