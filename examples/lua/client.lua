-- client.lua [HOST [PORT]]: publish through a topic exchange, pull with GET.
--
-- A client of the line protocol with luasocket. Run it with lua5.4 client.lua.
-- docs/protocol.md is the reference.

local socket = require "socket"

local Client = {}
Client.__index = Client

function Client.connect(host, port)
  local sock = assert(socket.connect(host, port))
  sock:settimeout(10)
  sock:setoption("tcp-nodelay", true)
  return setmetatable({ sock = sock }, Client)
end

-- Send a request. Returns the words after OK, or the document of DATA. Raises the
-- code and the sentence of an ERR.
function Client:request(line, payload)
  if payload then
    line = ("%s %d\r\n%s"):format(line, #payload, payload)
  end
  assert(self.sock:send(line .. "\r\n"))
  local reply = assert(self.sock:receive "*l")
  local kind, rest = reply:match "^(%S+) ?(.*)$"
  if kind == "ERR" then
    error(rest, 0)
  elseif kind == "DATA" then
    return self:read_body(rest)
  end
  return rest
end

function Client:read_body(words)
  local len = tonumber(words:match "(%d+)$")
  return assert(self.sock:receive(len + 2)):sub(1, -3)
end

local function unescape(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

function Client:read_msg()
  local line = assert(self.sock:receive "*l")
  local sid, tag, attempt, exchange, key = line:match "^MSG (%S+) (%S+) (%d+) (%S+) (%S+) "
  local msg = { sid = sid, tag = tag, attempt = tonumber(attempt), exchange = exchange,
                key = key, headers = {} }
  for name, value in line:gmatch " h:([^=]+)=(%S*)" do
    msg.headers[name] = unescape(value)
  end
  msg.payload = self:read_body(line)
  return msg
end

-- Take up to `max` messages of a queue.
function Client:get(queue, max)
  local messages = {}
  for i = 1, tonumber(self:request(("GET %s max=%d wait=5s"):format(queue, max))) do
    messages[i] = self:read_msg()
  end
  return messages
end

local c = Client.connect(arg[1] or "127.0.0.1", tonumber(arg[2] or 7310))
c:request "DECLARE exchange example.lua topic durable=0"
c:request "DECLARE queue example.lua.eu durable=0"
c:request "BIND example.lua.eu example.lua news.eu.#"

for _, key in ipairs { "news.eu.rain", "news.us.sun", "news.eu" } do
  local queues = c:request(("PUB example.lua %s h:lang=en%%20GB"):format(key), "about " .. key)
  print(key .. " went to " .. queues:match "%d+$" .. " queue(s)")
end

for _, msg in ipairs(c:get("example.lua.eu", 10)) do
  print(("%s: %s (%s)"):format(msg.key, msg.payload, msg.headers.lang))
  c:request("ACK " .. msg.tag)
end

c:request "DELETE queue example.lua.eu"
c:request "DELETE exchange example.lua"
local ok, err = pcall(c.request, c, "GET example.lua.eu")
print(ok, err)
c:request "QUIT"
