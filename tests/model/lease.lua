--- The leases of messages in the model: that of the oldest that a consumer holds has begun. A consumer is a
--- subscription, or one GET. See spec.lua.
local life = require 'model.life'

local M = setmetatable({}, { __index = life })

--- What a consumer holds, the oldest first.
local function held_of(client, sub)
  local list = {}
  for _, msg in pairs(client.held) do
    if msg.sub == sub then list[#list + 1] = msg end
  end
  table.sort(list, function(a, b) return a.tag < b.tag end)
  return list
end

local function lapse(client, msg)
  client.lapsed[msg.tag] = { msg = msg, queue = msg.queue }
end

--- The lease of the oldest ends. A consumer that has settled nothing else gives back the others.
local function end_lease(self, client, sub)
  local list = held_of(client, sub)
  if not sub.has_settled then
    sub.is_stalled = true
    for i = #list, 2, -1 do
      lapse(client, list[i])
      life.give_back(self, list[i])
    end
  end
  lapse(client, list[1])
  life.fail(self, list[1], 'timeout')
end

--- Another message may be the oldest of the consumer: then its lease begins.
local function look_at_lease(client, sub)
  local oldest = held_of(client, sub)[1]
  if sub.oldest == (oldest and oldest.tag) then return end
  sub.oldest, sub.has_settled = oldest and oldest.tag, false
  sub.is_ending = oldest and oldest.is_short
end

--- To be called whenever what clients hold has changed.
function M:look_at_leases()
  for _, client in ipairs(self.clients) do
    for _, msg in pairs(client.held) do client.consumers[msg.sub] = true end
    for sub in pairs(client.consumers) do look_at_lease(client, sub) end
  end
end

--- Does the client have a message by another subscription, which it was given before the oldest of this one?
local function has_older(client, sub)
  if sub.is_get then return false end
  for _, other in pairs(client.subs) do
    if other ~= sub and other.oldest and other.oldest < sub.oldest then return true end
  end
  return false
end

--- Leases of 10 ms end, when everything has been delivered that could be before.
function M:end_leases()
  for _, client in ipairs(self.clients) do
    for sub in pairs(client.consumers) do
      if sub.is_ending and self:stuck() then return end
      local is_later = sub.is_ending and has_older(client, sub)
      -- It has not had its turn: its lease is put off.
      if is_later and not held_of(client, sub)[1].is_short then sub.is_ending = false end
      if sub.is_ending and not is_later then
        sub.is_ending = false
        end_lease(self, client, sub)
        self:look_at_leases()
        return self:end_leases()
      end
    end
  end
end

--- A client settles a message that it holds, or gives it back.
function M.progress(msg, is_return)
  msg.sub.is_stalled = false
  if not is_return and msg.tag ~= msg.sub.oldest then msg.sub.has_settled = true end
end

--- A late ACK: the message that the client has lost, if it is in its queue, and nobody else has it.
local function late(client, tag)
  local lost = client.lapsed[tag]
  client.lapsed[tag] = nil
  if lost.is_done then return true end
  for _, msg in ipairs(lost.queue.msgs) do
    if msg == lost.msg and (msg.state ~= 'unacked' or msg.holder.client == client) then
      if msg.state == 'unacked' then
        M.progress(msg)
        client.lapsed[msg.tag] = { is_done = true }
      end
      life.remove(lost.queue, msg)
      return true
    end
  end
  return false
end

--- How many of the late ACKs count.
function M.ack_late(client, tags)
  local n = 0
  for _, tag in ipairs(tags) do
    if late(client, tag) then n = n + 1 end
  end
  for _, sub in pairs(#tags > 0 and client.subs or {}) do sub.is_stalled = false end
  return n
end

return M
