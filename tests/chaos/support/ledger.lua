--- A model of what the broker has promised about each message, kept by a test while it
--- publishes, takes and settles. A message has one copy in each queue that takes it.
---
--- A copy `must` come while it is confirmed and nobody has asked for its removal. It `may`
--- come, from the queues in `places`, from the moment that it is sent until its removal is
--- answered. Anything else is a broken promise: `seen` and `expect_nothing_lost` raise a
--- table { broken = text }, which no failure of a connection looks like.

local socket = require 'socket'

---@class Copy
---@field text string payload: the identity of the message
---@field queue string the queue that took it
---@field places table<string, true> where it may come from now
---@field must boolean
---@field id string? of the confirm
---@field was_handed_out boolean a consumer has had it
---@field fields Fields

---@class Fields what a delivery must show
---@field exchange string
---@field key string
---@field pri string?
---@field headers table<string, string>?

---@class Ledger
local Ledger = {}
Ledger.__index = Ledger

---@param trail file*? each event is written there
---@return Ledger
function Ledger.new(trail) return setmetatable({ copies = {}, ids = {}, last_id = '', trail = trail }, Ledger) end

--- A line of the trail, for who looks for the cause of a broken promise.
---@param format string
function Ledger:note(format, ...)
  if not self.trail then return end
  self.trail:write(('%.3f '):format(socket.gettime()), format:format(...), '\n')
end

local function broken(format, ...) error({ broken = format:format(...) }, 0) end
Ledger.broken = broken

local function name_of(text, queue) return queue .. '\0' .. text end

---@param text string
---@param queue string
---@return Copy?
function Ledger:copy(text, queue) return self.copies[name_of(text, queue)] end

--- A publish is on its way.
---@param text string
---@param queues string[]
---@param fields Fields
function Ledger:sent(text, queues, fields)
  self:note('sent %q to %s', text:match '^%S*', queues[1])
  for _, queue in ipairs(queues) do
    self.copies[name_of(text, queue)] = self:copy(text, queue) or {
      text = text, queue = queue, places = { [queue] = true }, must = false, fields = fields,
    }
  end
end

--- The publish was answered OK, with an id that no other message has.
---@param is_duplicate boolean? it is a repetition, and the id is that of the first
function Ledger:confirmed(text, queues, id, is_duplicate)
  self:note('confirmed %q as %s%s', text:match '^%S*', id, is_duplicate and ', a duplicate' or '')
  local owner = self.ids[id]
  if owner and owner ~= text then broken('id %s was given to %q and to %q', id, owner, text) end
  if not owner and not is_duplicate and id <= self.last_id then
    broken('id %s of %q is not above %s', id, text, self.last_id)
  end
  self.ids[id] = text
  if id > self.last_id then self.last_id = id end
  for _, queue in ipairs(queues) do
    local copy = self:copy(text, queue)
    copy.id = id
    if not copy.is_unwanted then copy.must = true end
  end
end

--- Its removal is asked for (ack, purge, delete): it may come or not.
---@param copy Copy
function Ledger:removing(copy)
  self:note('removing %q of %s', copy.text:match '^%S*', copy.queue)
  copy.must, copy.is_unwanted = false, true
end

--- Its removal from a queue was answered.
---@param copy Copy
---@param queue string
function Ledger:removed(copy, queue)
  self:note('removed %q of %s from %s', copy.text:match '^%S*', copy.queue, queue)
  copy.must, copy.is_unwanted = false, true
  copy.places[queue] = nil
end

--- Its removal was refused: somebody else has it.
---@param copy Copy
function Ledger:kept(copy)
  self:note('kept %q of %s', copy.text:match '^%S*', copy.queue)
  copy.must, copy.is_unwanted = copy.id ~= nil, false
end

--- It is on its way to another queue: it must be in one of the two, and may be in both.
---@param copy Copy
---@param queue string
function Ledger:moving(copy, queue)
  self:note('moving %q of %s to %s', copy.text:match '^%S*', copy.queue, queue)
  copy.places[queue] = true
end

---@param queue string
---@return Copy[] that may be there
function Ledger:copies_in(queue)
  local copies = {}
  for _, copy in pairs(self.copies) do
    if copy.places[queue] then copies[#copies + 1] = copy end
  end
  return copies
end

local function expect_same(copy, what, expected, got)
  if expected ~= got then
    broken('%q of %s has %s=%s, published with %s', copy.text, copy.queue, what, tostring(got), tostring(expected))
  end
end

local function expect_headers(copy, got)
  local expected = copy.fields.headers or {}
  for name, value in pairs(expected) do expect_same(copy, 'h:' .. name, value, got[name]) end
  for name, value in pairs(got) do
    if not name:find '^x%-death%-' then expect_same(copy, 'h:' .. name, expected[name], value) end
  end
end

--- A message is in a queue, as a delivery or PEEK shows it.
---@param queue string
---@param text string
---@param shown { id: string, pri: string, exchange: string, key: string, headers: table<string, string> }
---@return Copy
function Ledger:seen(queue, text, shown)
  self:note('seen %q in %s as %s', text:match '^%S*', queue, shown.id)
  local origin = shown.headers['x-death-queue'] or queue
  local copy = self:copy(text, origin)
  if not copy then broken('%q of %s was never published', text, origin) end
  if not copy.places[queue] then broken('%q was removed from %s with an OK and comes back', text, queue) end
  expect_headers(copy, shown.headers)
  expect_same(copy, 'pri', copy.fields.pri or '0', shown.pri)
  if queue == origin then
    expect_same(copy, 'exchange', copy.fields.exchange, shown.exchange)
    expect_same(copy, 'key', copy.fields.key, shown.key)
    if copy.id then expect_same(copy, 'id', copy.id, shown.id) end
  end
  return copy
end

--- Nothing that had to come is left.
function Ledger:expect_nothing_lost()
  for _, copy in pairs(self.copies) do
    if copy.must then broken('%q of %s was confirmed (%s) and is lost', copy.text, copy.queue, copy.id) end
  end
end

return Ledger
