--- The life of messages in the model: states, routes, failures, time, limits. See spec.lua.
local M = {}

local RETRY_MAX = 20 -- failures, of the scripts immediate and fixed

-- ---- messages ----------------------------------------------------------------

function M.is_before(a, b)
  if a.rank ~= b.rank then return a.rank < b.rank end
  return a.id < b.id
end

---@return table[] the messages of the queue in this state, in the order in which they would be delivered
function M.in_state(queue, state)
  local list = {}
  for _, msg in ipairs(queue.msgs) do
    if msg.state == state then list[#list + 1] = msg end
  end
  if state == 'ready' then
    -- An id that is not known yet is a copy's, and above those that are: it is the latest.
    table.sort(list, function(a, b)
      if a.rank ~= b.rank or (a.id and b.id) then return M.is_before(a, b) end
      return a.id and not b.id
    end)
  elseif state == 'delayed' then
    table.sort(list, function(a, b) return a.due < b.due or (a.due == b.due and a.delayed < b.delayed) end)
  elseif state == 'buried' then
    table.sort(list, function(a, b) return a.buried < b.buried end)
  end
  return list
end

function M.is_waiting(msg)
  return msg.state == 'ready' or msg.state == 'delayed'
end

local function waiting(queue)
  return #M.in_state(queue, 'ready') + #M.in_state(queue, 'delayed')
end

local function forget_holder(msg)
  if msg.holder then msg.holder.client.held[msg.tag] = nil end
  msg.holder, msg.tag = nil, nil
end

function M.remove(queue, msg)
  forget_holder(msg)
  for i, other in ipairs(queue.msgs) do
    if other == msg then table.remove(queue.msgs, i) break end
  end
  if queue.dedupe == 'queued' and msg.pub_id then queue.ids[msg.pub_id] = nil end
end

function M.rank_of(queue, priority)
  return queue.priority == 'strict' and -priority or 0
end

function M.add(self, queue, from)
  local msg = {
    payload = from.payload, id = from.id, exchange = from.exchange, key = from.key, priority = from.priority,
    rank = M.rank_of(queue, from.priority), state = 'ready', deliveries = 0, failures = 0, death = from.death,
    pub_id = from.pub_id, queue = queue,
  }
  local begins = self.now + (from.delay or 0)
  if (from.delay or 0) > 0 then M.delay(self, msg, from.delay) end
  if from.ttl then msg.expires = begins + from.ttl end
  if queue.ttl > 0 then msg.expires = math.min(msg.expires or math.huge, begins + queue.ttl) end
  if msg.id then queue.had[msg.id] = true end
  queue.msgs[#queue.msgs + 1] = msg
  queue.peak = math.max(queue.peak, #queue.msgs)
  return msg
end

-- ---- order within groups -----------------------------------------------------

local function group_of(msg)
  return msg.queue.order_by == 'key' and msg.key or msg.queue.order_by
end

local function is_at_work(msg)
  return msg.state == 'unacked' or (msg.state == 'delayed' and msg.deliveries > 0)
end

--- The ready messages that a consumer could get now, in their order: of a group that is at work, none;
--- of others as many as may be at work together.
---@return table[]
function M.deliverable(queue)
  local ready, at_work, list = M.in_state(queue, 'ready'), {}, {}
  if not queue.order_by then return ready end
  for _, msg in ipairs(queue.msgs) do
    if is_at_work(msg) then at_work[group_of(msg)] = (at_work[group_of(msg)] or 0) + 1 end
  end
  for _, msg in ipairs(ready) do
    local n = (at_work[group_of(msg)] or 0) + 1
    at_work[group_of(msg)] = n
    if n <= queue.inflight then list[#list + 1] = msg end
  end
  return list
end

-- ---- where a message goes ----------------------------------------------------

function M.make_ready(msg)
  forget_holder(msg)
  msg.state, msg.due = 'ready', nil
end

function M.delay(self, msg, ms)
  M.make_ready(msg)
  if ms <= 0 then return end
  -- Of those for the same time the first comes first.
  self.delays = self.delays + 1
  msg.state, msg.due, msg.delayed = 'delayed', self.now + ms, self.delays
end

function M.bury(self, msg)
  M.make_ready(msg)
  self.buried = self.buried + 1
  msg.state, msg.buried = 'buried', self.buried
end

-- ---- routing -----------------------------------------------------------------

local function words_of(key)
  local list = {}
  for word in (key .. '.'):gmatch '([^.]*)%.' do list[#list + 1] = word end
  return list
end

local function topic_pattern_matches(pattern, key, i, j)
  if i > #pattern then return j > #key end
  if pattern[i] == '#' then
    for skip = j, #key + 1 do
      if topic_pattern_matches(pattern, key, i + 1, skip) then return true end
    end
    return false
  end
  return j <= #key and (pattern[i] == '*' or pattern[i] == key[j]) and topic_pattern_matches(pattern, key, i + 1, j + 1)
end

local function binding_matches(exchange, pattern, key)
  if exchange.type == 'fanout' then return true end
  if exchange.type == 'direct' then return pattern == key end
  return topic_pattern_matches(words_of(pattern), words_of(key), 1, 1)
end

--- The queues that a message goes to, or nil: there is no such exchange.
---@return table[]?
function M:route(exchange, key)
  if exchange == '-' then return { self.queues[key] } end
  local found, seen = {}, {}
  if not self.exchanges[exchange] then return nil end
  for _, binding in ipairs(self.exchanges[exchange].bindings) do
    local queue = self.queues[binding.queue]
    if not seen[queue] and binding_matches(self.exchanges[exchange], binding.pattern, key) then
      seen[queue] = true
      found[#found + 1] = queue
    end
  end
  return found
end

function M.is_full(queue)
  return queue.max_length > 0 and queue.overflow == 'reject' and waiting(queue) >= queue.max_length
end

--- The publish id that goes with the message, and that REDRIVE brings back.
function M.kept_id(msg)
  return msg.queue.dedupe == 'queued' and msg.pub_id or msg.death and msg.death.pub_id
end

-- ---- failures ----------------------------------------------------------------

function M.dead_letter(self, msg)
  local target = msg.queue.dead_letter
  local key = target and (target.key or msg.key)
  local queues = target and self:route(target.exchange, key) or {}
  msg.state = 'moving' -- it does not wait where it is, should it come back there
  for _, queue in ipairs(queues) do
    if queue.paused_in or M.is_full(queue) then queues = {} end
  end
  if #queues == 0 then return M.bury(self, msg) end
  M.remove(msg.queue, msg)
  local death = { queue = msg.queue.name, exchange = msg.exchange, key = msg.key, pub_id = M.kept_id(msg) }
  for _, queue in ipairs(queues) do
    M.add(self, queue, {
      payload = msg.payload, exchange = target.exchange, key = key, priority = msg.priority, death = death,
    })
  end
end

function M.has_expired(self, msg)
  return msg.expires and msg.expires <= self.now
end

--- How long the retry script and the limits make it wait; nil: it is dead-lettered.
local function retry_delay(msg, asked)
  local queue = msg.queue
  if queue.delivery_limit > 0 and msg.failures >= queue.delivery_limit then return nil end
  if asked then return asked end
  if queue.retry == 'none' or msg.failures >= RETRY_MAX then return nil end
  return queue.retry == 'fixed' and queue.retry_delay or 0
end

--- Expiry is no failure: no script of these queues buries what has expired.
function M.expire(self, msg)
  forget_holder(msg)
  if msg.queue.dead_letter then return M.dead_letter(self, msg) end
  M.remove(msg.queue, msg)
end

function M.fail(self, msg, reason, how, asked)
  msg.failures, msg.reason = msg.failures + 1, reason
  forget_holder(msg)
  if how == 'bury' then return M.bury(self, msg) end
  local wait = how ~= 'dead' and retry_delay(msg, asked)
  if not wait then return M.dead_letter(self, msg) end
  if M.has_expired(self, msg) then return M.expire(self, msg) end
  M.delay(self, msg, wait)
end

--- What was held and is given back without a failure.
function M.give_back(self, msg)
  M.make_ready(msg)
  if M.has_expired(self, msg) then M.expire(self, msg) end
end

-- ---- time ----------------------------------------------------------------------

---@param ms integer
function M:step_clock(ms)
  self.is_loose = true
  self.now = self.now + ms
  for _, queue in pairs(self.queues) do
    for _, msg in ipairs(M.in_state(queue, 'delayed')) do
      if msg.due <= self.now then M.make_ready(msg) end
    end
  end
  self:expire_all()
end

--- In the order of their time: one that goes has room for dead letters that come later.
function M:expire_all()
  local gone = {}
  for _, queue in pairs(self.queues) do
    for place, msg in ipairs(queue.msgs) do
      if M.is_waiting(msg) and M.has_expired(self, msg) then gone[#gone + 1] = { msg = msg, place = place } end
    end
  end
  table.sort(gone, function(a, b)
    local one, other = a.msg, b.msg
    if one.expires ~= other.expires then return one.expires < other.expires end
    if one.queue ~= other.queue then return one.queue.name < other.queue.name end
    return a.place < b.place
  end)
  for _, each in ipairs(gone) do M.expire(self, each.msg) end
end

function M.is_over(queue)
  return queue.max_length > 0 and queue.overflow ~= 'reject' and waiting(queue) > queue.max_length
end

function M.give_up(self, msg)
  if msg.queue.overflow:find '^dead%-letter' then M.dead_letter(self, msg) else M.remove(msg.queue, msg) end
end

--- What goes when a queue is over its limit: the first of these, or the last.
function M.too_much(queue)
  local list = M.in_state(queue, 'ready')
  if #list == 0 then list = M.in_state(queue, 'delayed') end
  if not queue.overflow:find 'lowest$' then return list[1] end
  for _, msg in ipairs(list) do
    if not msg.id then return msg end -- it may be behind all others
  end
  return list[#list]
end

--- What a queue gives up once nobody takes more of it, unless it refuses.
function M:overflow()
  -- While much changes at once, which is first when it is looked at is not certain: see compare.
  if self.is_loose then return end
  for _, queue in pairs(self.queues) do
    while M.is_over(queue) do
      local msg = M.too_much(queue)
      if not msg.id then break end -- its place is not known: see compare
      M.give_up(self, msg)
    end
  end
end

return M
