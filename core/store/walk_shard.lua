-- Read a page of a key of a shard, or look at single members, with what the shard has of
-- each id: two commands would let a message change its place in between.
--
-- KEYS: all of a shard, in the order of enum layout_key: msg, tries, expiry, dedupe, the
-- sets. ARGV: which of them are asked about, as bits; how to scan ("" for the members that
-- follow), which key, cursor, count. Returns { cursor, members, values, found }.
local HASHES, DEDUPE = 2, 4 -- the places in KEYS, from 1: the hashes come first
local wanted, cursor = tonumber(ARGV[1]), '0'
local members, values, found = {}, {}, {}
if ARGV[2] == '' then
  for i = 3, #ARGV do members[i - 2] = ARGV[i] end
else
  local scan = redis.call(ARGV[2], KEYS[tonumber(ARGV[3])], ARGV[4], 'COUNT', ARGV[5])
  cursor = scan[1]
  for i = 1, #scan[2], 2 do
    members[#members + 1] = scan[2][i]
    values[#values + 1] = scan[2][i + 1]
  end
end
local asked = {}
for k, key in ipairs(KEYS) do
  local value = 2 ^ (k - 1)
  if bit.band(wanted, value) ~= 0 then
    asked[#asked + 1] = { key, value, k <= HASHES, k == DEDUPE }
  end
end
for i, member in ipairs(members) do
  local id, bits = string.sub(member, 1, 16), 0
  for _, a in ipairs(asked) do
    if a[3] and redis.call('HEXISTS', a[1], id) == 1 or
       not a[3] and redis.call('ZSCORE', a[1], a[4] and member or id) then
      bits = bits + a[2]
    end
  end
  found[i] = bits
end
return { cursor, members, values, found }
