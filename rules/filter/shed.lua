-- shed: sheds load. While a queue is behind, messages of low priority are refused, or go to
-- another exchange.

return {
  doc = "refuse or reroute messages of low priority while a queue is behind",
  options = {
    queue = { doc = "the queue, or an empty text for the one that the key names", default = "" },
    ready = { type = "integer", default = 10000, min = 0, doc = "behind with more messages; 0: no limit" },
    oldest = { type = "duration", default = "0s", doc = "behind when one has been ready for longer; 0: no limit" },
    keep = { type = "integer", default = 5, min = 0, max = 255, doc = "messages of this priority and above stay" },
    to = { default = "", doc = "the exchange for the others; an empty text refuses them" },
  },

  publish = function(msg, opts)
    if msg.priority >= opts.keep or msg.exchange == opts.to then
      return
    end
    local name = opts.queue ~= "" and opts.queue or msg.key
    local queue = tide.queue(name)
    if not queue or not queue.ready then
      return -- there is none, or it is a topic
    end
    local is_long = opts.ready > 0 and queue.ready > opts.ready
    local is_old = opts.oldest > 0 and queue.oldest_ms > opts.oldest
    if not is_long and not is_old then
      return
    elseif opts.to ~= "" then
      msg.exchange = opts.to
    else
      return false, ("queue '%s' is behind; try again later"):format(name)
    end
  end,
}
