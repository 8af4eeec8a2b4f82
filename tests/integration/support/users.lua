--- Users for tests. A password costs the broker some 100 ms when it hashes it: `restore`
--- puts hashes that cost less into Redis before the broker starts.
local Broker = require 'support.broker'
local json = require 'dkjson'

local M = {}

--- scrypt of the password "secret" at its lowest cost.
M.hash = '$scrypt$ln=1,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$C8Qfv4ojkS3eByZQsYeoSBBZRVMgZQqg/YbXEBfUu70'
M.password = 'secret'

local function encode(text)
  return (text:gsub('[%c%% ]', function(c) return ('%%%02x'):format(c:byte()) end))
end

--- The text of a user in Redis, with the password above.
---@param spec table tags: a list; vhosts: the patterns by vhost; limits: by name
---@return string
function M.text(spec)
  local vhosts = setmetatable({}, { __jsontype = 'object' })
  for name, patterns in pairs(spec.vhosts or {}) do
    vhosts[name] = setmetatable(patterns, { __jsontype = 'object' })
  end
  return json.encode {
    password = M.hash, tags = setmetatable(spec.tags or {}, { __jsontype = 'array' }), vhosts = vhosts,
    limits = setmetatable(spec.limits or {}, { __jsontype = 'object' }),
  }
end

--- Put users into Redis while no broker runs.
---@param redis Redis
---@param users table<string, table> by name, as in `text`
function M.restore(redis, users)
  for name, spec in pairs(users) do redis:cli('HSET', '{tide}:users', name, M.text(spec)) end
end

--- A broker whose Redis has users from the start.
---@param users table<string, table> by name, as in `text`
---@param options? table of Broker.start
---@return Broker
function M.start(users, options)
  options = options or {}
  options.redis, options.stopped = options.redis or {}, true
  local broker = Broker.start(options)
  M.restore(broker.redis, users)
  return broker:run()
end

--- A connection that has not logged in.
---@param broker Broker
---@return Client
function M.stranger(broker)
  local vhost = broker.vhost
  broker.vhost = nil
  local client = broker:connect()
  broker.vhost = vhost
  return client
end

--- A connection of a user, in the vhost.
---@param broker Broker
---@param name string
---@param vhost? string
---@param password? string
---@return Client
function M.connect(broker, name, vhost, password)
  local client = M.stranger(broker)
  client:document(('HELLO user=%s pass=%s vhost=%s'):format(name, encode(password or M.password), vhost or '/'))
  return client
end

return M
