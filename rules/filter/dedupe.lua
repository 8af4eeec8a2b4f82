-- dedupe: refuses a message whose id was seen within a window.
--
--   return tide.use("dedupe", { match = {}, options = { window = "1h" } })
--
-- The id is a header. tide.shared keeps the ids over reloads and restarts. Give the file a
-- name that comes last (90-dedupe.lua): the filter marks an id as seen when it evaluates
-- the message, even if a later filter rejects it.

return {
  doc = "refuse repeated messages, by a header",
  options = {
    header = { default = "message-id", doc = "the header with the id" },
    window = { type = "duration", default = "10m", min = 1, doc = "how long an id is kept" },
    extend = { type = "boolean", default = false, doc = "a repeated message starts the window of its id anew" },
    name = { doc = "what its ids are kept under; by default the name of the file" },
  },

  new = function(opts, file)
    return { name = opts.name or file }
  end,

  publish = function(msg, opts, state)
    local id = msg.headers[opts.header]
    if not id or msg.headers["x-death-queue"] then -- a dead letter was seen when it was published
      return
    end
    -- The key has the exchange: a copy to another exchange is another message.
    local key = ("%s %s %s %s"):format(state.name, msg.vhost, msg.exchange, id)
    if #key > 256 then -- the limit of keys in tide.shared
      local over = #key - 256
      return false, ("its %s is %d byte%s too long"):format(opts.header, over, over == 1 and "" or "s")
    end
    local first = tide.shared.get(key)
    if first == msg.id then
      return -- the same message again: a schedule repeats it after a crash
    elseif first then
      if opts.extend then
        tide.shared.touch(key, opts.window)
      end
      return false, ("a message with this %s was published already, as %s"):format(opts.header, first)
    end
    -- When tide.shared is full (--max-shared) the message is refused. To forget an older
    -- id would let its message pass twice.
    if not pcall(tide.shared.set, key, msg.id, opts.window) then
      tide.log.warn("no room for another " .. opts.header)
      return false, ("there is no room for its %s; try again later"):format(opts.header)
    end
  end,
}
