-- followup: publishes what became of a message, as a message.

return {
  doc = "publish a message when one is done",
  options = {
    exchange = { default = "-", doc = "where it is published; - is the default exchange" },
    key = { default = "{queue}.done", doc = "{queue} and {event} stand for those of the message" },
    events = { type = "list", default = "ack", doc = "of ack, retry, expired, dead-letter, bury, drop" },
    payload = { type = "boolean", default = false, doc = "whether it has the payload" },
  },
  -- match = { queue = "#", except = { queue = "#.done" } },

  new = function(opts)
    local events = {}
    for _, event in ipairs(opts.events) do
      events[event] = true
    end
    return events
  end,

  settled = function(msg, outcome, opts, events)
    if not events[outcome.event] then
      return
    end
    msg:copy {
      exchange = opts.exchange,
      key = (opts.key:gsub("{(%l+)}", { queue = outcome.queue, event = outcome.event })),
      payload = opts.payload and msg.payload or "",
      headers = {
        ["settled-id"] = msg.id,
        ["settled-event"] = outcome.event,
        ["settled-reason"] = outcome.reason or false,
        ["settled-queue"] = outcome.queue,
        ["settled-attempts"] = outcome.attempts,
        ["settled-took-ms"] = outcome.took_ms,
      },
    }
  end,
}
