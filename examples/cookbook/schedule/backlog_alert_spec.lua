local tidemq = require "tidemq"

it("backlog_alert tells once an hour", function()
  local engine = assert(tidemq.open())
  engine:set_queue("jobs", { ready = 5, oldest_ms = 1000 })
  assert.same({}, engine:run("backlog_alert", 60000))
  engine:set_queue("jobs", { ready = 7, oldest_ms = 600001 })
  assert.equal("7 jobs wait", engine:run("backlog_alert", 120000)[1].payload)
  assert.same({}, engine:run("backlog_alert", 180000))
end)
