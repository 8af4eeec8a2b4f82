--- Programs in Python that a document shows: they run as they are written.
local assert = require 'luassert'
local shell = require 'support.shell'
local wait = require 'support.wait'

local M = {}

--- Run a program until it has printed this, and has nothing else to print or has ended. One Ctrl-C (timeout
--- without --foreground would send two, and the second interrupt what the first has begun) ends
--- it, of which it says nothing.
---@param broker Broker
---@param program string
---@param expected string
---@param meanwhile fun()?  what happens when it has printed the first line
function M.expect(broker, program, expected, meanwhile)
  local url = broker:url():gsub('/$', '')
  local file = broker.dir .. '/program.py'
  shell.write_file(file, (program:gsub('tide://127%.0%.0%.1', url)))
  local pid = shell.line(([[TIDEMQ_URL=%s PYTHONPATH=examples/python timeout --foreground %d \
    env --default-signal=INT python3 -u -B -W error %s >%s.out 2>%s.err </dev/null & echo $!]]):format(
    shell.quote(url), wait.limit(60), file, file, file))
  local function printed() return shell.read_file(file .. '.out') or '' end
  local function said() return printed() .. (shell.read_file(file .. '.err') or '') end
  local is_begun = wait.poll(function() return printed():find '\n' or not shell.is_running(pid) end)
  if is_begun and meanwhile then meanwhile() end
  wait.poll(function() return #printed() >= #expected or not shell.is_running(pid) end)
  shell.run('kill -INT ' .. pid .. ' 2>/dev/null')
  assert(wait.poll(function() return not shell.is_running(pid) end), 'the program does not end')
  assert.equal(expected, said())
end

--- Its programs, each with what it prints, as the next block says.
---@param doc string
---@return { program: string, expected: string, line: integer }[]
function M.all(doc)
  local all = {}
  for at, program, expected in doc:gmatch '()\n```python\n(.-\n)```\n\n```text\n(.-\n)```\n' do
    all[#all + 1] = { program = program, expected = expected, line = select(2, doc:sub(1, at):gsub('\n', '')) + 1 }
  end
  return all
end

return M
