-- dedupe: refuses a message whose id was seen within a window.
--
-- The id is a header. tide.shared keeps the ids over reloads and restarts. Copy this file
-- to a name that comes last (90-dedupe.lua): the filter marks an id as seen when it
-- evaluates the message, even if a later filter rejects it.

local HEADER <const> = "message-id"
local WINDOW <const> = "10m"
local NAME <const> = "dedupe" -- prefix of its keys; give two such filters different ones

return {
  doc = "refuse repeated messages, by a header",
  -- match = { exchange = "*", key = "#" },

  publish = function(msg)
    local id = msg.headers[HEADER]
    if not id or msg.headers["x-death-queue"] then -- a dead letter was seen when it was published
      return
    end
    -- The key has the exchange: a copy to another exchange is another message.
    local key = ("%s %s %s %s"):format(NAME, msg.vhost, msg.exchange, id)
    if #key > 256 then -- the limit of keys in tide.shared
      return false, ("its %s is %d bytes too long"):format(HEADER, #key - 256)
    end
    local first = tide.shared.get(key)
    if first == msg.id then
      return -- the same message again: a schedule repeats it after a crash
    elseif first then
      return false, ("a message with this %s was published already, as %s"):format(HEADER, first)
    end
    -- When tide.shared is full (--max-shared) the message is refused. To forget an older
    -- id would let its message pass twice.
    if not pcall(tide.shared.set, key, msg.id, WINDOW) then
      tide.log.warn("no room for another " .. HEADER)
      return false, ("there is no room for its %s; try again later"):format(HEADER)
    end
  end,
}
