--- The specification as a small model: queues are sets of messages with a state. `request` says
--- whether an answer is allowed, and what follows from it. `deliver` does the same for a message
--- that a consumer gets. A violation is an error with a text.
local compare = require 'model.compare'
local lease = require 'model.lease'
local life = require 'model.life'

local M = setmetatable({}, { __index = compare })
M.__index = M

local MINUTE = 60000
local UNITS = { ms = 1, s = 1000, m = MINUTE, h = 60 * MINUTE, d = 1440 * MINUTE, [''] = 1 }
local DEDUPE_WINDOW = 2 * MINUTE
local SMALLEST_WINDOW = 15 -- messages that a queue has had before Redis alone has some

local find = compare.find
local is_before = life.is_before
local remove = life.remove
local add = life.add
local make_ready = life.make_ready
local delay = life.delay
local rank_of = life.rank_of
local is_full = life.is_full
local expire = life.expire
local fail = life.fail
local give_back = life.give_back
local has_expired = life.has_expired

local function violated(format, ...)
  error({ violation = format:format(...) }, 0)
end

---@param text string
---@return integer milliseconds
function M.duration(text)
  local n, unit = text:match '^(%d+)(%a*)$'
  return math.tointeger(tonumber(n)) * UNITS[unit]
end

---@param clients integer how many clients there are
function M.new(clients)
  local self = setmetatable({ queues = {}, exchanges = {}, clients = {}, now = 0, buried = 0, delays = 0 }, M)
  for i = 1, clients do self:reset_client(i) end
  return self
end

function M:reset_client(number)
  self.clients[number] = { number = number, subs = {}, held = {}, lapsed = {}, consumers = {}, tags = 0 }
end

-- ---- consumers -----------------------------------------------------------------

local function has_credit(sub)
  return sub.auto or sub.unacked() < (sub.is_stalled and 1 or sub.prefetch)
end

---@return string? why the model is not at rest: somebody must get a message
function M:stuck()
  for name, queue in pairs(self.queues) do
    if not queue.paused_out and #M.deliverable(queue) > 0 then
      for _, client in ipairs(self.clients) do
        for sid, sub in pairs(client.subs) do
          if sub.queue == queue and has_credit(sub) then
            return ('queue %s has ready messages, and subscription %s of client %d has credit'):format(
              name, sid, client.number)
          end
        end
      end
    end
  end
end

--- Must another message of its group come before?
local function is_early(sub, queue, msg)
  if not queue.order_by or queue.inflight > 1 or sub.auto or sub.by_id then return false end
  for _, other in ipairs(M.deliverable(queue)) do
    if other == msg then return false end
  end
  return true
end

--- A client gets a message: `sub` is its subscription, or what stands for the GET.
local function deliver(self, client, sub, queue, delivery)
  local msg = find(queue, delivery.payload, delivery.options.id)
  if not msg and not self:stuck() then -- another queue has given it up at its limit
    self:overflow()
    msg = find(queue, delivery.payload, delivery.options.id)
  end
  local what = ('%s of queue %s'):format(delivery.payload, queue.name)
  if not msg then violated('a delivery of %s, which the queue does not have', what) end
  if msg.state ~= 'ready' and not sub.by_id then violated('a delivery of %s, which is %s', what, msg.state) end
  if has_expired(self, msg) and not sub.by_id then violated('a delivery of %s, which has expired', what) end
  if queue.paused_out then violated('a delivery of %s, which is paused', what) end
  if is_early(sub, queue, msg) then violated('a delivery of %s out of the order of its group', what) end
  if delivery.attempt ~= msg.failures + 1 and delivery.attempt ~= (msg.failures_or or -1) + 1 then
    violated('a delivery of %s: attempt %d, not %d', what, delivery.attempt, msg.failures + 1)
  end
  msg.failures, msg.failures_or = delivery.attempt - 1, nil
  if msg.deliveries > 0 and not msg.deliveries_or and not delivery.redelivered then
    violated('%s is not marked redelivered', what)
  end
  if delivery.redelivered and msg.deliveries == 0 and not msg.doubtful then
    violated('%s is marked redelivered at its first delivery', what)
  end
  msg.deliveries = msg.deliveries + 1
  msg.deliveries_or = msg.deliveries_or and msg.deliveries_or + 1
  if tonumber(delivery.options.pri or 0) ~= msg.priority then
    violated('%s has priority %s, not %d', what, delivery.options.pri or 0, msg.priority)
  end
  if delivery.exchange ~= msg.exchange or delivery.key ~= msg.key then
    violated('%s comes from %s/%s, not %s/%s', what, delivery.exchange, delivery.key, msg.exchange, msg.key)
  end
  if sub.auto then
    if delivery.tag ~= '-' then violated('%s has tag %s with ack=auto', what, delivery.tag) end
    remove(queue, msg)
    return
  end
  client.tags = client.tags + 1
  if delivery.tag ~= tostring(client.tags) then
    violated('%s has tag %s, not %d', what, delivery.tag, client.tags)
  end
  make_ready(msg)
  msg.state, msg.holder, msg.tag, msg.sub = 'unacked', { client = client }, client.tags, sub
  msg.is_short = false
  client.held[client.tags] = msg
