-- rate_limit: limits messages per second for each value of a header, each user, or in all.
--
--   return tide.use("rate_limit", { match = { exchange = "orders" },
--     options = { by = "@user", rate = "50/s", burst = 100 } })
--
-- Each sender has a bucket of tokens, kept as one number: the time at which it is full
-- again (GCRA). Buckets outlive reloads and restarts, so a sender has no second burst.

local function sender_of(msg, by)
  if by == "@user" then
    return msg.user or ""
  elseif by == "@all" then
    return ""
  end
  return msg.headers[by] or ""
end

return {
  doc = "limit messages per second, for each value of a header or each user",
  options = {
    by = { default = "tenant", doc = "a header; @user: the publishing user; @all: one limit for all" },
    rate = { default = "100/s", doc = "messages; also 600/m, 5/10s" },
    burst = { type = "integer", default = 200, min = 1, doc = "messages at once, after a pause" },
    shape = { type = "boolean", default = false, doc = "delay messages instead of refusing them" },
    delay_max = { type = "duration", default = "30s", doc = "with shape: what would wait longer is refused" },
    name = { doc = "what its buckets are kept under; by default the name of the file" },
  },

  new = function(opts, file)
    if opts.by:find("^@") and opts.by ~= "@user" and opts.by ~= "@all" then
      error(("by = '%s': a header, '@user' or '@all'"):format(opts.by), 0)
    end
    local state = {
      name = opts.name or file,
      limit = { rate = tonumber(opts.rate) or opts.rate, burst = opts.burst },
    }
    tide.bucket(state.name, state.limit) -- a wrong rate is refused now
    return state
  end,

  publish = function(msg, opts, state)
    -- Names have at most 256 bytes: senders that differ only after that share a bucket.
    local name = ("%s %s %s"):format(state.name, msg.vhost, sender_of(msg, opts.by)):sub(1, 256)
    local bucket = tide.bucket(name, state.limit)
    if not opts.shape then
      local is_taken, wait = bucket:take()
      if not is_taken then
        return false, ("faster than %s; try again in %d ms"):format(opts.rate, wait)
      end
      return
    end
    local delay, wait = bucket:reserve(1, opts.delay_max)
    if not delay then
      return false, ("the queue of this sender is %d ms long"):format(wait)
    elseif delay > 0 then
      msg.delay = math.max(msg.delay, delay)
    end
  end,
}
