local tidemq = require "tidemq"

it("success_by_plan counts by plan and by how it ends", function()
  local engine = assert(tidemq.open())
  local function settle(plan, event)
    engine:settled({ headers = { plan = plan } }, { queue = "jobs", event = event, waited_ms = 500, took_ms = 100 })
  end
  settle("pro", "ack")
  settle("pro", "ack")
  settle("free", "bury")
  assert.same({ ['jobs_ended{end="ack",plan="pro"}'] = 2, ['jobs_ended{end="bury",plan="free"}'] = 1 },
    engine:counters())
  assert.matches('"name":"job_seconds".-"count":2,"sum":1.2', (engine:status()))
end)
