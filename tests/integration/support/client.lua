--- A client for tests, that reads like a session:
---
---   c:send 'PUB - jobs 5\r\nhello\r\n'
---   c:expect '^OK %x+ 1$'
---
--- Each wait has a deadline, and each failure says what came instead.
local socket = require 'socket'
local ssl = require 'ssl'
local unix = require 'socket.unix'
local wait = require 'support.wait'

---@class Client
local Client = {}
Client.__index = Client

-- By address: a connection that Lua collects is closed. A test that made one and does not look
-- at it again still has it, until it is closed or `release` is called.
local held = {}

--- Shake hands; `tls` has what luasec wants in place of the defaults.
local function secure(sock, tls)
  local params = { mode = 'client', protocol = 'any', verify = 'peer', options = 'all' }
  for name, value in pairs(tls) do params[name] = value end
  local secured = assert(ssl.wrap(sock, params))
  secured:settimeout(wait.limit())
  return secured, secured:dohandshake()
end

--- Can this machine listen on IPv6? A container may have none.
---@return boolean
function Client.has_ipv6()
  local server = socket.bind('::1', 0)
  if server then server:close() end
  return server ~= nil
end

--- Connect to `HOST:PORT`, `[HOST]:PORT`, either after `tls:`, or `unix:PATH`.
---@param address string
---@param describe? fun(): string what a failure should show besides (a log)
---@param tls? table { cafile = path } and other parameters of luasec
---@return Client
function Client.connect(address, describe, tls)
  local sock, ok, err
  local called = address
  address = address:gsub('^tls:', '')
  local path = address:match '^unix:(.+)$'
  if path then
    sock = assert(unix())
    ok, err = sock:connect(path)
  else
    local host, port = address:match '^%[?(.-)%]?:(%d+)$'
    assert(host, 'no address: ' .. address)
    sock = assert(host:find(':', 1, true) and socket.tcp6() or socket.tcp())
    sock:settimeout(wait.limit())
    ok, err = sock:connect(host, tonumber(port))
    sock:setoption('tcp-nodelay', true)
  end
  if ok and tls then sock, ok, err = secure(sock, tls) end
  if not ok then error(('cannot connect to %s: %s'):format(address, err), 2) end
  sock:settimeout(0)
  local self = { sock = sock, input = '', describe = describe, is_closed = false, address = called, tls = tls }
  setmetatable(self, Client)
  held[called] = held[called] or {}
  held[called][self] = true
  return self
end

--- Nobody listens there any more: its connections are garbage as soon as no test has them.
---@param address string as `connect` had it
function Client.release(address)
  held[address] = nil
end

local source = debug.getinfo(1, 'S').source

---@param self Client
---@param format string
local function fail(self, format, ...)
  local text = format:format(...)
  if self.describe then text = text .. '\n' .. self.describe() end
  -- The line to show is the test's, not one of this file.
  local level = 2
  while debug.getinfo(level + 1, 'S') and debug.getinfo(level, 'S').source == source do level = level + 1 end
  error(text, level)
end

--- Whatever has arrived, waiting until something has or the deadline is over.
---@return boolean nothing more can come before the deadline
local function fill(self, deadline)
  if self.is_closed then return true end
  local readable = socket.select({ self.sock }, nil, wait.left(deadline))
  if #readable == 0 then return true end
  local data, err, partial = self.sock:receive(65536)
  local got = data or partial or ''
  self.input = self.input .. got
  -- With TLS there are other words for an end, and for one without a goodbye.
  if err and err ~= 'timeout' and err ~= 'wantread' and err ~= 'wantwrite' then
    self.is_closed = true
    self.end_error = err
  end
  return #got == 0 and self.is_closed
end

--- Send all of the text; reading goes on, so that a full pipe cannot jam both ends.
---@param text string
---@return Client
function Client:send(text)
  local deadline = wait.deadline()
  local from = 1
  while from <= #text do
    local last, err, partial = self.sock:send(text, from)
    from = (last or partial or from - 1) + 1
    if err == 'closed' then
      fail(self, 'the connection was closed while sending')
    elseif err == 'timeout' or err == 'wantwrite' or err == 'wantread' then
      local readable, writable = socket.select({ self.sock }, { self.sock }, wait.left(deadline))
      if #readable > 0 then fill(self, deadline) end
      if #readable + #writable == 0 then fail(self, 'the broker reads no more after %d bytes', from - 1) end
    end
  end
  return self
end

