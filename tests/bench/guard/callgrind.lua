--- callgrind.lua: run a program of this folder's kind under callgrind and read the
--- instructions of each of its sections. The profiles stay in `counts`, by section.
local M = {}

--- The same from one machine to the next: an empty environment, whose size moves
--- the stack, and libc's functions for every x86_64 and not those for this one.
local ENVIRONMENT = 'env -i LC_ALL=C LD_BIND_NOW=1'
  .. ' GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,Fast_Unaligned_Copy'

--- A section is counted from the entry of its function to the end. Threads are
--- told apart because the rules' watchdog wakes up when it likes.
local VALGRIND = '"$(command -v valgrind)" --quiet --tool=callgrind --vgdb=no --toggle-collect="section_*"'
  .. ' --separate-threads=yes --compress-strings=no'

---@param format string
function M.fail(format, ...)
  io.stderr:write('guard: ', string.format(format, ...), '\n')
  os.exit(1)
end

local function run(command)
  local ok, _, status = os.execute(command)
  if not ok then M.fail('status %s of: %s', status, command) end
end

---@param path string
---@return string[]
function M.lines_of(path)
  local file = io.open(path)
  if not file then M.fail('cannot read %s', path) end
  local lines = {}
  for line in file:lines() do lines[#lines + 1] = line end
  file:close()
  return lines
end

--- The section that a part of callgrind's output is about, and its instructions.
local function read_part(path)
  local name, total
  for _, line in ipairs(M.lines_of(path)) do
    name = name or line:match '^desc: Trigger: Client Request: (%S+)$'
    total = line:match '^totals: (%d+)$' or total
  end
  return name, tonumber(total)
end

local function parts(counts)
  local pipe = assert(io.popen(('ls %s/part.*-01'):format(counts)))
  local paths = {}
  for path in pipe:lines() do paths[#paths + 1] = path end
  pipe:close()
  return paths
end

---@param program string
---@param counts string a directory, which is made anew
---@return {platform: table<string, string>, order: string[], figures: table<string, number>} measured
function M.measure(program, counts)
  run(('rm -rf %s && mkdir -p %s'):format(counts, counts))
  run(('%s %s --callgrind-out-file=%s/part %s >%s/log'):format(ENVIRONMENT, VALGRIND, counts, program, counts))
  local measured, ops = { platform = {}, order = {}, figures = {} }, {}
  for _, line in ipairs(M.lines_of(counts .. '/log')) do
    local name, n = line:match '^section (%S+) (%d+)$'
    local key, value = line:match '^(%S+) (.*)$'
    if name then
      ops[name] = tonumber(n)
      table.insert(measured.order, name)
    elseif key then
      measured.platform[key] = value
    end
  end
  for _, path in ipairs(parts(counts)) do
    local name, total = read_part(path)
    if ops[name] then
      measured.figures[name] = math.floor(total / ops[name] * 10 + 0.5) / 10 -- as it is written
      os.rename(path, counts .. '/' .. name)
    end
  end
  run(('rm -f %s/part*'):format(counts))
  return measured
end

return M
