local tidemq = require "tidemq"
local json = require "dkjson"

it("success_by_plan counts by plan and by how it ends", function()
  local engine = assert(tidemq.open())
  local function settle(plan, event)
    engine:settled({ headers = { plan = plan } }, { queue = "jobs", event = event, waited_ms = 500, took_ms = 100 })
  end
  settle("pro", "ack")
  settle("pro", "ack")
  settle("free", "bury")
  local found = {}
  for _, metric in ipairs(json.decode((engine:status())).metrics) do found[metric.name] = metric end
  assert.truthy(found.jobs_ended)
  assert.truthy(found.job_seconds)
end)
