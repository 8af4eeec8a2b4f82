--- An AMQP 0-9-1 client for tests, that writes and reads frames as they are. Its methods and their
--- fields are those of core/proto/amqp/amqp_methods.h.
---
---   local c = Amqp.connect(broker)
---   c:open_channel(1)
---   c:ask(1, 'queue.declare', { queue = 'jobs', durable = true })
---   c:publish(1, '', 'jobs', 'hello', Amqp.properties { { 'content-type', 'text/plain' } })
local Client = require 'support.client'

---@class Amqp: Client
local Amqp = {}
setmetatable(Amqp, { __index = Client })
Amqp.__index = Amqp

Amqp.HEADER = 'AMQP\0\0\9\1'
local END <const> = '\xce'
local METHOD <const>, HEADER <const>, BODY <const> = 1, 2, 3

local methods, by_number, properties = {}, {}, {}

local function read_methods()
  local file <close> = assert(io.open 'core/proto/amqp/amqp_methods.h')
  local text = file:read 'a'
  local words = {}
  for places in text:gmatch 'enum { (.-) };' do
    local list = {}
    for word in places:gmatch '[%w_]+' do list[#list + 1] = word end
    words[#words + 1] = list
  end
  local at = 1
  local row = 'X%((AMQP_%u[%w_]*), "([%w.-]+)", (%d+), (%d+), %d, "(%a*)"%)'
  for name, dotted, class, number, letters in text:gmatch(row) do
    local m = { name = dotted, class = tonumber(class), number = tonumber(number), fields = {} }
    for i = 1, #letters do
      m.fields[i] = { name = words[at][i]:sub(#name + 2):lower(), letter = letters:sub(i, i) }
    end
    at = at + (#letters > 0 and 1 or 0)
    methods[dotted] = m
    by_number[m.class << 16 | m.number] = m
  end
  for name, letter in text:gmatch "X%(AMQP_P_[%w_]+, \"([%w-]+)\", '(%a)'%)" do
    properties[#properties + 1] = { name = name, letter = letter }
  end
end
read_methods()

local FORMATS <const> = { o = '>B', s = '>I2', l = '>I4', q = '>I8', S = '>s1', L = '>s4', T = '>s4' }

--- The bytes of a field table, without their length. Items are { name, letter of the type, value };
--- of F and A the value is bytes.
---@return string
function Amqp.table(items)
  local formats = {
    t = '>B', b = '>i1', B = '>B', s = '>i2', u = '>I2', I = '>i4', i = '>I4', l = '>i8', L = '>i8', f = '>f', d = '>d',
    T = '>I8', S = '>s4', x = '>s4', F = '>s4', A = '>s4',
  }
  local parts = {}
  for i, item in ipairs(items) do
    local format, value = formats[item[2]], item[3]
    parts[i] = ('>s1'):pack(item[1]) .. item[2] .. (format and format:pack(value) or value or '')
  end
  return table.concat(parts)
end

--- The bytes of properties: their flags, then their values.
---@param list { [1]: string, [2]: string|integer }[] by their names
---@return string
function Amqp.properties(list)
  local given, flags, parts = {}, 0, {}
  for _, p in ipairs(list or {}) do given[p[1]] = p[2] end
  for i, p in ipairs(properties) do
    if given[p.name] then
      flags = flags | 0x8000 >> (i - 1)
      parts[#parts + 1] = FORMATS[p.letter]:pack(given[p.name])
    end
  end
  return ('>I2'):pack(flags) .. table.concat(parts)
end

---@param kind integer
---@param channel integer
---@param payload string
---@return string
function Amqp.frame(kind, channel, payload)
  return ('>BI2s4'):pack(kind, channel, payload) .. END
end

--- The frame of a method; fields that are not given are 0, false or empty.
---@param channel integer
---@param name string "queue.declare"
---@param given table<string, any>?
---@return string
function Amqp.method(channel, name, given)
  local m, parts, bits, count = methods[name], {}, 0, 0
  local left = {}
  for field in pairs(given or {}) do left[field] = true end
  local function flush()
    if count > 0 then parts[#parts + 1] = string.char(bits) end
    bits, count = 0, 0
  end
  for _, f in ipairs(m.fields) do
    local value = (given or {})[f.name]
    left[f.name] = nil
    if f.letter == 'b' then
      bits, count = bits | (value and 1 << count or 0), count + 1
    else
      flush()
      parts[#parts + 1] = FORMATS[f.letter]:pack(value or (f.letter:find '[SLT]' and '' or 0))
    end
  end
  flush()
  if next(left) then error(name .. ' has no field ' .. next(left), 2) end
  return Amqp.frame(METHOD, channel, ('>I2I2'):pack(m.class, m.number) .. table.concat(parts))
end

--- The frames of a publish.
---@return string
function Amqp.publish_frames(channel, exchange, key, body, bytes, flags)
  local given = { exchange = exchange, routing_key = key }
  for name, value in pairs(flags or {}) do given[name] = value end
  local text = Amqp.method(channel, 'basic.publish', given) ..
    Amqp.frame(HEADER, channel, ('>I2I2I8'):pack(60, 0, #body) .. (bytes or '\0\0'))
  for at = 1, #body, 100000 do text = text .. Amqp.frame(BODY, channel, body:sub(at, at + 99999)) end
  return text
end

--- A connection that has said nothing yet.
---@param broker Broker
---@return Amqp
function Amqp.open(broker)
  return setmetatable(broker:connect(), Amqp)
end

local function parse_method(payload)
  local class, number, at = ('>I2I2'):unpack(payload)
  local m = by_number[class << 16 | number]
  local values, bit, octet = { name = m.name }, 8, nil
  for _, f in ipairs(m.fields) do
    if f.letter == 'b' then
      if bit == 8 then
        octet, at = ('B'):unpack(payload, at)
        bit = 0
      end
      values[f.name], bit = octet >> bit & 1 == 1, bit + 1
    else
      bit = 8
      values[f.name], at = FORMATS[f.letter]:unpack(payload, at)
    end
  end
  if at ~= #payload + 1 then error('bytes behind the fields of ' .. m.name) end
  return values
end

local function parse(input)
  if #input < 8 then return nil end
  local kind, channel, len = ('>BI2I4'):unpack(input)
  if #input < len + 8 then return nil end
  if input:sub(len + 8, len + 8) ~= END then error 'a frame without its end' end
  local payload = input:sub(8, len + 7)
  local frame = { kind = kind, channel = channel, payload = payload }
  if kind == METHOD then
    frame.values = parse_method(payload)
  elseif kind == HEADER then
    frame.size = ('>I8'):unpack(payload, 5)
    frame.properties = payload:sub(13)
  end
  return frame, len + 9
end

--- The next frame that is no heartbeat.
---@param seconds number?
---@return table?
function Amqp:read(seconds)
  local frame
  repeat frame = self:take(parse, seconds) until not frame or frame.kind ~= 8
  return frame
end

--- The next frame must be this method, with these fields among others.
---@param channel integer
---@param name string
---@param fields table<string, any>?
---@return table values
function Amqp:expect_method(channel, name, fields)
  local frame = self:read()
  if not frame then error(('waited for %s%s'):format(name, self.is_closed and ', got the end' or ''), 2) end
  local values = frame.values or { name = 'a frame of type ' .. frame.kind }
  if values.name ~= name or frame.channel ~= channel then
    error(('expected %s on %d, got %s on %d %s'):format(name, channel, values.name, frame.channel,
      values.reply_text or ''), 2)
  end
  for field, value in pairs(fields or {}) do
    if values[field] ~= value then
      error(('%s: expected %s=%s, got %s'):format(name, field, value, values[field]), 2)
    end
  end
  return values
end

--- The content of a message: its properties and its body follow the method.
---@return table values of the method, with `properties` and `body`
function Amqp:expect_message(channel, name, fields)
  local values = self:expect_method(channel, name, fields)
  local header = self:read()
  if not header or header.kind ~= HEADER then error('no header behind ' .. name, 2) end
  values.properties, values.body, values.frames = header.properties, '', 0
  while #values.body < header.size do
    local frame = self:read()
    if not frame or frame.kind ~= BODY then error('no body behind ' .. name, 2) end
    values.body, values.frames = values.body .. frame.payload, values.frames + 1
  end
  return values
end

--- Send a method, and get its answer.
---@return table values
function Amqp:ask(channel, name, fields)
  self:send(Amqp.method(channel, name, fields))
  return self:expect_method(channel, name .. '-ok')
end

--- Send it, and the channel is closed for this.
---@return table values of the close
function Amqp:expect_refusal(channel, name, fields, code, text)
  if name then self:send(Amqp.method(channel, name, fields)) end
  local values = self:expect_method(channel, 'channel.close', { reply_code = code })
  if text and not values.reply_text:find(text, 1, true) then
    error(('expected %q, got %q'):format(text, values.reply_text), 2)
  end
  self:send(Amqp.method(channel, 'channel.close-ok'))
  self:open_channel(channel)
  return values
end

--- The connection is closed for this.
---@return table values
function Amqp:expect_end(code, text)
  local values = self:expect_method(0, 'connection.close', { reply_code = code })
  if text and not values.reply_text:find(text, 1, true) then
    error(('expected %q, got %q'):format(text, values.reply_text), 2)
  end
  self:send(Amqp.method(0, 'connection.close-ok'))
  if self:read() or not self.is_closed then error('the connection goes on', 2) end
  return values
end

function Amqp:open_channel(number)
  self:send(Amqp.method(number, 'channel.open'))
  self:expect_method(number, 'channel.open-ok')
end

function Amqp:publish(...)
  return self:send(Amqp.publish_frames(...))
end

---@class AmqpLogin
---@field user string?
---@field password string?
---@field vhost string?
---@field mechanism string?
---@field response string?
---@field heartbeat integer?
---@field frame_max integer?
---@field capabilities string[]?

--- One that has logged in, and is open.
---@param broker Broker
---@param login AmqpLogin?
---@return Amqp
function Amqp.connect(broker, login)
  local c = Amqp.open(broker)
  c:begin(login)
  c:expect_method(0, 'connection.open-ok')
  return c
end

--- Everything up to connection.open.
---@param login AmqpLogin?
function Amqp:begin(login)
  login = login or {}
  local capabilities = {}
  for i, name in ipairs(login.capabilities or { 'consumer_cancel_notify', 'connection.blocked' }) do
    capabilities[i] = { name, 't', 1 }
  end
  self:send(Amqp.HEADER)
  self.start = self:expect_method(0, 'connection.start')
  self:send(Amqp.method(0, 'connection.start-ok', {
    client_properties = Amqp.table {
      { 'connection_name', 'S', login.name or 'a-test' }, { 'capabilities', 'F', Amqp.table(capabilities) },
    },
    mechanism = login.mechanism or 'PLAIN', locale = 'en_US',
    response = login.response or ('\0%s\0%s'):format(login.user or 'guest', login.password or 'guest'),
  }))
  self.tune = self:expect_method(0, 'connection.tune')
  self:send(Amqp.method(0, 'connection.tune-ok', {
    channel_max = login.channel_max or 0, frame_max = login.frame_max or 0, heartbeat = login.heartbeat or 0,
  }))
  self:send(Amqp.method(0, 'connection.open', { virtual_host = login.vhost or '/' }))
end

--- An end in order.
function Amqp:leave()
  self:send(Amqp.method(0, 'connection.close', { reply_code = 200, reply_text = 'bye' }))
  self:expect_method(0, 'connection.close-ok')
  self:close()
end

return Amqp
