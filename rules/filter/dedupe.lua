-- dedupe: a message whose id has been seen within a window is refused.
--
-- The id is what the publisher put into a header. Those seen are in tide.shared, where
-- they outlive reloads and restarts. Copy this file to one whose name comes late
-- (90-dedupe.lua): an id counts as seen once it has come by here.

local HEADER <const> = "message-id"
local WINDOW <const> = "10m"
local NAME <const> = "dedupe" -- of what is kept: of two such filters each has its own

return {
  doc = "refuse what was published already, by a header",
  -- match = { exchange = "*", key = "#" },

  publish = function(msg)
    local id = msg.headers[HEADER]
    if not id or msg.headers["x-death-queue"] then -- a dead letter has come by before
      return
    end
    -- A copy to another exchange is another message.
    local key = ("%s %s %s %s"):format(NAME, msg.vhost, msg.exchange, id)
    if #key > 256 then -- as long as a key of tide.shared may be
      return false, ("its %s is %d bytes too long"):format(HEADER, #key - 256)
    end
    local first = tide.shared.get(key)
    if first == msg.id then
      return -- it comes by again: a schedule's, after a crash
    elseif first then
      return false, ("a message with this %s was published already, as %s"):format(HEADER, first)
    end
    -- Without room for one more the message is refused, and may be published later:
    -- to forget an id would be to let its message pass twice. --max-shared is the bound.
    if not pcall(tide.shared.set, key, msg.id, WINDOW) then
      tide.log.warn("no room for another " .. HEADER)
      return false, ("there is no room for its %s; try again later"):format(HEADER)
    end
  end,
}