end

--- Does a message of a subscription come before one of its group that another client may have had?
function M:is_early(number, delivery)
  local sub = self.clients[number].subs[delivery.sid]
  local msg = sub and find(sub.queue, delivery.payload, delivery.options.id)
  return msg and is_early(sub, sub.queue, msg)
end

--- A message of a subscription has come.
function M:deliver(number, delivery)
  local client = self.clients[number]
  self:end_leases()
  local sub = client.subs[delivery.sid]
  if not sub then violated('a delivery to %s, which is no subscription', delivery.sid) end
  if not has_credit(sub) then violated('a delivery to %s beyond its prefetch', delivery.sid) end
  deliver(self, client, sub, sub.queue, delivery)
  self:look_at_leases()
end

-- ---- faults --------------------------------------------------------------------

--- The connection has ended: each consumer's first message fails, the others return.
function M:disconnect(number)
  local client, first, tags = self.clients[number], {}, {}
  for tag in pairs(client.held) do tags[#tags + 1] = tag end
  table.sort(tags)
  for _, tag in ipairs(tags) do
    local msg = client.held[tag]
    local who = msg.sub.is_get or msg.sub -- all GETs count as one
    if not first[who] then
      first[who] = true
      fail(self, msg, 'gone')
    else
      give_back(self, msg)
    end
  end
  self:reset_client(number)
end

--- The client has left in order: all return.
function M:leave(number)
  local held = self.clients[number].held
  for tag = self.clients[number].tags, 1, -1 do
    if held[tag] then give_back(self, held[tag]) end
  end
  self:reset_client(number)
end

--- The broker has ended. After a kill the last delivery may not have been counted.
function M:restart(is_killed)
  for number, client in ipairs(self.clients) do
    for _, msg in pairs(client.held) do
      if is_killed then msg.deliveries_or = msg.deliveries - 1 end
      make_ready(msg)
    end
    self:reset_client(number)
  end
  for name, queue in pairs(self.queues) do
    if not queue.durable then
      self:forget_queue(name)
    end
    for _, msg in ipairs(queue.msgs) do msg.doubtful = true end
  end
  self:expire_all()
end

function M:forget_queue(name)
  local queue = self.queues[name]
  for _, msg in ipairs { table.unpack(queue.msgs) } do remove(queue, msg) end
  for _, client in ipairs(self.clients) do
    for sid, sub in pairs(client.subs) do
      if sub.queue == queue then client.subs[sid] = nil end
    end
  end
  for _, exchange in pairs(self.exchanges) do
    for i = #exchange.bindings, 1, -1 do
      if exchange.bindings[i].queue == name then table.remove(exchange.bindings, i) end
    end
  end
  self.queues[name] = nil
end

-- ---- requests --------------------------------------------------------------------

local function want(answer, pattern)
  if not answer:find(pattern) then violated('the answer is %q, not like %q', answer, pattern) end
end

local function need_queue(self, name, answer)
  local queue = self.queues[name]
  if not queue then want(answer, '^ERR not%-found ') end
  return queue
end

local verbs = {}

--- What the options of a DECLARE make of a queue.
local function set_options(queue, o)
  local exchange, key = (o['dead-letter'] or ''):match '^([^/]+)/?(.*)$'
  queue.options = o
  queue.durable, queue.priority, queue.retry = o.durable ~= '0', o.priority or 'fifo', o.retry or 'immediate'
  queue.retry_delay, queue.delivery_limit = M.duration(o['retry.delay'] or '10s'), tonumber(o['delivery-limit'] or 20)
  queue.dead_letter = exchange and { exchange = exchange, key = key ~= '' and key or nil }
  queue.max_length, queue.overflow = tonumber(o['max-length'] or 0), o.overflow or 'reject'
  queue.ttl, queue.shards = M.duration(o.ttl or '0'), tonumber(o.shards or 1)
  queue.dedupe = o.dedupe == 'queued' and 'queued' or M.duration(o.dedupe or tostring(DEDUPE_WINDOW))
  queue.order_by, queue.inflight = o['order-by'], tonumber(o.inflight or 1)
end

--- Of a queue that exists: these options over its own. Nil: they cannot be.
local function merge(queue, given)
  local has, o = queue.options, {}
  local function changes(name, default) return given[name] and (o[name] or default) ~= (has[name] or default) end
  for name, value in pairs(has) do o[name] = value end
  for name, value in pairs(given) do o[name] = value ~= '' and value or nil end
  if changes('retry', 'immediate') then o['retry.delay'] = given['retry.delay'] end
  if changes('durable', '1') or changes 'order-by' or (o['order-by'] and changes('shards', '1'))
    or (changes 'dedupe' and (o.dedupe == 'queued' or has.dedupe == 'queued'))
    or (o.overflow and (not o['max-length'] or (o.overflow:find '^dead' and not o['dead-letter']))) then
    return nil
  end
  return o
end

local function is_same(a, b)
  for name, value in pairs(a) do
    if b[name] ~= value then return false end
  end
  return true
end

function verbs.DECLARE(self, r)
  local kind, name = r.words[1], r.words[2]
  if kind == 'exchange' then
    local known = self.exchanges[name]
    if known and known.type ~= r.words[3] then return want(r.answer, '^ERR mismatch ') end
    want(r.answer, '^OK$')
    self.exchanges[name] = known or { type = r.words[3], bindings = {} }
    return
  end
  local queue = self.queues[name]
  if r.words[3] == 'update' then
    if not queue then return want(r.answer, '^ERR not%-found ') end
    local options = merge(queue, r.options)
    want(r.answer, options and '^OK' or '^ERR [ms][iy][sn]%a+ ')
    if options then set_options(queue, options) end
  elseif queue then
    local is_known = is_same(queue.options, r.options) and is_same(r.options, queue.options)
    want(r.answer, is_known and '^OK' or '^ERR mismatch ')
  else
    want(r.answer, '^OK')
    self.queues[name] = { name = name, msgs = {}, ids = {}, had = {}, peak = 0 }
    set_options(self.queues[name], r.options)
  end
end

function verbs.DELETE(self, r)
  local name = r.words[2]
  local queue = need_queue(self, name, r.answer)
  if not queue then return end
  if r.flags['if-empty'] and #queue.msgs > 0 then return want(r.answer, '^ERR exists ') end
  want(r.answer, '^OK$')
  self:forget_queue(name)
end

local function binding_of(self, r)
  local exchange = self.exchanges[r.words[2]]
  for i, binding in ipairs(exchange and exchange.bindings or {}) do
    if binding.queue == r.words[1] and binding.pattern == r.words[3] then return i end
  end
end

function verbs.BIND(self, r)
  local exchange = self.exchanges[r.words[2]]
  if not exchange or not self.queues[r.words[1]] then return want(r.answer, '^ERR not%-found ') end
  want(r.answer, '^OK$')
  if binding_of(self, r) then return end
  table.insert(exchange.bindings, { queue = r.words[1], pattern = r.words[3] })
end

function verbs.UNBIND(self, r)
  local i = binding_of(self, r)
  if not i then return want(r.answer, '^ERR not%-found ') end
  want(r.answer, '^OK$')
  table.remove(self.exchanges[r.words[2]].bindings, i)
end

local function duplicate_of(self, queue, pub_id)
  local seen = pub_id and queue.ids[pub_id]
  return seen and (not seen.ends or seen.ends > self.now) and seen
end

local function refusal(queues)
  for _, queue in ipairs(queues) do
    if queue.paused_in then return '^ERR [bf]u[sl][yl] ' end
    if is_full(queue) then return '^ERR [bf]u[sl][yl] ' end
  end
end

--- What a publish does: the pattern of its error, or its queues and those that take it.
local function decide(self, r)
  local o = r.options
  local queues = self:route(r.words[1], r.words[2])
  if not queues then return '^ERR not%-found ' end
  if #queues == 0 and r.flags.must then return '^ERR unroutable ' end
  local takers, ids = {}, {}
  for _, queue in ipairs(queues) do
    local seen = duplicate_of(self, queue, o.id)
    if seen then ids[seen.msg and seen.msg.id or seen.id] = true else takers[#takers + 1] = queue end
  end
  return refusal(takers), queues, takers, ids
end

local function publish(self, r, takers, id)
  local o = r.options
  for _, queue in ipairs(takers) do
    add(self, queue, {
      payload = r.payload, id = id, exchange = r.words[1], key = r.words[2], priority = tonumber(o.pri or 0),
      delay = o.delay and M.duration(o.delay), ttl = o.ttl and M.duration(o.ttl), pub_id = o.id,
    })
    if o.id and queue.dedupe ~= 0 then
      queue.ids[o.id] = { id = id, ends = queue.dedupe ~= 'queued' and self.now + queue.dedupe or nil }
    end
  end
end

function verbs.PUB(self, r)
  local refused, queues, takers, ids = decide(self, r)
  if refused then return want(r.answer, refused) end
  local is_duplicate = #queues > 0 and #takers == 0
  want(r.answer, ('^OK %%x+ %d%s$'):format(#queues, is_duplicate and ' duplicate' or ''))
  local id = r.answer:match '^OK (%x+)'
  if is_duplicate and not ids[id] then violated('a repetition has id %s, which no queue knows', id) end
  publish(self, r, takers, id)
end

function verbs.SUB(self, r)
  local client, sid = self.clients[r.client], r.words[2]
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  if client.subs[sid] then return want(r.answer, '^ERR exists ') end
  want(r.answer, '^OK$')
  local sub = { queue = queue, prefetch = tonumber(r.options.prefetch or 100), auto = r.options.ack == 'auto' }
  function sub.unacked()
    local n = 0
    for _, msg in pairs(client.held) do if msg.sub == sub then n = n + 1 end end
    return n
  end
  client.subs[sid] = sub
end

function verbs.UNSUB(self, r)
  local client, sid = self.clients[r.client], r.words[1]
  if not client.subs[sid] then return want(r.answer, '^ERR not%-found ') end
  want(r.answer, '^OK$')
  client.subs[sid] = nil
end

local function get_by_id(self, r, queue, client)
  local msg
  for _, other in ipairs(queue.msgs) do if other.id == r.options.id then msg = other end end
  if not msg then return want(r.answer, '^ERR not%-found ') end
  if msg.state == 'unacked' or queue.paused_out then return want(r.answer, '^ERR busy ') end
  want(r.answer, '^OK 1$')
  local sub = { is_get = 'get', by_id = true, auto = r.options.ack == 'auto' }
  deliver(self, client, sub, queue, r.messages[1])
end

function verbs.GET(self, r)
  local client, queues = self.clients[r.client], {}
  for i, name in ipairs(r.words) do
    queues[i] = need_queue(self, name, r.answer)
    if not queues[i] then return end
  end
  if r.options.id then return get_by_id(self, r, queues[1], client) end
  local max, n = tonumber(r.options.max or 1), 0
  local sub = { is_get = 'get', auto = r.options.ack == 'auto' }
  for _, queue in ipairs(queues) do
    while n < max and not queue.paused_out do
      local first = M.deliverable(queue)[1]
      if not first then break end
      n = n + 1
      local delivery = r.messages[n]
      if not delivery then
        -- What Redis alone has is read back first; until then later queues give nothing.
        if queue.peak >= SMALLEST_WINDOW then return end
        violated('GET gave %d messages; queue %s has more', n - 1, queue.name)
      end
      local msg = find(queue, delivery.payload, delivery.options.id)
      if queue.shards == 1 and msg and first.id and first ~= msg and is_before(first, msg) then
        violated('GET gave %s before %s of queue %s', msg.payload, first.payload, queue.name)
      end
      deliver(self, client, sub, queue, delivery)
    end
  end
  if #r.messages > n then violated('GET gave %d messages, not %d', #r.messages, n) end
end

--- The messages of the tags, or nil: the answer is an error, and has been looked at.
local function held_by(self, r)
  local client, found, is_lost, lapsed = self.clients[r.client], {}, false, {}
  for _, word in ipairs(r.words) do
    local first, last = word:match '^(%d+)%-?(%d*)$'
    first = tonumber(first)
    last = tonumber(last) or first
    if first > client.tags then want(r.answer, '^ERR not%-found ') return nil end
    local n = #found
    for tag = first, last do
      local msg = client.held[tag]
      if msg and not (r.is_kept and client.kept[msg] == msg.tag) then found[#found + 1] = msg end
      if r.verb == 'ACK' and not r.is_kept and client.lapsed[tag] then
        n = -1
        lapsed[#lapsed + 1] = tag
      end
    end
    if #found == n then is_lost = true end
  end
  if is_lost then want(r.answer, '^ERR lease%-lost ') return nil end
  local count = #found + lease.ack_late(client, lapsed)
  if count == 0 then want(r.answer, '^ERR lease%-lost ') return nil end
  want(r.answer, r.is_kept and '^OK queued$' or ('^OK %d$'):format(count))
  return found
end

local function settle(self, r, msg)
  local o, flags = r.options, r.flags
  if msg.sub and not r.is_kept then lease.progress(msg, flags.requeue) end
  if r.verb == 'ACK' then return remove(msg.queue, msg) end
  if o.pri then
    msg.priority = tonumber(o.pri)
    msg.rank = rank_of(msg.queue, msg.priority)
  end
  if flags.requeue then return give_back(self, msg) end
  local asked = o.delay and M.duration(o.delay) or nil
  fail(self, msg, flags.dead and 'rejected' or 'nack', flags.bury and 'bury' or flags.dead and 'dead', asked)
end

function verbs.ACK(self, r)
  for _, msg in ipairs(held_by(self, r) or {}) do
    settle(self, r, msg)
    self:look_at_leases()
  end
end

verbs.NACK = verbs.ACK

--- With for=10ms the lease of the oldest ends; that of another will be so short.
function verbs.TOUCH(self, r)
  local how = r.options['for']
  for _, msg in ipairs(held_by(self, r) or {}) do
    local sub = msg.sub
    if msg.tag ~= sub.oldest then
      sub.has_settled = true
      msg.is_short = how == '10ms' or (not how and msg.is_short)
    else
      sub.is_ending = how == '10ms'
    end
  end
end

function verbs.PURGE(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  local n = 0
  for _, msg in ipairs { table.unpack(queue.msgs) } do
    if msg.state ~= 'unacked' then
      n = n + 1
      remove(queue, msg)
    end
  end
  want(r.answer, ('^OK %d$'):format(n))
end

local function by_id(queue, id)
  for _, msg in ipairs(queue.msgs) do if msg.id == id then return msg end end
end

local function kick(self, msg)
  msg.failures = 0
  make_ready(msg)
  if has_expired(self, msg) then expire(self, msg) end
end

function verbs.KICK(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  if r.options.id then
    local msg = by_id(queue, r.options.id)
    local can = msg and (msg.state == 'buried' or msg.state == 'delayed')
    want(r.answer, can and '^OK 1$' or '^OK 0$')
    if can then kick(self, msg) end
    return
  end
  local msgs = M.in_state(queue, 'buried')
  if #msgs == 0 and r.words[2] then msgs = M.in_state(queue, 'delayed') end
  local n = math.min(#msgs, tonumber(r.words[2] or #msgs))
  want(r.answer, ('^OK %d$'):format(n))
  for i = 1, n do kick(self, msgs[i]) end
end

function verbs.REMOVE(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  local n = 0
  for i = 2, #r.words do
    local msg = by_id(queue, r.words[i])
    if msg then
      n = n + 1
      remove(queue, msg)
    end
  end
  want(r.answer, ('^OK %d$'):format(n))
end

function verbs.RESCHEDULE(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  local n = 0
  for i = 2, #r.words do
    local msg = by_id(queue, r.words[i])
    if msg and msg.state ~= 'unacked' then
      n = n + 1
      if msg.state == 'buried' then msg.failures = 0 end
      delay(self, msg, M.duration(r.options.delay))
      if has_expired(self, msg) then expire(self, msg) end
    end
  end
  want(r.answer, ('^OK %d$'):format(n))
end

function verbs.FIND(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  local msg = by_id(queue, r.words[2])
  if not msg then return want(r.answer, '^ERR not%-found ') end
  want(r.answer, '^DATA ')
  if r.document.state ~= msg.state then violated('FIND says %s, not %s', r.document.state, msg.state) end
  if (r.document.holder ~= nil) ~= (msg.state == 'unacked') then violated('FIND is wrong about the holder') end
  if msg.holder and r.document.holder.tag ~= msg.tag then
    violated('FIND says tag %s, not %s', r.document.holder.tag, msg.tag)
  end
end

function verbs.PEEK(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  want(r.answer, '^DATA ')
  local state, max = r.options.state or 'ready', tonumber(r.words[2] or 1)
  local n, what = 0, r.options.match
  for _, msg in ipairs(M.in_state(queue, state)) do
    if not what or msg.payload:find(what, 1, true) then n = n + 1 end
  end
  if #r.document.messages ~= math.min(n, max) then
    violated('PEEK shows %d messages of %d', #r.document.messages, n)
  end
end

local function directions(word)
  return word ~= 'out', word ~= 'in'
end

function verbs.PAUSE(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  want(r.answer, '^OK$')
  local is_in, is_out = directions(r.words[2])
  queue.paused_in, queue.paused_out = queue.paused_in or is_in, queue.paused_out or is_out
end

function verbs.RESUME(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  want(r.answer, '^OK$')
  local is_in, is_out = directions(r.words[2] or 'both')
  if is_in then queue.paused_in = false end
  if is_out then queue.paused_out = false end
end

--- The queues that get it, and the publish id that it has there.
local function redriven(self, r, msg)
  local to, id = msg.death, life.kept_id(msg)
  if not to then return {} end
  local queues = { self.queues[to.queue] }
  if r.flags.routed then queues = self:route(to.exchange, to.key) or {} end
  local only = (not r.flags.routed or to.exchange == '-') and queues[1]
  if not id or not only or only.dedupe ~= 'queued' then return queues end
  return duplicate_of(self, only, id) and {} or queues, id
end

function verbs.REDRIVE(self, r)
  local queue = need_queue(self, r.words[1], r.answer)
  if not queue then return end
  local moved, left = 0, 0
  for _, msg in ipairs(M.in_state(queue, 'ready')) do
    local to = msg.death
    local queues, id = redriven(self, r, msg)
    msg.state = 'moving' -- it does not wait where it is, should it come back there
    local is_refused = refusal(queues)
    if is_refused or #queues == 0 then msg.state = 'ready' end
    if is_refused then return want(r.answer, '^ERR %a+ .*' .. (moved > 0 and moved or '')) end
    if #queues == 0 then
      left = left + 1
    else
      moved = moved + 1
      remove(queue, msg)
      for _, target in ipairs(queues) do
        local copy = add(self, target, {
          payload = msg.payload, exchange = to.exchange, key = to.key, priority = msg.priority, death = to,
          pub_id = id,
        })
        if id then target.ids[id] = { msg = copy } end
      end
    end
  end
  want(r.answer, ('^OK %d %d$'):format(moved, left))
end

function verbs.STATS(_, r) want(r.answer, '^DATA ') end
function verbs.LIST(_, r) want(r.answer, '^DATA ') end
function verbs.RULES(_, r) want(r.answer, '^DATA ') end
function verbs.PING(_, r) want(r.answer, '^OK$') end

-- ---- transactions ------------------------------------------------------------------

local transacted = {}

function transacted.PUB(self, r)
  if not self:route(r.words[1], r.words[2]) then return want(r.answer, '^ERR not%-found ') end
  want(r.answer, '^OK queued$')
  return {}
end

function transacted.ACK(self, r)
  r.is_kept = true
  if r.verb == 'NACK' and r.options.pri then return want(r.answer, '^ERR syntax ') end
  local found = held_by(self, r)
  for _, msg in ipairs(found or {}) do
    self.clients[r.client].kept[msg] = msg.tag
    msg.sub.is_stalled, msg.sub.has_settled = false, true
  end
  return found
end

transacted.NACK = transacted.ACK

--- A PUB, ACK or NACK of an open transaction: it is kept, or all of it has failed.
local function keep(self, r)
  local client = self.clients[r.client]
  if client.has_failed then return want(r.answer, r.options.pri and '^ERR [as]%a+ ' or '^ERR aborted ') end
  local settled = transacted[r.verb](self, r)
  if not settled then client.has_failed = r.answer:match '^ERR %S+' end
  -- Each by the delivery that it was settled by: it may come again, with another tag.
  local tags = {}
  for _, msg in ipairs(type(settled) == 'table' and settled or {}) do tags[msg] = msg.tag end
  table.insert(client.transaction, { request = r, settled = settled, tags = tags })
end

function verbs.BEGIN(self, r)
  local client = self.clients[r.client]
  if client.transaction then return want(r.answer, '^ERR exists ') end
  want(r.answer, '^OK$')
  client.transaction, client.kept, client.has_failed = {}, {}, nil
end

function verbs.ROLLBACK(self, r)
  local client = self.clients[r.client]
  if not client.transaction then return want(r.answer, '^ERR not%-found ') end
  want(r.answer, '^OK$')
  client.transaction = nil
end

--- The patterns of the errors that a COMMIT may have, and how many messages it publishes and settles.
local function decide_all(self, transaction)
  local errors, published, settled = {}, 0, 0
  for _, op in ipairs(transaction) do
    if op.request.verb == 'PUB' then
      local refused, queues, takers = decide(self, op.request)
      errors[#errors + 1], op.takers = refused, takers
      if not refused and (#takers > 0 or #queues == 0) then published = published + 1 end
    end
    for _, msg in ipairs(op.request.verb ~= 'PUB' and op.settled or {}) do
      settled = settled + 1
      if self.clients[op.request.client].held[op.tags[msg]] ~= msg then
        errors[#errors + 1] = '^ERR lease%-lost '
      end
    end
  end
  return errors, published, settled
end

function verbs.COMMIT(self, r)
  local client = self.clients[r.client]
  local transaction = client.transaction
  if not transaction then return want(r.answer, '^ERR not%-found ') end
  client.transaction = nil
  if client.has_failed then return want(r.answer, '^' .. client.has_failed:gsub('%-', '%%-') .. ' ') end
  local errors, published, settled = decide_all(self, transaction)
  for _, pattern in ipairs(errors) do
    if r.answer:find(pattern) then return end
  end
  want(r.answer, errors[1] or ('^OK %d %d$'):format(published, settled))
  for _, op in ipairs(transaction) do
    if op.takers then publish(self, op.request, op.takers) end
    for _, msg in ipairs(op.takers and {} or op.settled) do settle(self, op.request, msg) end
  end
end

M.verbs = verbs

--- Look at the answer to a request, and do what follows from it.
---@param r table client, line, verb, words, options, flags, payload, answer, messages, document
function M:request(r)
  local is_kept = transacted[r.verb] and self.clients[r.client].transaction
  if is_kept then keep(self, r) else verbs[r.verb](self, r) end
  self:look_at_leases()
end

return M
