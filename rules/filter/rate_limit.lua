-- rate_limit: so many messages a second for each value of a header, each user, or over all.
--
-- Each sender has a bucket of tokens, kept as one number: when it will be full again
-- (GCRA). It is in tide.shared, so a reload or a restart gives nobody a second burst.

local BY <const> = "tenant" -- a header; "@user": who publishes; nil: all share one bucket
local RATE <const> = "100/s" -- messages; also "600/m", "5/10s"
local BURST <const> = 200 -- at once, after a pause
local SHAPE <const> = false -- true: do not refuse, delay
local DELAY_MAX <const> = "30s" -- longer ones are refused after all
local NAME <const> = "rate_limit" -- of the buckets: of two such filters each has its own

local LIMIT <const> = { rate = RATE, burst = BURST }

local function sender_of(msg)
  if BY == "@user" then
    return msg.user or ""
  end
  return BY and msg.headers[BY] or ""
end

return {
  doc = "so many messages a second for each value of a header, or each user",
  -- match = { exchange = "*", key = "#" },

  publish = function(msg)
    -- Names have 256 bytes at most: who is the same so far shares a bucket.
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
