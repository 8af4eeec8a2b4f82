-- nightly_report: a job at a time of day, unless the last one still waits.
--
-- A model, and inert: copy it under a name of your own, set the address, and remove
-- `active = false`.

return {
  doc = "asks for the report at 02:30 UTC, on working days",
  active = false,
  cron = "30 2 * * mon-fri",
  -- After a night without a broker: one report, not one for each night.
  missed = "once",
  -- Not at the same second as everybody else's.
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
