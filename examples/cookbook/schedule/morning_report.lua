-- A report at seven on working days, by the clock on the wall.
return {
  doc = "asks for yesterday's report",
  cron = "0 7 * * mon-fri",
  zone = "Europe/Berlin",
  run = function(broker, tick)
    local yesterday = tide.time.format(tick.ms - 86400000, "Europe/Berlin"):sub(1, 10)
    broker.publish { key = "reports", headers = { day = yesterday } }
  end,
}
