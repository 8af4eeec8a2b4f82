-- nightly_report: a job at a time of day, unless the last one still waits.
--
-- This file is not active. Copy it under another name, set the address and remove
-- `active = false`.

return {
  doc = "asks for the report at 02:30 UTC, on working days",
  active = false,
  cron = "30 2 * * mon-fri",
  -- After nights without a broker one report is enough.
  missed = "once",
  -- Other jobs start at the full minute too.
  jitter = "30s",

  run = function(broker, tick)
    local queue = broker.queue("reports")
    if queue and queue.ready > 0 then
      return tide.log.warn("the last report has not been fetched yet")
    end
    broker.publish {
      key = "reports",
      payload = ("report of %d, for %d nights"):format(tick.ms, tick.missed + 1),
      priority = 5,
    }
  end,
}
