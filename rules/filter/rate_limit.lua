-- rate_limit: so many messages a second for each value of a header, or over all.
--
-- GCRA: each sender has a time at which its bucket would be full again. A message
-- moves it on by 1/rate; when it is further away than the burst, that is too fast.

local BY <const> = "tenant" -- a header; nil: all messages share one bucket
local RATE <const> = 100 -- messages a second
local BURST <const> = 200 -- at once, after a pause
local SHAPE <const> = false -- true: do not refuse, delay
local DELAY_MAX <const> = tide.duration "30s" -- longer ones are refused after all
local MAX <const> = 10000 -- senders that are remembered

local INTERVAL <const> = 1000 / RATE
local full_at, senders = {}, 0

-- A full bucket is one that was never used. When there are too many others, all
-- begin anew: a burst more, but no memory.
local function make_room(now)
  for sender, time in pairs(full_at) do
    if time <= now then
      full_at[sender] = nil
      senders = senders - 1
    end
  end
  if senders >= MAX then
    full_at, senders = {}, 0
  end
end

local function remember(sender, time, now)
  if tide.is_dry_run() then
    return
  end
  if not full_at[sender] then
    if senders >= MAX then
      make_room(now)
    end
    senders = senders + 1
  end
  full_at[sender] = time
end

return {
  doc = "so many messages a second for each value of a header",
  -- match = { exchange = "*", key = "#" },

  publish = function(msg)
    local sender = BY and msg.headers[BY] or ""
    local now = tide.now()
    local full = math.max(full_at[sender] or now, now) + INTERVAL
    local wait = math.ceil(full - now - BURST * INTERVAL)
    if wait > 0 and not SHAPE then
      return false, ("more than %g messages a second; try again in %d ms"):format(RATE, wait)
    elseif wait > DELAY_MAX then
      return false, ("the queue of this sender is %d ms long"):format(wait)
    elseif wait > 0 then
      msg.delay = math.max(msg.delay, wait)
    end
    remember(sender, full, now)
  end,
}