--- The next line without its CRLF (the protocol ends every line in CRLF).
---@param seconds number?
---@return string? line, string? why "timeout" or "closed"
function Client:read_line(seconds)
  local deadline = wait.deadline(seconds)
  local from = 1
  while true do
    local at = self.input:find('\n', from, true)
    if at then
      local line = self.input:sub(1, at - 1)
      self.input = self.input:sub(at + 1)
      if line:sub(-1) ~= '\r' then fail(self, 'a line that ends in a bare LF: %q', line) end
      return line:sub(1, -2)
    end
    from = #self.input + 1
    if fill(self, deadline) and #self.input < from then
      return nil, self.is_closed and 'closed' or 'timeout'
    end
  end
end

local function must_read_line(self, wanted, seconds)
  local line, why = self:read_line(seconds)
  if not line then
    fail(self, 'waited for %s; got %s, and %q so far', wanted,
      why == 'closed' and 'the end of the connection' or 'nothing more in time', self.input)
  end
  return line
end

--- The next line must match the pattern.
---@param pattern string
---@param seconds number?
---@return string ... its captures, or the whole match
function Client:expect(pattern, seconds)
  local line = must_read_line(self, ('a line like %q'):format(pattern), seconds)
  if not line:find(pattern) then fail(self, 'expected a line like %q, got %q', pattern, line) end
  return line:match(pattern)
end

--- The next line must be exactly this one.
---@param text string
---@param seconds number?
---@return Client
function Client:expect_line(text, seconds)
  local line = must_read_line(self, ('%q'):format(text), seconds)
  if line ~= text then fail(self, 'expected %q, got %q', text, line) end
  return self
end

--- Take what has come, and more, until `take` finds something at its front.
---@generic T
---@param take fun(input: string): T?, integer? what it found, and where the rest begins
---@param seconds number?
---@return T? nil: nothing in time, or the connection has ended
function Client:take(take, seconds)
  local deadline = wait.deadline(seconds)
  while true do
    local found, rest = take(self.input)
    if found then
      self.input = self.input:sub(rest)
      return found
    end
    local before = #self.input
    if fill(self, deadline) and #self.input == before then return nil end
  end
end

