--- /metrics of a broker, as Prometheus' own parser reads it (support/exposition.py).
local json = require 'dkjson'
local shell = require 'support.shell'

local M = {}

-- One of them has the library: there may be a Python before Debian's.
local python

local function find_python()
  for _, name in ipairs { 'python3', '/usr/bin/python3' } do
    local _, status = shell.run(name .. ' -c "import prometheus_client" 2>/dev/null')
    if status == 0 then return name end
  end
  error 'python3-prometheus-client is missing: make deps-test'
end

---@class Metrics
---@field families table<string, table> by name, without "_total"; each has name, type, help, samples
---@field order string[] their names

--- Parse a text.
---@param text string
---@param format? 'text'|'openmetrics'
---@return Metrics
function M.parse(text, format)
  python = python or find_python()
  local path = os.tmpname()
  shell.write_file(path, text)
  local output, status = shell.run(('%s -B tests/integration/support/exposition.py %s <%s 2>&1'):format(
    python, format or 'text', path))
  os.remove(path)
  if status ~= 0 then error(output, 2) end
  local metrics = { families = {}, order = {} }
  for i, family in ipairs(json.decode(output).families) do
    if metrics.families[family.name] then error('two families ' .. family.name, 2) end
    metrics.families[family.name], metrics.order[i] = family, family.name
  end
  return metrics
end

--- The value of the one sample that has these labels, and perhaps more; nil: there is none.
---@param metrics Metrics
---@param name string of the sample
---@param labels? table<string, string>
---@return number?
function M.value(metrics, name, labels)
  local found
  local family = metrics.families[name:gsub('_total$', '')] or metrics.families[name:gsub('_[a-z]+$', '')]
  for _, sample in ipairs(assert(family, name).samples) do
    local is_it = sample.name == name
    for label, value in pairs(labels or {}) do is_it = is_it and sample.labels[label] == value end
    if is_it and found then error(name .. ' has several such samples', 2) end
    if is_it then found = sample.value end
  end
  return found
end

return M
