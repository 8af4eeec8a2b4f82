-- nightly_report: a job at a time of day, unless the last one still waits.
--
--   return tide.use("nightly_report", { cron = "0 4 * * *", options = { queue = "billing" } })
--
-- This file itself is not active; what uses it is.

return {
  doc = "asks for a report, at 02:30 UTC on working days",
  active = false,
  cron = "30 2 * * mon-fri",
  -- After nights without a broker one report is enough.
  missed = "once",
  -- Other jobs start at the full minute too.
  jitter = "30s",
  options = {
    queue = { default = "reports", doc = "of the workers" },
    priority = { type = "integer", default = 5, min = 0, max = 255 },
  },

  run = function(broker, tick, opts)
    local queue = broker.queue(opts.queue)
    if queue and queue.ready > 0 then
      return tide.log.warn("the last report has not been fetched yet")
    end
    broker.publish {
      key = opts.queue,
      payload = ("report of %d, for %d nights"):format(tick.ms, tick.missed + 1),
      priority = opts.priority,
    }
  end,
}