--- `len` bytes and the CRLF behind them.
---@param len integer|string
---@param seconds number?
---@return string
function Client:expect_payload(len, seconds)
  len = assert(math.tointeger(tonumber(len)), 'no length')
  local deadline = wait.deadline(seconds)
  while #self.input < len + 2 do
    local before = #self.input
    if fill(self, deadline) and #self.input == before then
      fail(self, 'waited for a payload of %d bytes, got %d', len, #self.input)
    end
  end
  local payload, ending = self.input:sub(1, len), self.input:sub(len + 1, len + 2)
  if ending ~= '\r\n' then fail(self, 'no CRLF behind the payload but %q', ending) end
  self.input = self.input:sub(len + 3)
  return payload
end

--- The next answer must be `DATA <len>`; gives the document.
---@param seconds number?
---@return string
function Client:expect_data(seconds)
  local line = must_read_line(self, 'DATA', seconds)
  local len = line:match '^DATA (%d+)$' or line:match '^@%d+ DATA (%d+)$'
  if not len then fail(self, 'expected DATA, got %q', line) end
  return self:expect_payload(len, seconds)
end

--- The same, decoded.
---@param seconds number?
---@return any
function Client:expect_json(seconds)
  local text = self:expect_data(seconds)
  local value, _, err = require('dkjson').decode(text)
  if err then fail(self, 'not JSON (%s): %s', err, text) end
  return value
end

local function unescape(text)
  return (text:gsub('%%(%x%x)', function(hex) return string.char(tonumber(hex, 16)) end))
end

---@class Delivery
---@field sid string
---@field tag string
---@field attempt integer
---@field exchange string
---@field key string
---@field redelivered boolean
---@field options table<string, string> id, ts, pri, ...
---@field headers table<string, string> decoded
---@field payload string
---@field line string the whole line

--- What a MSG line that has been read says, with the payload that follows it.
---@param line string
---@param seconds number?
---@return Delivery
function Client:delivery(line, seconds)
  local words = {}
  for word in line:match '^@?%d* ?MSG (.*)$':gmatch '%S+' do words[#words + 1] = word end
  local msg = {
    sid = words[1], tag = words[2], attempt = math.tointeger(tonumber(words[3])),
    exchange = words[4], key = words[5], redelivered = false,
    options = {}, headers = {}, line = line,
  }
  for i = 6, #words - 1 do
    local header, text = words[i]:match '^h:([^=]+)=(.*)$'
    local name, value = words[i]:match '^([^=]+)=(.*)$'
    if header then
      msg.headers[header] = unescape(text)
    elseif name then
      msg.options[name] = value
    elseif words[i] == 'redelivered' then
      msg.redelivered = true
    end
  end
  msg.payload = self:expect_payload(words[#words], seconds)
  return msg
end

--- The next line must be a MSG of channel 0, or of `@channel`.
---@param seconds number?
---@param channel integer?
---@return Delivery
function Client:expect_msg(seconds, channel)
  local line = must_read_line(self, 'MSG', seconds)
  local prefix = channel and ('@%d MSG '):format(channel) or 'MSG '
  if line:sub(1, #prefix) ~= prefix then fail(self, 'expected %q, got %q', prefix, line) end
  return self:delivery(line, seconds)
end

--- Read and drop lines until one matches; gives its captures.
---@param pattern string
---@param seconds number?
---@return string ...
function Client:drain_until(pattern, seconds)
  local deadline = wait.deadline(seconds)
  while true do
    local line = must_read_line(self, ('a line like %q'):format(pattern), wait.left(deadline))
    if line:find(pattern) then return line:match(pattern) end
  end
end

--- Nothing but the answer to a PING comes: what was sent before has been
--- handled and has caused no other line to this connection.
---@return Client
function Client:expect_nothing()
  self:send 'PING\r\n'
  return self:expect_line 'OK'
end

--- The broker must close the connection, with nothing (more) to read.
---@param seconds number?
---@return string "closed", or with TLS how it ended without a goodbye
function Client:expect_closed(seconds)
  local line, why = self:read_line(seconds)
  if line then fail(self, 'expected the end of the connection, got %q', line) end
  if why ~= 'closed' then fail(self, 'the connection was not closed in time') end
  return self.end_error
end

--- The broker must close the connection, whatever there is to read before.
---@param seconds number?
---@return string what there was
function Client:drain_to_end(seconds)
  local deadline = wait.deadline(seconds)
  repeat until fill(self, deadline)
  if not self.is_closed then fail(self, 'the connection was not closed in time') end
  return self.input
end

--- The broker has closed the connection, as far as can be seen now.
---@return boolean
function Client:is_ended()
  fill(self, wait.deadline(0))
  return self.is_closed
end

--- One request, and its one-line answer.
---@param line string without CRLF; the payload's length is added
---@param payload string?
---@return string
function Client:request(line, payload)
  if payload then
    self:send(('%s %d\r\n%s\r\n'):format(line, #payload, payload))
  else
    self:send(line .. '\r\n')
  end
  return must_read_line(self, ('the answer to %q'):format(line))
end

--- A request that must be answered OK; gives the words behind it.
---@param line string
---@param payload string?
---@return string
function Client:ok(line, payload)
  local answer = self:request(line, payload)
  if not answer:find '^OK' then fail(self, '%q was answered %q', line, answer) end
  return answer:sub(4)
end

--- A request that must be answered exactly so.
---@param line string
---@param answer string
function Client:expect_answer(line, answer)
  self:send(line .. '\r\n')
  return self:expect_line(answer)
end

--- A request that must be answered with a document; gives it decoded.
---@param line string
---@return any
function Client:document(line)
  self:send(line .. '\r\n')
  return self:expect_json()
end

--- What a PEEK shows, without what it says beside the messages.
---@param words string the queue, and options
---@return table[]
function Client:peek(words)
  return self:document('PEEK ' .. words).messages
end

---@param queue string
---@return table
function Client:stats(queue)
  return self:document('STATS ' .. queue)
end

--- GET, and what it gives.
---@param words string the queue, and options
---@return Delivery[]
function Client:get(words)
  local messages = {}
  for i = 1, tonumber((self:ok('GET ' .. words))) do messages[i] = self:expect_msg() end
  return messages
end

--- Publish payloads, one after the other, each with its confirm.
---@param words string the queue, and options
function Client:publish(words, ...)
  for _, payload in ipairs { ... } do self:ok('PUB - ' .. words, payload) end
end

--- The payloads of messages.
---@param messages table[]
---@return string[]
function Client.payloads(messages)
  local list = {}
  for i, m in ipairs(messages) do list[i] = m.payload end
  return list
end

--- The same as one text, with a space between them.
---@param messages table[]
---@return string
function Client.payload_text(messages) return table.concat(Client.payloads(messages), ' ') end

--- No more will be sent; what the broker still says can be read.
function Client:shutdown()
  self.sock:shutdown 'send'
end

function Client:close()
  if held[self.address] then held[self.address][self] = nil end
  self.sock:close()
  self.is_closed = true
end

--- Work in a vhost, which is declared before by another connection.
---@param name string
---@param words? string further options of HELLO
---@return table the document of HELLO
function Client:enter_vhost(name, words)
  local peer = Client.connect(self.address, self.describe, self.tls)
  peer:ok('DECLARE vhost ' .. name)
  peer:close()
  return self:document(('HELLO vhost=%s%s'):format(name, words and ' ' .. words or ''))
end

return Client
