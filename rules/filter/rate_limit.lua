-- rate_limit: limits messages per second for each value of a header, each user, or in all.
--
-- Each sender has a bucket of tokens, kept as one number: the time at which it is full
-- again (GCRA). Buckets outlive reloads and restarts, so a sender has no second burst.

local BY <const> = "tenant" -- a header; "@user": the publishing user; nil: one bucket for all
local RATE <const> = "100/s" -- messages; also "600/m", "5/10s"
local BURST <const> = 200 -- at once, after a pause
local SHAPE <const> = false -- true: delay instead of refusing
local DELAY_MAX <const> = "30s" -- a message that would wait longer is refused
local NAME <const> = "rate_limit" -- prefix of its buckets; give two such filters different ones

local LIMIT <const> = { rate = RATE, burst = BURST }

local function sender_of(msg)
  if BY == "@user" then
    return msg.user or ""
  end
  return BY and msg.headers[BY] or ""
end

return {
  doc = "limit messages per second, for each value of a header or each user",
  -- match = { exchange = "*", key = "#" },

  publish = function(msg)
    -- Names have at most 256 bytes: senders that differ only after that share a bucket.
    local name = ("%s %s %s"):format(NAME, msg.vhost, sender_of(msg)):sub(1, 256)
    local bucket = tide.bucket(name, LIMIT)
    if not SHAPE then
      local is_taken, wait = bucket:take()
      if not is_taken then
        return false, ("faster than %s; try again in %d ms"):format(RATE, wait)
      end
      return
    end
    local delay, wait = bucket:reserve(1, DELAY_MAX)
    if not delay then
      return false, ("the queue of this sender is %d ms long"):format(wait)
    elseif delay > 0 then
      msg.delay = math.max(msg.delay, delay)
    end
  end,
}
