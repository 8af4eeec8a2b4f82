-- lint_floors.lua BUILD FLOOR...: check the structure of core/, from includes and from
-- the symbols of the objects in BUILD.
--
-- FLOORS are the folders of core/ from the lowest up. A file includes and calls its own
-- floor and lower ones. Headers include each other without a cycle; a library's header
-- is for the floors that own it. base does no I/O and reads no clock. No circle of calls
-- is larger than CIRCLE_MAX files. The prefix of a public function is the name of its
-- file, of the header that declares it, or of a struct in one of them, and somebody outside
-- of the file calls it. File names and struct tags are unique.

local CIRCLE_MAX = 6

local build = table.remove(arg, 1)
local rank = { main = #arg + 1 }
for i, floor in ipairs(arg) do rank[floor] = i end

-- Header name pattern -> the floors that may include it.
local libraries = {
  ['^lua%.h$'] = '^rules/', ['^lauxlib%.h$'] = '^rules/', ['^lualib%.h$'] = '^rules/', ['^luaconf%.h$'] = '^rules/',
  ['^hiredis'] = '^store$', ['^uthash'] = '^base$', ['^jansson%.h$'] = '^cli$ ^check$ ^access$ ^rules/api$ ^http$',
  ['^wslay/'] = '^http$', ['^n?curses%.h$'] = '^cli$',
  ['^openssl/'] = '^tls$ ^access$ ^rules/api$ ^http$',
  ['^tidemq/'] = '^client$ ^cli$ ^main$ ^check$',
}

local failures = 0
local function fail(...)
  failures = failures + 1
  print(string.format(...))
end

local function lines_of(command)
  local list = {}
  for line in io.popen(command):lines() do list[#list + 1] = line end
  return list
end

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read 'a'
end

local function floor_of(path) return path:match '^core/(.+)/[^/]+$' or 'main' end

-- Floors that know these others alone: a protocol sees sessions and not what is below.
local narrow = { ['^proto$'] = ' session host base ', ['^proto/'] = ' proto ops session host base ',
  ['^http$'] = ' proto proto/stomp ops session host base ',
  ['^net$'] = ' proto proto/line proto/stomp proto/amqp http session tls host base ' }
-- The headers of a floor that others may include: its other structs are closed.
local doors = {
  session = ' session.h reply.h service.h service_address.h service_health.h service_net.h service_rules.h '
    .. 'service_users.h session_metrics.h ',
}

local function may_use(from, to)
  if not (rank[from] and rank[to] and rank[to] <= rank[from]) then return false end
  for floor, others in pairs(narrow) do
    if from:find(floor) and from ~= to and not others:find(' ' .. to .. ' ', 1, true) then return false end
  end
  return true
end

local function is_open(from, header)
  local floor, name = floor_of(header), header:match '[^/]+$'
  return from == floor or not doors[floor] or doors[floor]:find(' ' .. name .. ' ', 1, true) ~= nil
end

-- ---- includes ----

local files, includes = lines_of "find core -name '*.[ch]' | LC_ALL=C sort", {}

local function check_library(where, floor, header)
  for pattern, owners in pairs(libraries) do
    local is_owner = not header:find(pattern)
    for owner in owners:gmatch '%S+' do is_owner = is_owner or floor:find(owner) ~= nil end
    if not is_owner then fail('%s: <%s> is not for %s', where, header, floor) end
  end
end

local known = {}
for _, path in ipairs(files) do known[path] = true end

local function check_includes(path)
  local floor, number = floor_of(path), 0
  if not rank[floor] then return fail('%s: no such floor: %s', path, floor) end
  includes[path] = {}
  for line in io.lines(path) do
    number = number + 1
    local where, header = path .. ':' .. number, line:match '^%s*#%s*include%s*[<"]([^>"]+)[>"]'
    if header then
      local beside = path:match '^(.*/)' .. header
      local target = known[beside] and beside or known['core/' .. header] and 'core/' .. header
      if not target then
        check_library(where, floor, header)
      else
        if not may_use(floor, floor_of(target)) then
          fail('%s: %s does not include %s', where, floor, floor_of(target))
        end
        if not is_open(floor, target) then fail('%s: %s is private to its floor', where, target) end
        table.insert(includes[path], target)
      end
    end
  end
end

local state = {} -- of a file in the search: "open", then "done"
local function find_cycle(path, trail)
  if state[path] == 'done' or not includes[path] then return end
  trail = trail .. ' -> ' .. path
  if state[path] == 'open' then return fail('a cycle of includes:%s', trail) end
  state[path] = 'open'
  for _, target in ipairs(includes[path]) do find_cycle(target, trail) end
  state[path] = 'done'
end

-- ---- calls ----

local home, calls = {}, {} -- symbol -> file that defines it; file -> { symbol = true }
local function read_symbols()
  local object
  for _, line in ipairs(lines_of('find ' .. build .. "/obj/core -name '*.o' | LC_ALL=C sort | xargs nm -A")) do
    local path, kind, symbol = line:match '/obj/(core/.-)%.o:%s*%x*%s+(%a)%s+([%w_.]+)$'
    if path and known[path .. '.c'] then
      object = path .. '.c'
      calls[object] = calls[object] or {}
      if kind == 'U' then calls[object][symbol] = true
      elseif ('TDBRC'):find(kind, 1, true) then home[symbol] = object end
    end
  end
end

-- Tarjan: the circles of a directed graph { node = { node = true } }, largest first.
local function circles(graph)
  local index, low, on, stack, found, count = {}, {}, {}, {}, {}, 0
  local function visit(v)
    count = count + 1
    index[v], low[v], on[v] = count, count, true
    stack[#stack + 1] = v
    for w in pairs(graph[v]) do
      if not index[w] then
        visit(w)
        low[v] = math.min(low[v], low[w])
      elseif on[w] then
        low[v] = math.min(low[v], index[w])
      end
    end
    if low[v] ~= index[v] then return end
    local circle = {}
    repeat
      local w = table.remove(stack)
      on[w] = false
      circle[#circle + 1] = w
    until w == v
    if #circle > 1 then table.sort(circle) found[#found + 1] = circle end
  end
  for v in pairs(graph) do if not index[v] then visit(v) end end
  table.sort(found, function(a, b) return #a > #b end)
  return found
end

local function check_calls()
  local graph = {}
  for file, symbols in pairs(calls) do
    graph[file] = graph[file] or {}
    for symbol in pairs(symbols) do
      local to = home[symbol]
      if to and to ~= file and calls[to] then
        graph[file][to] = true
        if not may_use(floor_of(file), floor_of(to)) then
          fail('%s: calls %s of the floor above, in %s', file, symbol, to)
        end
      end
    end
  end
  local found = circles(graph)
  for _, circle in ipairs(found) do
    if #circle > CIRCLE_MAX then
      fail('a circle of calls of %d files: %s', #circle, table.concat(circle, ' '))
    end
  end
  return found[1] and #found[1] or 0
end

-- What base does not call. mem.c may write the last line of a process without memory.
local impure = {}
for name in ([[
  time clock clock_gettime gettimeofday nanosleep getenv getrandom getentropy random rand
  open openat fopen fdopen close read write fread fwrite fputs fputc puts putchar printf
  fprintf vprintf vfprintf perror stdin stdout stderr stat fstat socket send recv
  localtime localtime_r]]):gmatch '%S+' do impure[name] = true end

local function check_purity()
  for file, symbols in pairs(calls) do
    if floor_of(file) == 'base' and file ~= 'core/base/mem.c' then
      for symbol in pairs(symbols) do
        local name = symbol:match '^__(.-)_chk$' or symbol:match '^__isoc%d+_(.+)$' or symbol
        if impure[name] or name:find '^uv_' then fail('%s: calls %s: base does no I/O', file, symbol) end
      end
    end
  end
end

-- ---- names ----

local function begins_with(symbol, name) return symbol == name or symbol:sub(1, #name + 1) == name .. '_' end

-- Whether the text has a struct whose name is the prefix of the symbol.
local function has_struct(text, symbol)
  for tag in text:gmatch '\nstruct ([%w_]+) {' do if begins_with(symbol, tag) then return true end end
  return false
end

-- Whether a header of the floor declares it that has the prefix of the symbol for its name, or defines
-- the struct of that name; the file itself may define it too.
local function is_declared(symbol, file)
  if has_struct(read(file), symbol) then return true end
  for _, path in ipairs(files) do
    local name = path:match '([^/]+)%.h$'
    if name and floor_of(path) == floor_of(file) then
      local text = read(path)
      if text:find('%f[%w_]' .. symbol .. '%(') and (begins_with(symbol, name) or has_struct(text, symbol)) then
        return true
      end
    end
  end
  return false
end

local function check_prefixes()
  local used = {}
  for _, symbols in pairs(calls) do for symbol in pairs(symbols) do used[symbol] = true end end
  for _, path in ipairs(lines_of "find tests -name '*.[ch]'") do
    for word in read(path):gmatch '[%a_][%w_]*' do used[word] = true end
  end
  for symbol, file in pairs(home) do
    local name = file:match '([^/]+)%.c$'
    if not begins_with(symbol, name) and not symbol:find '^tidemq_' and not is_declared(symbol, file) then
      fail('%s: %s does not begin with %s_, or the name of its header or struct', file, symbol, name)
    end
    if not used[symbol] and not symbol:find '^tidemq_' and symbol ~= 'main' then
      fail('%s: nobody outside calls %s', file, symbol)
    end
  end
end

local function check_unique()
  local seen, tags = {}, {}
  for _, path in ipairs(files) do
    local name = path:match '[^/]+$'
    if seen[name] then fail('%s: the name of %s too', path, seen[name]) end
    seen[name] = path
    for tag in read(path):gmatch '\n%s*struct ([%w_]+) {' do
      if tags[tag] and tags[tag] ~= path then fail('%s: struct %s is in %s too', path, tag, tags[tag]) end
      tags[tag] = path
    end
  end
end

for _, path in ipairs(files) do check_includes(path) end
for _, path in ipairs(files) do find_cycle(path, '') end
read_symbols()
local largest = check_calls()
check_purity()
check_prefixes()
check_unique()
print(string.format('        %d files on %d floors, the largest circle of calls has %d files, %d findings', #files,
  #arg, largest, failures))
os.exit(failures == 0)
