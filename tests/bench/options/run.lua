--- run.lua BUILD OUT: what each option adds to a message, counted by callgrind.
---
--- BUILD/option_costs runs each case RUNS times; a figure is the median. Prints the table
--- of docs/performance.md, "What an option costs", and writes it to OUT.
local build, out_path = arg[1], arg[2]
local here = arg[0]:match '^(.*)/' or '.'
local callgrind = dofile(here .. '/../guard/callgrind.lua')

local RUNS = 3
local counts = build .. '/option_counts'

--- The rows, in their order: a case, the words that it adds, and the case it is compared
--- with, if that is not the plain one.
local ROWS = {
  { 'pub_quiet', '`PUB … quiet`' },
  { 'pub_must', '`PUB … must`' },
  { 'pub_header', '`PUB … h:trace=4bf92f`' },
  { 'pub_5_headers', '`PUB …`, five headers' },
  { 'pub_pri', '`PUB … pri=5`, with `priority=fifo`' },
  { 'pub_ttl', '`PUB … ttl=1h`' },
  { 'pub_ack_timeout', '`PUB … ack-timeout=5m`' },
  { 'pub_id_window', '`PUB … id=`, `dedupe=2m` (the default)' },
  { 'pub_id_queued', '`PUB … id=`, `dedupe=queued`' },
  { 'ttl', '`ttl=1h`' },
  { 'max_length', '`max-length=1000000`' },
  { 'max_bytes', '`max-bytes=1000000000`' },
  { 'rate', '`rate=1000000/s`' },
  { 'expires', '`expires=1d`' },
  { 'single_active', '`single-active`' },
  { 'order_by_key', '`order-by=key inflight=65535`, one group' },
  { 'order_by_header', '`order-by=h:group`, each message a group', 'pub_header_unique' },
  { 'priority_strict', '`priority=strict`', 'pub_pri' },
  { 'priority_aging', '`priority=aging`', 'pub_pri' },
  { 'priority_fair', '`priority=fair priority.by=tenant`', 'pub_header' },
  { 'shards', '`shards=4 sharding=round_robin`' },
  { 'sub_auto', '`SUB … ack=auto`, no `ACK`s' },
  { 'sub_priority', '`SUB … priority=5`' },
  { 'sub_ack_timeout', '`SUB … ack-timeout=5m`' },
  { 'sub_notify_lease', '`SUB … notify-lease=10s`' },
  { 'nack', 'one `NACK requeue`, and the second delivery' },
  { 'nack_pri', 'the same with `pri=9`' },
  { 'tx_100', '`BEGIN`, 100 `PUB`s, `COMMIT`' },
  { 'tx_10', '`BEGIN`, 10 `PUB`s, `COMMIT`' },
  { 'tx_1', '`BEGIN`, one `PUB`, `COMMIT`' },
}

---@return table<string, number[]> for each section, its figures
local function measure()
  local figures = {}
  for _ = 1, RUNS do
    for name, figure in pairs(callgrind.measure(build .. '/option_costs', counts).figures) do
      figures[name] = figures[name] or {}
      table.insert(figures[name], figure)
    end
  end
  return figures
end

local figures = measure()

local function median(name)
  local list = figures[name] or callgrind.fail('nothing was measured of %s', name)
  table.sort(list)
  return list[(#list + 1) // 2]
end

--- The largest difference between runs, in parts of the figure.
local function spread()
  local most = 0
  for _, list in pairs(figures) do
    table.sort(list)
    most = math.max(most, (list[#list] - list[1]) / list[1])
  end
  return most
end

local function thousands(n)
  local text = ('%d'):format(math.floor(n + 0.5)):reverse():gsub('(%d%d%d)', '%1,'):reverse()
  return (text:gsub('^,', ''):gsub('^%-,', '-'))
end

local out = {}
local function put(...) out[#out + 1] = string.format(...) end

put '| option | memory | durable |'
put '| --- | ---: | ---: |'
local plain = { thousands(median 'plain.memory'), thousands(median 'plain.durable') }
put('| none: the whole way of a message | %s | %s |', plain[1], plain[2])
for _, row in ipairs(ROWS) do
  local name, words, base = row[1], row[2], row[3] or 'plain'
  local cells = {}
  for i, kind in ipairs { '.memory', '.durable' } do
    local difference = median(name .. kind) - median(base .. kind)
    cells[i] = (difference >= 0.5 and '+' or '') .. thousands(difference):gsub('^%-', '−')
  end
  put('| %s | %s | %s |', words, cells[1], cells[2])
end
local text = table.concat(out, '\n') .. '\n'
print(text)
print(('medians of %d runs; the runs of a figure differ by %.2f %% at most'):format(RUNS, spread() * 100))
local file = assert(io.open(out_path, 'w'))
file:write(text)
file:close()
