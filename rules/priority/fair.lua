-- fair: weighted fair queueing. A tenant that floods the queue delays only itself. Each
-- tenant with messages gets its share. The others use what a tenant leaves.
--
-- The rank of a message is the virtual time at which it would end if all tenants were
-- served in parallel. It starts at the end of its tenant's previous message, or at the
-- time that the shard has reached if that is later: an absent tenant saves up nothing.
-- It ends cost / weight later.
--
--   DECLARE queue jobs priority=fair priority.by=tenant priority.weights=gold:3,trial:0.5

-- The account of all tenants that have no room of their own. Tenants are texts, so none
-- has this name.
local OTHERS <const> = 0

local function read_weights(list)
  local weights = {}
  for _, entry in ipairs(list or {}) do
    local tenant, weight = entry:match("^(.*):([%d.]+)$")
    weight = tonumber(weight)
    if not weight or weight <= 0 then
      error(("weights: '%s' is not tenant:weight with a weight above 0"):format(entry), 0)
    end
    weights[tenant] = weight
  end
  return weights
end

local function cost_of(msg, by)
  if by == "one" then
    return 1
  end
  local cost = by == "size" and msg.size or tonumber(msg.headers[by]) or 1
  -- 0, nan and inf are bounded: no message is free or delays its tenant for ever.
  return cost >= 1 and math.min(cost, 1e9) or 1
end

-- Forget the tenants whose last message has been served: they start at the shard's time
-- whether remembered or not. This looks at all tenants. When it frees few, some newcomers
-- share an account before the next look.
local function make_room(shard, max)
  shard.rest = shard.rest - 1
  if shard.rest > 0 then
    return
  end
  local before = shard.tenants
  for tenant, last in pairs(shard.last) do
    if last <= shard.time and tenant ~= OTHERS then
      shard.last[tenant] = nil
      shard.tenants = shard.tenants - 1
    end
  end
  shard.rest = math.max(1, max // 8 - (before - shard.tenants))
end

return {
  doc = "a fair share for each tenant, by weight",
  options = {
    by = { type = "string", default = "tenant", doc = "header that names the tenant" },
    weights = { type = "list",
                doc = "shares as tenant:weight; other tenants have 1" },
    cost = { type = "string", default = "one",
             doc = "cost of a message: 'one', 'size' (its bytes), or a header with a number" },
    tenants = { type = "integer", default = 10000, min = 1, max = 100000,
                doc = "tenants with an account of their own; more share one" },
  },

  -- Each queue has a state.
  new = function(opts)
    return { weights = read_weights(opts.weights), shards = {} }
  end,

  -- After a reload the messages of the tenants still wait, so they still count.
  carry = function(old, opts)
    return { weights = read_weights(opts.weights), shards = old.shards or {} }
  end,

  rank = function(msg, queue, opts, state)
    local shard = state.shards[queue.shard]
    if not shard then
      shard = { last = {}, tenants = 0, time = queue.served, rest = 1 }
      state.shards[queue.shard] = shard
    end
    -- A redelivered message has its old rank, which must not turn time back.
    shard.time = math.max(shard.time, queue.served)
    -- When nothing waits all tenants start equal: purged messages cost nothing.
    if queue.ready == 0 then
      shard.last, shard.tenants = {}, 0
    end

    local tenant = msg.headers[opts.by] or ""
    local account = tenant
    if not shard.last[tenant] then
      if shard.tenants >= opts.tenants then
        make_room(shard, opts.tenants)
      end
      if shard.tenants < opts.tenants then
        shard.tenants = shard.tenants + 1
      else
        account = OTHERS
      end
    end
    local last = math.max(shard.time, shard.last[account] or shard.time)
    local rank = last + cost_of(msg, opts.cost) / (state.weights[tenant] or 1)
    shard.last[account] = rank
    return rank
  end,
}
