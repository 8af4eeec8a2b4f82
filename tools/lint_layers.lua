-- lint_layers.lua: check the layers of core/ from its #includes.
--
-- A file includes its own layer or those that its row names; headers of one
-- layer include each other without a cycle; a library's header appears only in
-- the layers that own it.

local layers = {
  base = {},
  store = { 'base' },
  rules = { 'base' },
  broker = { 'base', 'store', 'rules' },
  proto = { 'base', 'store', 'rules', 'broker' },
  net = { 'base', 'store', 'rules', 'broker', 'proto' },
  admin = { 'base', 'store', 'rules', 'broker', 'proto', 'net' },
  client = { 'base' },
  main = { 'base', 'store', 'rules', 'broker', 'proto', 'net', 'admin', 'client' },
}

-- Header name pattern -> the layers that may include it.
local libraries = {
  ['^lua%.h$'] = 'rules', ['^lauxlib%.h$'] = 'rules', ['^lualib%.h$'] = 'rules', ['^luaconf%.h$'] = 'rules',
  ['^hiredis'] = 'store', ['^uthash'] = 'base',
  ['^jansson%.h$'] = 'client',
  ['^uv%.h$'] = 'store rules broker proto net admin client main',
  ['^tidemq/'] = 'client main',
}

local failures = 0
local function fail(...)
  failures = failures + 1
  print(string.format(...))
end

-- "core/base/../store/x.h" -> "core/store/x.h"
local function normalize(path)
  local parts = {}
  for part in path:gmatch '[^/]+' do
    if part == '..' then
      parts[#parts] = nil
    elseif part ~= '.' then
      parts[#parts + 1] = part
    end
  end
  return table.concat(parts, '/')
end

local function layer_of(path)
  return path:match '^core/([%w_]+)/' or path:match '^core/[%w_]+%.[ch]$' and 'main'
end

local function may_include(from, to)
  if from == to then return true end
  for _, name in ipairs(layers[from]) do
    if name == to then return true end
  end
  return false
end

local function check_library(where, layer, header)
  for pattern, owners in pairs(libraries) do
    if header:find(pattern) and not (' ' .. owners .. ' '):find(' ' .. layer .. ' ', 1, true) then
      fail('%s: <%s> is for %s alone', where, header, owners)
    end
  end
end

local files, includes = {}, {}
for path in io.popen("find core -name '*.[ch]' | LC_ALL=C sort"):lines() do files[#files + 1] = path end

local function check_file(path)
  local layer = layer_of(path)
  if not layers[layer] then return fail('%s: no such layer: %s', path, tostring(layer)) end
  includes[path] = {}
  local number = 0
  for line in io.lines(path) do
    number = number + 1
    local where = path .. ':' .. number
    local header = line:match '^%s*#%s*include%s*[<"]([^>"]+)[>"]'
    local is_own = line:find '^%s*#%s*include%s*"'
    local target = is_own and normalize(path:match '^(.*)/' .. '/' .. header)
    if target and target:find '^include/' then
      check_library(where, layer, target:match '^include/(.*)')
    elseif target and not header:find '^tidemq/' then
      local to = layer_of(target)
      if not to or not layers[to] then
        fail('%s: "%s" is outside of core/', where, header)
      elseif not may_include(layer, to) then
        fail('%s: %s does not include %s', where, layer, to)
      end
      table.insert(includes[path], target)
    elseif header then
      check_library(where, layer, header)
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

for _, path in ipairs(files) do check_file(path) end
for _, path in ipairs(files) do find_cycle(path, '') end
os.exit(failures == 0)
