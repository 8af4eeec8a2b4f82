--- The README's session, typed at a real broker: each line behind `>` is sent,
--- each other line must be what comes.
local Broker = require 'support.broker'
local python = require 'support.python'
local shell = require 'support.shell'

local readme = shell.read_file 'README.md'

--- Ids and times differ from run to run; everything else is taken literally.
local function pattern_of(line)
  local pattern = line:gsub('[%^%$%(%)%%%.%[%]%*%+%-%?]', '%%%0')
  pattern = pattern:gsub('^OK %x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x', 'OK %%x+')
  pattern = pattern:gsub('id=%x+', 'id=%%x+'):gsub('ts=%d+', 'ts=%%d+')
  return '^' .. pattern .. '$'
end

describe('README', function()
  local broker

  before_each(function() broker = Broker.start { rules = {} } end)
  after_each(function() broker:destroy() end)

  it('shows a session that goes as it says', function()
    local session = assert(readme:match '```session\n(.-)```')
    local client = broker:connect()
    local lines = 0
    for line in session:gmatch '[^\n]+' do
      local typed = line:match '^> (.*)'
      if typed then
        client:send(typed .. '\n')
      else
        client:expect(pattern_of(line))
        lines = lines + 1
      end
    end
    assert.is_true(lines >= 10)
  end)

  it('shows a program in Python that works on what it publishes, and on what comes', function()
    local program = assert(readme:match '```python\n(.-)```')
    python.expect(broker, program, 'hello\nmore\n', function() broker:cli('pub', '-', 'jobs', 'more') end)
  end)

  it('shows an exchange type of ten lines that works', function()
    local script = assert(readme:match '```lua\n(.-)```')
    broker:write_rule('routing/initial.lua', script)
    local client = broker:connect()
    client:send 'RULES reload\n'
    client:expect '^DATA %d+$'
    client:read_line()
    client:send 'DECLARE exchange people initial\nDECLARE queue a-to-a\nBIND a-to-a people a\n'
    for _ = 1, 3 do client:expect '^OK$' end
    client:send 'PUB people alice must 5\nhello\nPUB people bob must 5\nhello\n'
    client:expect '^OK %x+ 1$'
    client:expect '^ERR unroutable '
  end)
end)
