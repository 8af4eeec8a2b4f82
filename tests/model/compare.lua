--- Is what PEEK shows of a queue what the model says? See spec.lua.
local lease = require 'model.lease'

local M = setmetatable({}, { __index = lease })

--- The message of that id. What the queue has given up may still be shown: its id is not that of a copy.
---@param state string? of one whose id is not known yet: another may be on its way to be it
local function find(queue, payload, id, state)
  local unknown
  for _, msg in ipairs(queue.msgs) do
    if msg.id == id then return msg end
    local may_be = not msg.id and msg.payload == payload and (not state or msg.state == state)
    if may_be and not unknown then unknown = msg end
  end
  if not unknown or queue.had[id] then return nil end
  unknown.id, queue.had[id] = id, true
  return unknown
end
M.find = find

local is_over, is_waiting, give_up = lease.is_over, lease.is_waiting, lease.give_up

local function compare_message(msg, seen)
  local function differs(name, is, should)
    return ('%s of queue %s: %s is %s, not %s'):format(msg.payload, msg.queue.name, name, is, should)
  end
  if seen.payload ~= msg.payload then return differs('payload', seen.payload, msg.payload) end
  if seen.state ~= msg.state then return differs('state', seen.state, msg.state) end
  if seen.deliveries ~= msg.deliveries and seen.deliveries ~= msg.deliveries_or then
    return differs('deliveries', seen.deliveries, msg.deliveries)
  end
  if seen.failures ~= msg.failures and seen.failures ~= msg.failures_or then
    return differs('failures', seen.failures, msg.failures)
  end
  if seen.priority ~= msg.priority then return differs('priority', seen.priority, msg.priority) end
  if seen.rank ~= msg.rank then return differs('rank', seen.rank, msg.rank) end
  if msg.failures > 0 and msg.reason and seen.reason ~= msg.reason then
    return differs('reason', seen.reason, msg.reason)
  end
  if seen.exchange ~= msg.exchange or seen.key ~= msg.key then
    return differs('origin', seen.exchange .. '/' .. seen.key, msg.exchange .. '/' .. msg.key)
  end
end

--- Which messages a queue gave up is certain only if the places of all are known.
local function is_certain(queue)
  for _, msg in ipairs(queue.msgs) do
    if not msg.id then return false end
  end
  return true
end

--- Compare a queue with what PEEK shows of it in all states.
---@param name string
---@param shown table[] messages
---@return string? difference
function M:compare(name, shown)
  local queue, seen_before = self.queues[name], {}
  for _, seen in ipairs(shown) do
    local msg = find(queue, seen.payload, seen.id, seen.state)
    if not msg then return ('queue %s has %s (%s), which it should not'):format(name, seen.payload, seen.state) end
    -- What is given up stays, buried, where dead messages have nowhere to go.
    if seen.state == 'buried' and is_waiting(msg) and is_over(queue) and (self.is_loose or not is_certain(queue)) then
      give_up(self, msg)
    end
    local difference = compare_message(msg, seen)
    if difference then return difference end
    seen_before[msg] = seen
  end
  local is_open = self.is_loose or not is_certain(queue)
  for _, msg in ipairs { table.unpack(queue.msgs) } do
    if not seen_before[msg] and is_open and is_over(queue) then
      give_up(self, msg)
    elseif not seen_before[msg] then
      return ('queue %s lacks %s, which should be %s'):format(name, msg.payload, msg.state)
    end
  end
  for msg, seen in pairs(seen_before) do
    msg.deliveries, msg.deliveries_or, msg.failures, msg.failures_or = seen.deliveries, nil, seen.failures, nil
  end
end

return M
