-- How long do paying customers wait, and what fails for them?
local took = tide.histogram("job_seconds", { buckets = { 0.1, 1, 10, 60 } })
return {
  doc = "the time of jobs, and their end, by the customer's plan",
  match = { queue = "jobs" },
  settled = function(msg, outcome)
    local labels = { plan = msg.headers.plan or "none", ["end"] = outcome.event }
    tide.counter("jobs_ended", labels):incr()
    if outcome.event == "ack" then took:observe((outcome.waited_ms + outcome.took_ms) / 1000) end
  end,
}
