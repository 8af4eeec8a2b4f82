--- Commands and files, for tests.
local M = {}

--- A word as the shell takes it.
---@param word string|number
---@return string
function M.quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

--- Run a command; gives its standard output and its exit status.
---@param command string
---@return string output, integer status
function M.run(command)
  local pipe = assert(io.popen(command))
  local output = pipe:read 'a'
  local ok, _, status = pipe:close()
  return output, ok and 0 or status
end

--- The only line that a command prints.
---@param command string
---@return string
function M.line(command)
  return (M.run(command):gsub('\n$', ''))
end

--- One that has ended, and that nobody has waited for, is still there: kill -0 finds it.
---@param pid integer|string
---@return boolean
function M.is_running(pid)
  local state = (M.read_file('/proc/' .. pid .. '/stat') or ''):match '.*%) (%a)'
  return state ~= nil and state ~= 'Z'
end

---@param path string
---@return string? text, nil when there is no such file
function M.read_file(path)
  local file = io.open(path, 'rb')
  if not file then return nil end
  local text = file:read 'a'
  file:close()
  return text
end

--- Write a file, and the directory that it is in.
---@param path string
---@param text string
function M.write_file(path, text)
  local file = io.open(path, 'wb')
  if not file then
    assert(os.execute('mkdir -p ' .. M.quote(path:match '^(.*)/')))
    file = assert(io.open(path, 'wb'))
  end
  assert(file:write(text))
  assert(file:close())
end

--- The directory with the shipped rules, and no others.
---@return string
function M.shipped_rules()
  return os.getenv 'TIDE_TEST_RULES' or M.line 'pwd' .. '/rules'
end

--- A new directory below $TMPDIR, by its real path.
---@param name string
---@return string
function M.make_dir(name)
  return M.line(('cd "$(mktemp -d "${TMPDIR:-/tmp}/%s.XXXXXX")" && pwd -P'):format(name))
end

return M
