-- redact: consumers get messages without certain headers, except for some users.
--
-- The stored message keeps them: PEEK and FIND show it, to those who may read the queue.

return {
  doc = "headers that only some users get",
  options = {
    headers = { type = "list", default = "card,password", doc = "the headers that are left out" },
    users = { type = "list", doc = "who gets them all the same" },
  },
  -- match = { queue = "#" },

  new = function(opts)
    local trusted = {}
    for _, user in ipairs(opts.users or {}) do
      trusted[user] = true
    end
    return trusted
  end,

  deliver = function(msg, consumer, opts, trusted)
    if trusted[consumer.user or ""] then
      return
    end
    for _, name in ipairs(opts.headers) do
      msg.headers[name] = nil
    end
  end,
}
