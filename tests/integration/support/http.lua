--- A small HTTP client for tests, on one connection that is kept:
---
---   local http = Http.connect(broker)
---   local answer = http:get '/api/stats'
---   assert.equal(200, answer.status)
---   answer.json.uptime ...
---   http:put('/api/vhosts/%2F/queues/jobs', { options = { durable = true } })
---
--- Each wait has a deadline, as in support.client.
local Client = require 'support.client'
local json = require 'dkjson'
local mime = require 'mime'

---@class Http
---@field client Client the connection beneath
---@field headers table<string, string> that every request has; set them as you like
local Http = {}
Http.__index = Http

---@class HttpAnswer
---@field status integer
---@field reason string
---@field headers table<string, string> by names in lower case
---@field body string
---@field json any the body, if it is JSON

---@class HttpOptions
---@field user? string with `password`: HTTP Basic
---@field password? string
---@field is_plain? boolean speak no TLS, whatever the port speaks
---@field tls? table as Client.connect has it; default: for a port with TLS, that of the broker's `certs`

--- Connect to the HTTP port of a broker that was started with `http = '127.0.0.1:0'`.
---@param broker Broker
---@param options HttpOptions?
---@return Http
function Http.connect(broker, options)
  options = options or {}
  local address = assert(broker.http_address, 'start the broker with http = "127.0.0.1:0"')
  local certs, tls = broker.options.certs, options.tls
  if address:find '^tls:' and not options.is_plain then tls = tls or certs and { cafile = certs:cert 'ca' } end
  local describe = function() return '-- the log of the broker ends:\n' .. broker:log():sub(-2000) end
  local self = setmetatable({ client = Client.connect(address, describe, tls), headers = {} }, Http)
  self.headers.Host = address:gsub('^tls:', ''):gsub('^unix:.*', 'localhost')
  if options.user then self:log_in(options.user, options.password) end
  return self
end

--- From now on requests are of this user.
---@param user string
---@param password string
function Http:log_in(user, password)
  self.headers.Authorization = 'Basic ' .. mime.b64(user .. ':' .. password)
end

--- Send a request, and read nothing.
---@param method string
---@param path string
---@param body? string|table a table is sent as JSON
---@param headers? table<string, string|false> more of them; false: not this one
---@return Http
function Http:send(method, path, body, headers)
  local lines, all = { ('%s %s HTTP/1.1'):format(method, path) }, {}
  if type(body) == 'table' then
    body = json.encode(next(body) and body or setmetatable({}, { __jsontype = 'object' }))
    all['Content-Type'] = 'application/json'
  end
  if body then all['Content-Length'] = #body end
  for _, more in ipairs { self.headers, headers or {} } do
    for name, value in pairs(more) do all[name] = value or nil end
  end
  for name, value in pairs(all) do lines[#lines + 1] = ('%s: %s'):format(name, value) end
  self.client:send(table.concat(lines, '\r\n') .. '\r\n\r\n' .. (body or ''))
  return self
end

local function take(self, len)
  local bytes = self.client:take(function(input)
    if #input >= len then return input:sub(1, len), len + 1 end
  end)
  return bytes or error(('the body ends after %d of %d bytes'):format(#self.client.input, len), 3)
end

--- The next piece of a body in chunks; nil: it has ended.
---@return string?
function Http:chunk()
  local len = tonumber(self.client:expect '^%x+', 16)
  local bytes = take(self, len)
  self.client:expect_line ''
  return len > 0 and bytes or nil
end

--- The head of an answer; its body is not read.
---@return HttpAnswer
function Http:head()
  local status, reason = self.client:expect '^HTTP/1%.1 (%d+) (.*)$'
  local answer = { status = math.tointeger(tonumber(status)), reason = reason, headers = {} }
  while true do
    local line = self.client:expect '.*'
    if line == '' then return answer end
    local name, value = line:match '^([^:]+): *(.*)$'
    answer.headers[assert(name, line):lower()] = value
  end
end

--- The next answer. That to HEAD has no body.
---@param method? string
---@return HttpAnswer
function Http:answer(method)
  local answer = self:head()
  local parts = {}
  if answer.status == 100 then return self:answer(method) end
  if method == 'HEAD' or answer.status == 304 or answer.status == 204 then
    parts[1] = ''
  elseif answer.headers['transfer-encoding'] == 'chunked' then
    for piece in function() return self:chunk() end do parts[#parts + 1] = piece end
  elseif answer.headers['content-length'] then
    parts[1] = take(self, tonumber(answer.headers['content-length']))
  else
    error('the answer has neither a length nor chunks', 2)
  end
  answer.body = table.concat(parts)
  if (answer.headers['content-type'] or ''):find('application/json', 1, true) then
    local value, _, err = json.decode(answer.body)
    if err and answer.body ~= '' then error(('no JSON: %s in %s'):format(err, answer.body), 2) end
    answer.json = value
  end
  return answer
end

---@param method string
---@param path string
---@param body? string|table
---@param headers? table<string, string|false>
---@return HttpAnswer
function Http:request(method, path, body, headers)
  return self:send(method, path, body, headers):answer(method)
end

---@return HttpAnswer
function Http:get(path, headers) return self:request('GET', path, nil, headers) end

---@return HttpAnswer
function Http:post(path, body, headers) return self:request('POST', path, body or {}, headers) end

---@return HttpAnswer
function Http:put(path, body, headers) return self:request('PUT', path, body or {}, headers) end

---@return HttpAnswer
function Http:delete(path, body, headers) return self:request('DELETE', path, body, headers) end

--- A request that must be answered with this status; gives the document, or the text.
---@param status integer
---@param method string
---@param path string
---@param body? string|table
---@return any
function Http:expect(status, method, path, body)
  local answer = self:request(method, path, body)
  if answer.status ~= status then
    error(('%s %s: expected %d, got %d: %s'):format(method, path, status, answer.status, answer.body), 2)
  end
  return answer.json or answer.body
end

--- A request that must be refused so.
---@param status integer
---@param code string
---@param method string
---@param path string
---@param body? string|table
---@return string text of the error
function Http:expect_error(status, code, method, path, body)
  local document = self:expect(status, method, path, body)
  if document.error.code ~= code then
    error(('%s %s: expected the code %s, got %s: %s'):format(method, path, code, document.error.code,
      document.error.text), 2)
  end
  return document.error.text
end

function Http:close() self.client:close() end

return Http
