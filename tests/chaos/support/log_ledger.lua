--- A model of what the broker has promised about one topic, kept by a test while it
--- publishes, reads and settles. A payload is published once, or again with the same
--- publish id, and is the identity of its message.
---
--- What anybody has seen at an offset, in a confirm or in a delivery, is there for ever,
--- and nowhere else. A group skips nothing that it was not asked to settle, is given
--- nothing again that was settled with an OK while the broker lived on, and starts again
--- no earlier than at the offset that Redis had. Anything else is a broken promise: it
--- raises a table { broken = text }, as Ledger does.
local Ledger = require 'chaos.support.ledger'

local broken = Ledger.broken

---@class LogGroup what one group has done, by partition and offset
---@field delivered table<integer, table<integer, true>> in whatever life of the broker
---@field asked table<integer, table<integer, true>> its ack was sent: it may be settled
---@field settled table<integer, table<integer, integer>> answered OK, in that life
---@field low table<integer, integer> below it all were asked for
---@field floor table<integer, integer> it never starts below this again

---@class LogLedger
---@field sent table<string, true>
---@field refused table<string, true> answered ERR
---@field at table<integer, table<integer, string>> what was seen, by partition and offset
---@field place table<string, string> "<partition>:<offset>"
---@field groups table<string, LogGroup>
---@field is_strict boolean what was refused is never seen
---@field keeps_all boolean the topic drops nothing
local LogLedger = {}
LogLedger.__index = LogLedger
LogLedger.broken = broken

---@param partitions integer
---@param groups string[]
---@return LogLedger
function LogLedger.new(partitions, groups)
  local self = setmetatable({
    partitions = partitions, sent = {}, refused = {}, at = {}, place = {}, groups = {},
    is_strict = false, keeps_all = true, life = 1,
  }, LogLedger)
  for p = 0, partitions - 1 do self.at[p] = {} end
  for _, name in ipairs(groups) do
    local g = { delivered = {}, asked = {}, settled = {}, low = {}, floor = {} }
    for p = 0, partitions - 1 do
      g.delivered[p], g.asked[p], g.settled[p], g.low[p], g.floor[p] = {}, {}, {}, 0, 0
    end
    self.groups[name] = g
  end
  return self
end

--- It is on its way, perhaps again after a refusal.
function LogLedger:sending(text) self.sent[text], self.refused[text] = true, nil end

--- Somebody was told that the message is there.
function LogLedger:seen(partition, offset, text)
  local known, place = self.at[partition][offset], ('%d:%d'):format(partition, offset)
  if not self.sent[text] then broken('%s has %q, which was never published', place, text) end
  if known and known ~= text then broken('%s was %q and is %q', place, known, text) end
  if self.place[text] and self.place[text] ~= place then
    broken('%q was published once, and is at %s and at %s', text, self.place[text], place)
  end
  if self.is_strict and self.refused[text] then broken('%q was refused and is at %s', text, place) end
  self.at[partition][offset], self.place[text] = text, place
end

function LogLedger:confirm(text, partition, offset)
  if not self.at[partition] then broken('%q was put in partition %d of %d', text, partition, self.partitions) end
  self:seen(partition, offset, text)
end

function LogLedger:refuse(text) self.refused[text] = true end

--- The broker is another one from now on. After a clean stop it has written what was settled.
---@param is_clean boolean?
function LogLedger:restarted(is_clean)
  self.life = self.life + 1
  if not is_clean then return end
  for _, g in pairs(self.groups) do
    for p = 0, self.partitions - 1 do
      -- What was settled behind a hole is read again, and must be settled again.
      while g.settled[p][g.floor[p]] == self.life - 1 do g.floor[p] = g.floor[p] + 1 end
    end
  end
end

--- Redis has this as the committed offset of the group.
function LogLedger:committed(name, partition, offset)
  local g = self.groups[name]
  if offset < g.floor[partition] then
    broken('%s had committed %d of partition %d, and now %d', name, g.floor[partition], partition, offset)
  end
  for i = g.low[partition], offset - 1 do
    if self.keeps_all and not g.asked[partition][i] then
      broken('%s has committed %d of partition %d, and nobody has settled %d', name, offset, partition, i)
    end
  end
  g.floor[partition] = offset
end

--- It is moved there, in all partitions: it may start again there, or where it was.
function LogLedger:seeking(name, offset)
  local g = self.groups[name]
  for p = 0, self.partitions - 1 do
    g.floor[p] = math.min(g.floor[p], offset)
    g.settled[p] = {}
  end
end

--- A member was given a message.
---@param held table<integer, { is_refused: boolean }> what its connection has been given of the partition, by
---  offset, and has not acknowledged
---@param attempt integer
function LogLedger:delivered(name, partition, offset, text, held, attempt)
  local g = self.groups[name]
  self:seen(partition, offset, text)
  local where = ('%d:%d for %s'):format(partition, offset, name)
  if offset < g.floor[partition] then broken('%s comes, though %d is committed', where, g.floor[partition]) end
  if g.settled[partition][offset] == self.life then broken('%s was settled with an OK, and comes again', where) end
  if held[offset] and not held[offset].is_refused then broken('%s comes to a member that holds it', where) end
  for i = g.low[partition], offset - 1 do
    if self.keeps_all and not g.asked[partition][i] and not held[i] then
      broken('%s comes (attempt %d) before %d is settled, and its member does not hold that', where, attempt, i)
    end
  end
  g.delivered[partition][offset] = true
end

--- An ack is on its way: it may be settled from now on.
function LogLedger:asking(name, partition, offset)
  local g = self.groups[name]
  g.asked[partition][offset] = true
  while g.asked[partition][g.low[partition]] do g.low[partition] = g.low[partition] + 1 end
end

--- The ack was answered OK.
function LogLedger:settled(name, partition, offset) self.groups[name].settled[partition][offset] = self.life end

--- Each partition was read from its first message to its end, without a gap: what was seen
--- or confirmed and has not come is lost.
---@param starts table<integer, integer>
---@param ends table<integer, integer>
function LogLedger:expect_all(starts, ends)
  for p = 0, self.partitions - 1 do
    if self.keeps_all and starts[p] > 0 then broken('partition %d begins at %d', p, starts[p]) end
    for offset in pairs(self.at[p]) do
      if offset >= ends[p] then broken('%d:%d was seen, and partition %d ends at %d', p, offset, p, ends[p]) end
    end
  end
end

--- Each group has gone through everything.
---@param starts table<integer, integer>
---@param ends table<integer, integer>
function LogLedger:expect_delivered(starts, ends)
  for name, g in pairs(self.groups) do
    for p = 0, self.partitions - 1 do
      for offset = starts[p], ends[p] - 1 do
        if not g.delivered[p][offset] then broken('%s was never given %d:%d', name, p, offset) end
      end
    end
  end
end

return LogLedger
