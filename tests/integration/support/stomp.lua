--- A STOMP client for tests, that writes and reads frames as they are:
---
---   local c = Stomp.connect(broker, { ['accept-version'] = '1.2' })
---   c:frame('SEND', { destination = '/queue/jobs' }, 'hello')
---   c:expect('RECEIPT', { ['receipt-id'] = '7' })
local Broker = require 'support.broker'
local Client = require 'support.client'
local busted = require 'busted'

---@class Stomp: Client
local Stomp = {}
setmetatable(Stomp, { __index = Client })
Stomp.__index = Stomp

local count = 0

---@class Frame
---@field command string
---@field headers table<string, string> decoded; of a repeated one the first
---@field order string[] the lines of the headers as they came
---@field body string

--- A connection that has said nothing yet.
---@param broker Broker
---@return Stomp
function Stomp.open(broker)
  return setmetatable(broker:connect(), Stomp)
end

--- One that has sent CONNECT and has been answered CONNECTED.
---@param broker Broker
---@param headers table<string, string>?
---@return Stomp
function Stomp.connect(broker, headers)
  local c = Stomp.open(broker)
  local all = { ['accept-version'] = '1.2' }
  for name, value in pairs(headers or {}) do all[name] = value or nil end
  c:frame('CONNECT', all)
  c.connected = c:expect 'CONNECTED'
  c.version = c.connected.headers.version
  return c
end

local function escape(text)
  return (text:gsub('[\\:\n\r]', { ['\\'] = '\\\\', [':'] = '\\c', ['\n'] = '\\n', ['\r'] = '\\r' }))
end

local function unescape(text)
  return (text:gsub('\\(.)', { ['\\'] = '\\', c = ':', n = '\n', r = '\r' }))
end

--- The bytes of a frame of 1.1 or 1.2.
---@param command string
---@param headers table<string, string>?
---@param body string?
---@return string
function Stomp.format(command, headers, body)
  local lines, names = { command }, {}
  for name in pairs(headers or {}) do names[#names + 1] = name end
  table.sort(names)
  -- Whoever reads CONNECT does not know the version yet.
  local encode = (command == 'CONNECT' or command == 'STOMP') and tostring or escape
  for _, name in ipairs(names) do lines[#lines + 1] = encode(name) .. ':' .. encode(tostring(headers[name])) end
  return table.concat(lines, '\n') .. '\n\n' .. (body or '') .. '\0'
end

---@return Stomp
function Stomp:frame(command, headers, body)
  return self:send(Stomp.format(command, headers, body))
end

--- Send it with a receipt, which must be the next thing that comes.
function Stomp:ask(command, headers, body)
  count = count + 1
  local all = { receipt = 'r' .. count }
  for name, value in pairs(headers or {}) do all[name] = value end
  self:frame(command, all, body)
  return self:expect('RECEIPT', { ['receipt-id'] = all.receipt })
end

local function parse(input)
  local start = input:find '[^\n]'
  local head, at = input:match('^(.-)\n\n()', start)
  if not head then return nil end
  local frame = { headers = {}, order = {} }
  for line in head:gmatch '[^\n]+' do
    if not frame.command then
      frame.command = line
    else
      local name, value = line:match '^([^:]+):(.*)$'
      if not name then error('not a header: ' .. line) end
      frame.order[#frame.order + 1] = line
      name, value = unescape(name), unescape(value)
      frame.headers[name] = frame.headers[name] or value
    end
  end
  local len = tonumber(frame.headers['content-length'])
  local stop = len and at + len or input:find('\0', at, true)
  if not stop or #input <= stop then return nil end
  if input:sub(stop, stop + 1) ~= '\0\n' then error('no NUL and line end behind the body of ' .. frame.command) end
  frame.body = input:sub(at, stop - 1)
  return frame, stop + 2
end

--- The next frame.
---@param seconds number?
---@return Frame?
function Stomp:read(seconds)
  return self:take(parse, seconds)
end

--- The next frame must be this command, with these headers among others.
---@param command string
---@param headers table<string, string>?
---@param body string?
---@return Frame
function Stomp:expect(command, headers, body)
  local frame = self:read()
  if not frame then
    error(('waited for %s; got %q%s'):format(command, self.input, self.is_closed and ', and the end' or ''), 2)
  end
  if frame.command ~= command then
    error(('expected %s, got %s %s %q'):format(command, frame.command, table.concat(frame.order, ' '), frame.body), 2)
  end
  for name, value in pairs(headers or {}) do
    if frame.headers[name] ~= (value or nil) then
      error(('%s: expected %s:%s, got %s'):format(command, name, value, table.concat(frame.order, ' ')), 2)
    end
  end
  if body and frame.body ~= body then error(('%s: expected %q, got %q'):format(command, body, frame.body), 2) end
  return frame
end

--- ERROR with this sentence, and the end of the connection.
---@param message string
---@param headers table<string, string>?
---@return Frame
function Stomp:expect_error(message, headers)
  local frame = self:expect('ERROR', headers)
  if frame.headers.reason ~= message then
    error(('expected the error %q, got %q'):format(message, frame.headers.reason), 2)
  end
  if self:read() or not self.is_closed then error('the connection goes on after ERROR', 2) end
  return frame
end

--- Nothing has come before the receipt of an empty transaction.
function Stomp:expect_nothing()
  self:ask('BEGIN', { transaction = 'nothing' })
  self:frame('ABORT', { transaction = 'nothing' })
end

function Stomp:subscribe(id, destination, headers)
  local all = { id = id, destination = destination }
  for name, value in pairs(headers or {}) do all[name] = value end
  self:ask('SUBSCRIBE', all)
end

---@class StompFixture what the tests of a `describe` block share
---@field broker Broker set while they run, and `admin` with it
---@field admin Client a line connection
---@field fresh fun(what: string?): string a name that no other test has
---@field queue fun(name: string): table? its row of `LIST queues`

--- One broker for all tests of the `describe` block that calls this.
---@return StompFixture
function Stomp.fixture()
  local fixture, names = {}, 0

  busted.setup(function()
    fixture.broker = Broker.start { args = { '--fsync', 'no', '--max-payload', '1M' } }
    fixture.admin = fixture.broker:connect()
  end)
  busted.teardown(function()
    if fixture.admin then fixture.admin:close() end
    if fixture.broker then fixture.broker:expect_clean_stop() end
  end)

  function fixture.fresh(what)
    names = names + 1
    return ('%s%d'):format(what or 'q', names)
  end

  function fixture.queue(name)
    for _, q in ipairs(fixture.admin:document 'LIST queues') do
      if q.name == name then return q end
    end
  end

  return fixture
end

return Stomp
