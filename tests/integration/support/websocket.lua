--- A small WebSocket client for tests, on the HTTP port of a broker:
---
---   local ws = Websocket.connect(broker)
---   ws:send 'CONNECT\naccept-version:1.2\nhost:/\n\n\0'
---   ws:expect '^CONNECTED\n'
local Http = require 'support.http'

---@class Websocket
---@field http Http
---@field answer HttpAnswer to the handshake
local Websocket = {}
Websocket.__index = Websocket

Websocket.TEXT, Websocket.BINARY, Websocket.CLOSE, Websocket.PING, Websocket.PONG = 1, 2, 8, 9, 10

local handshake = {
  Upgrade = 'websocket', Connection = 'Upgrade', ['Sec-WebSocket-Version'] = '13',
  ['Sec-WebSocket-Key'] = 'dGhlIHNhbXBsZSBub25jZQ==',
}

--- Send the handshake, and read the head of its answer.
---@param broker Broker
---@param headers table<string, string|false>? more of them
---@param path string? default: /stomp
---@return Websocket
function Websocket.try(broker, headers, path)
  local http = Http.connect(broker)
  local all = {}
  for _, more in ipairs { handshake, headers or {} } do
    for name, value in pairs(more) do all[name] = value end
  end
  http:send('GET', path or '/stomp', nil, all)
  return setmetatable({ http = http, client = http.client, answer = http:head() }, Websocket)
end

---@param broker Broker
---@param headers table<string, string|false>?
---@param path string?
---@return Websocket
function Websocket.connect(broker, headers, path)
  local self = Websocket.try(broker, headers, path)
  assert(self.answer.status == 101, self.answer.status .. ' ' .. self.answer.reason)
  -- Of RFC 6455, section 1.3.
  assert(self.answer.headers['sec-websocket-accept'] == 's3pPLMBiTxaQ9kYGzzhZRbK+xOo=')
  return self
end

---@class FrameOptions
---@field opcode? integer default: text
---@field fin? boolean default: true
---@field masked? boolean default: true
---@field len? integer the length that it says, if that is not the payload's

--- The bytes of a frame.
---@param payload string
---@param options FrameOptions?
---@return string
function Websocket.frame(payload, options)
  options = options or {}
  local len = options.len or #payload
  local first = (options.fin == false and 0 or 0x80) | (options.opcode or Websocket.TEXT)
  local mask = options.masked == false and 0 or 0x80
  local head
  if len < 126 then
    head = string.pack('BB', first, mask | len)
  elseif len < 65536 then
    head = string.pack('>BBI2', first, mask | 126, len)
  else
    head = string.pack('>BBI8', first, mask | 127, len)
  end
  if mask == 0 then return head .. payload end
  local key, out = { 0x12, 0x34, 0x56, 0x78 }, {}
  for i = 1, #payload do out[i] = string.char(payload:byte(i) ~ key[(i - 1) % 4 + 1]) end
  return head .. string.char(table.unpack(key)) .. table.concat(out)
end

---@param payload string
---@param options FrameOptions?
---@return Websocket
function Websocket:send(payload, options)
  self.client:send(Websocket.frame(payload, options))
  return self
end

local function take(input)
  if #input < 2 then return end
  local first, second = input:byte(1, 2)
  assert(second < 128, 'the broker masks its frames')
  local len, at = second, 3
  if len == 126 and #input >= 4 then
    len, at = string.unpack('>I2', input, 3)
  elseif len == 127 and #input >= 10 then
    len, at = string.unpack('>I8', input, 3)
  elseif len >= 126 then
    return
  end
  if #input < at - 1 + len then return end
  return { opcode = first & 15, fin = first >= 128, payload = input:sub(at, at + len - 1) }, at + len
end

--- The next frame.
---@return { opcode: integer, fin: boolean, payload: string }
function Websocket:receive()
  return self.client:take(take) or error(('no frame came; so far %q, closed: %s'):format(self.client.input,
    tostring(self.client.is_closed)), 2)
end

--- The next frame must be a message that is like the pattern.
---@param pattern string
---@param opcode integer? default: text
---@return string ... captures
function Websocket:expect(pattern, opcode)
  local frame = self:receive()
  if frame.opcode ~= (opcode or Websocket.TEXT) or not frame.payload:find(pattern) then
    error(('expected %q, got %d %q'):format(pattern, frame.opcode, frame.payload), 2)
  end
  return frame.payload:match(pattern)
end

--- The broker must say goodbye with this code, and close the connection.
---@param code integer 0: with none
function Websocket:expect_close(code)
  local frame = self:receive()
  local got = #frame.payload >= 2 and string.unpack('>I2', frame.payload) or 0
  if frame.opcode ~= Websocket.CLOSE or got ~= code then
    error(('expected a close with %d, got %d %q'):format(code, frame.opcode, frame.payload), 2)
  end
  self.client:expect_closed()
end

return Websocket
