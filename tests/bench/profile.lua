--- profile.lua BUILD OUTPUT: where the broker's processor time goes, by component.
---
--- perf samples a broker under the load of `make bench-peers`; each sample counts
--- for the folder of core/ that its line is in, or for the library or the part of
--- the kernel. The Redis beside it is a process of its own and counted apart.
package.path = './tests/integration/?.lua;' .. package.path
local sh = require 'support.shell'.run
local wait = require 'support.wait'

local build, output = arg[1], arg[2]

local PORT = 7499
local COUNT = 1000000
local HERTZ = 5000

local function fail(...)
  io.stderr:write('profile.lua: ', ...)
  io.stderr:write '\n'
  os.exit(1)
end

local _, status = sh 'perf record -q -e cpu-clock -o /dev/null true 2>/dev/null'
if status ~= 0 then
  fail('perf cannot sample here: is linux-perf installed, and kernel.perf_event_paranoid below 3?')
end

local dir = sh 'mktemp -d ${TMPDIR:-/tmp}/tidemq-profile.XXXXXX':gsub('%s+$', '')

local function start()
  local command = ('%s/tidemq serve --http none --listen 127.0.0.1:%d --data %s/data'):format(build, PORT, dir)
  local pid = sh(('exec setsid %s >%s/out 2>%s/log </dev/null & echo $!'):format(command, dir, dir)):match '%d+'
  local is_ready = wait.poll(function() return select(2, sh(('grep -q listening %s/out'):format(dir))) == 0 end, 30)
  if not is_ready then fail('the broker did not start: see ', dir, '/log') end
  return pid
end

local function stop(pid)
  os.execute('kill ' .. pid)
  local _, stopped = sh('timeout 30 tail --pid=' .. pid .. ' -f /dev/null')
  if stopped ~= 0 then fail('the broker does not stop: ', pid) end
  os.execute('rm -rf ' .. dir)
end

local function nanoseconds(pid)
  return tonumber((sh(('cat /proc/%s/schedstat'):format(pid)):match '^%d+'))
end

--- The folder of each address of the binary, asked all at once.
local function folders(addresses)
  local path = dir .. '/addresses'
  local file = assert(io.open(path, 'w'))
  for _, address in ipairs(addresses) do file:write(address, '\n') end
  file:close()
  local of, i = {}, 0
  for line in sh(('addr2line -e %s/tidemq <%s'):format(build, path)):gmatch '[^\n]+' do
    i = i + 1
    of[addresses[i]] = line:match '/core/(%w+)/' or (line:match '/core/' and 'main') or 'uthash and other headers'
  end
  return of
end

local KERNEL = {
  { 'tcp', 'kernel: TCP' }, { 'inet', 'kernel: TCP' }, { 'sk', 'kernel: TCP' }, { 'sock', 'kernel: TCP' },
  { 'net', 'kernel: TCP' }, { 'ip_', 'kernel: TCP' }, { 'copy', 'kernel: copies to and from it' },
  { 'unix', 'kernel: the socket to Redis' },
}

local function kernel_part(symbol)
  for _, rule in ipairs(KERNEL) do
    if symbol:find(rule[1], 1, true) then return rule[2] end
  end
  return 'kernel: the rest (entry, epoll, scheduling)'
end

local function library_part(path)
  local name = path:match '([^/]+)$' or path
  if name:find '^libc[.]' then return 'libc' end
  return name:match '^(lib%a+)' or name
end

--- Share of the samples by component.
local function shares(data)
  -- The mapping of the binary's code tells an address in memory from one in the file.
  local maps, samples, wanted, seen = {}, {}, {}, {}
  local text = sh(('perf script -i %s --show-mmap-events -F ip,sym,dso,event 2>/dev/null'):format(data))
  for line in text:gmatch '[^\n]+' do
    local from, offset, path = line:match 'MMAP2?.-%[0x(%x+)%(0x%x+%) @ (%w+).-r%-xp (.+)$'
    if from then
      if path:find('/tidemq$') then maps = { from = tonumber(from, 16), offset = tonumber(offset) } end
    else
      local ip, symbol, dso = line:match '^.-(%x+) (.-) %((.+)%)$'
      if ip then
        local sample = { part = nil, address = nil }
        if dso:find 'kernel' or dso:find '^%[' then
          sample.part = kernel_part(symbol)
        elseif dso:find '/tidemq$' then
          sample.address = ('%x'):format(tonumber(ip, 16) - maps.from + maps.offset)
          if not seen[sample.address] then
            seen[sample.address] = true
            wanted[#wanted + 1] = sample.address
          end
        else
          sample.part = library_part(dso)
        end
        samples[#samples + 1] = sample
      end
    end
  end
  if #samples == 0 then fail 'perf took no samples' end
  local of, parts = folders(wanted), {}
  for _, sample in ipairs(samples) do
    local part = sample.part or of[sample.address]
    parts[part] = (parts[part] or 0) + 1 / #samples
  end
  return parts
end

local WORK = {
  { name = 'stream', title = 'one producer, one consumer', args = '' },
  { name = 'fill', title = 'fill', args = '--fill' },
  { name = 'drain', title = 'drain', args = '--drain' },
}

local pid = start()
local redis = sh(('ps -o pid= --ppid %s'):format(pid)):match '%d+'
for _, work in ipairs(WORK) do
  local data = ('%s/perf.%s'):format(dir, work.name)
  local before, redis_before = nanoseconds(pid), nanoseconds(redis)
  -- perf ends when the command it runs ends, and samples the process it is told.
  local load = ('%s/bench/load tidemq --port %d --count %d %s'):format(build, PORT, COUNT, work.args)
  local text, result = sh(('perf record -q -e cpu-clock -F %d -o %s -p %s -- %s 2>&1'):format(HERTZ, data, pid, load))
  if result ~= 0 then fail(text) end
  work.cost = (nanoseconds(pid) - before) / COUNT
  work.redis = (nanoseconds(redis) - redis_before) / COUNT
  work.parts = shares(data)
end
stop(pid)

-- ---- the table ---------------------------------------------------------------

local names, is_known = {}, {}
for _, work in ipairs(WORK) do
  for name in pairs(work.parts) do
    if not is_known[name] then names[#names + 1] = name end
    is_known[name] = true
  end
end
local function weight(name)
  local sum = 0
  for _, work in ipairs(WORK) do sum = sum + (work.parts[name] or 0) * work.cost end
  return sum
end
table.sort(names, function(a, b) return weight(a) > weight(b) end)

local lines, titles, rule = {}, {}, {}
for i, work in ipairs(WORK) do titles[i], rule[i] = work.title, '---:' end
lines[1] = ('| nanoseconds a message in | %s |'):format(table.concat(titles, ' | '))
lines[2] = ('| --- | %s |'):format(table.concat(rule, ' | '))
local function row(name, of)
  local cells = {}
  for i, work in ipairs(WORK) do cells[i] = ('%.0f'):format(of(work)) end
  lines[#lines + 1] = ('| %s | %s |'):format(name, table.concat(cells, ' | '))
end
for _, name in ipairs(names) do
  row(name, function(work) return (work.parts[name] or 0) * work.cost end)
end
row('**the broker**', function(work) return work.cost end)
row('**its Redis**', function(work) return work.redis end)

local file = assert(io.open(output, 'w'))
file:write(table.concat(lines, '\n'), '\n')
file:close()
print(table.concat(lines, '\n'))
