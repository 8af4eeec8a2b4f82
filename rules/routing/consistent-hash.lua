-- consistent-hash: each message goes to one binding, by a hash of its key.
--
--   DECLARE exchange work consistent-hash
--   BIND eu1 work 1
--   BIND eu2 work 3    three times the share of eu1
--
-- A new binding takes its share of the keys, one that goes gives its own up. No other key moves, and
-- none moves in a restart: the name of the destination decides, not the order of the bindings.
--
-- Weighted rendezvous hashing: each destination draws a number from 0 to 1 for the key, of which the
-- weight-th root counts. The highest has the key. The cost grows with the number of bindings; by the
-- key alone, the broker remembers the choice.

local log, tointeger, hash = math.log, math.tointeger, tide.hash

local M = {
  doc = "one binding by hash; the pattern is its weight",
  options = {
    by = { type = "string", default = "key", doc = "'key', or the name of a header" },
  },
  pure = function(opts)
    return opts.by == "key"
  end,
}

local WEIGHT_MAX <const> = 1000000

local function weight_of(pattern)
  local weight = pattern == "" and 1 or tointeger(pattern:match "^%d+$")
  if not weight or weight < 1 or weight > WEIGHT_MAX then
    error(("'%s' is no weight: write 1 to %d, or - for 1"):format(pattern, WEIGHT_MAX), 0)
  end
  return weight
end

function M.new(args)
  return { by = args.by, n = 0 }
end

function M.bind(index, pattern, dest, _, name)
  local weight = weight_of(pattern)
  index.n = index.n + 1
  index[index.n] = { dest = dest, weight = weight, seed = hash(name) }
end

function M.unbind(index, _, dest)
  for i = 1, index.n do
    if index[i].dest == dest then
      index[i] = index[index.n]
      index[index.n], index.n = nil, index.n - 1
      return
    end
  end
end

function M.route(index, msg, to)
  local value = hash(index.by == "key" and msg.key or msg.headers[index.by] or "")
  local chosen, best
  for i = 1, index.n do
    local binding = index[i]
    -- MurmurHash3's finaliser: neighbouring hashes draw unrelated numbers.
    local h = value ~ binding.seed
    h = (h ~ h >> 33) * 0xff51afd7ed558ccd
    h = (h ~ h >> 33) * 0xc4ceb9fe1a85ec53
    h = h ~ h >> 33
    local drawn = log(((h >> 11) + 0.5) / (1 << 53)) / binding.weight
    if not best or drawn > best then
      chosen, best = binding.dest, drawn
    end
  end
  if chosen then
    to(chosen)
  end
end

return M
