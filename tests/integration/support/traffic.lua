--- Publishing and consuming in bulk, and keeping account of what was promised.
local wait = require 'support.wait'

local M = {}

--- Publish `count` messages without waiting for each answer; gives how many were
--- confirmed. `make(i)` gives payload and options (both may be nil).
---@param c Client
---@param queue string
---@param count integer
---@param make? fun(i: integer): string?, string?
---@return integer
function M.publish(c, queue, count, make)
  local confirmed = 0
  for from = 1, count, 200 do
    local last = math.min(from + 199, count)
    local lines = {}
    for i = from, last do
      local payload, options
      if make then payload, options = make(i) end
      payload = payload or tostring(i)
      lines[#lines + 1] = ('PUB - %s%s %d\r\n%s\r\n'):format(queue, options and ' ' .. options or '', #payload, payload)
    end
    c:send(table.concat(lines))
    for _ = from, last do
      c:expect '^OK %x+ 1$'
      confirmed = confirmed + 1
    end
  end
  return confirmed
end

--- A publish with an id of its own.
---@param name string of a queue or a topic
---@param id string
---@param payload? string the id, if it is left out
---@return string
function M.with_id(name, id, payload)
  payload = payload or id
  return ('PUB - %s id=%s %d\r\n%s\r\n'):format(name, id, #payload, payload)
end

--- Take messages until `count` have come, acknowledging each batch; gives the
--- payloads in the order in which they came.
---@param c Client
---@param queue string
---@param count integer
---@param seconds number?
---@return string[], Delivery[]
function M.take(c, queue, count, seconds)
  local payloads, deliveries = {}, {}
  local deadline = wait.deadline(seconds)
  while #payloads < count do
    c:send(('GET %s max=%d wait=1s\r\n'):format(queue, math.min(500, count - #payloads)))
    local n = tonumber((c:expect '^OK (%d+)$'))
    local first, last
    for _ = 1, n do
      local msg = c:expect_msg()
      payloads[#payloads + 1] = msg.payload
      deliveries[#deliveries + 1] = msg
      first, last = first or msg.tag, msg.tag
    end
    if first then
      c:send(('ACK %s-%s\r\n'):format(first, last))
      c:expect_line('OK ' .. n)
    elseif wait.left(deadline) == 0 then
      error(('only %d of %d messages came'):format(#payloads, count), 2)
    end
  end
  return payloads, deliveries
end

--- Wait until the queue's counts are these.
---@param c Client
---@param queue string
---@param counts table<string, integer>
function M.expect_counts(c, queue, counts)
  local last
  local ok = wait.poll(function()
    last = c:stats(queue)
    for name, n in pairs(counts) do
      if last[name] ~= n then return false end
    end
    return true
  end)
  if ok then return end
  for name, n in pairs(counts) do
    if last[name] ~= n then error(('%s of %s is %s, expected %d'):format(name, queue, last[name], n), 2) end
  end
end

return M
