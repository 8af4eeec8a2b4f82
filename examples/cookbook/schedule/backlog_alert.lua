-- Somebody should know when the oldest job waits for more than ten minutes.
return {
  doc = "tells the people on duty about a backlog, once an hour",
  every = "1m",
  run = function(broker)
    local jobs = tide.queue "jobs"
    if jobs and jobs.oldest_ms > 600000 and tide.shared.add("backlog told", true, "1h") then
      broker.publish { key = "on-duty", payload = ("%d jobs wait"):format(jobs.ready) }
    end
  end,
}
