--- Certificates for a test, in a directory of its own:
---
---   local certs = Certs.make()
---   certs:issue('server', { san = 'DNS:localhost,IP:127.0.0.1' })
---   certs:cert 'server', certs:key 'server', certs:cert 'ca'
---   certs:destroy()
local Broker = require 'support.broker'
local shell = require 'support.shell'
local busted = require 'busted'

---@class Certs
---@field dir string
local Certs = {}
Certs.__index = Certs

local quote = shell.quote

local function openssl(...)
  local output, status = shell.run('openssl ' .. string.format(...) .. ' 2>&1')
  assert(status == 0, output)
end

--- With a CA named `ca`, and `server` for localhost and 127.0.0.1.
---@return Certs
function Certs.make()
  local self = setmetatable({ dir = shell.make_dir 'tidemq-certs' }, Certs)
  self:issue('ca', { is_ca = true })
  self:issue 'server'
  return self
end

---@class CertOptions
---@field cn? string default: the name
---@field san? string default: that of a server at localhost
---@field by? string the name of a CA; default: `ca`
---@field is_ca? boolean it signs itself
---@field days? integer default: 2
---@field new_key? string "rsa:2048"; default: an EC key

--- Make a key and a certificate, or others in their place.
---@param name string
---@param options CertOptions?
function Certs:issue(name, options)
  options = options or {}
  local key = options.new_key or 'ec -pkeyopt ec_paramgen_curve:P-256'
  local path = quote(self.dir .. '/' .. name)
  local new = ('req -x509 -newkey %s -nodes -keyout %s.key -out %s.pem -days %d -subj %s'):format(key, path, path,
    options.days or 2, quote('/CN=' .. (options.cn or name)))
  if options.is_ca then return openssl('%s -addext keyUsage=keyCertSign', new) end
  local by = quote(self.dir .. '/' .. (options.by or 'ca'))
  openssl('%s -CA %s.pem -CAkey %s.key -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=%s', new, by,
    by, options.san or 'DNS:localhost,IP:127.0.0.1')
end

---@param name string
---@return string path
function Certs:cert(name) return self.dir .. '/' .. name .. '.pem' end

---@param name string
---@return string path
function Certs:key(name) return self.dir .. '/' .. name .. '.key' end

function Certs:destroy() os.execute('rm -rf ' .. quote(self.dir)) end

---@class TlsFixture
---@field certs Certs those of the test that runs
---@field start fun(options: table?): Broker as Broker.start, with them; it ends with the test

--- Certificates, and at most one broker, for each test of the `describe` block that calls
--- this.
---@return TlsFixture
function Certs.fixture()
  local fixture, broker = {}, nil

  busted.before_each(function() fixture.certs = Certs.make() end)
  busted.after_each(function()
    if broker then broker:destroy() end
    broker = nil
    fixture.certs:destroy()
  end)

  function fixture.start(options)
    local all = { listen = { 'tls:127.0.0.1:0', '127.0.0.1:0' }, certs = fixture.certs }
    for name, value in pairs(options or {}) do all[name] = value end
    broker = Broker.start(all)
    return broker
  end

  return fixture
end

return Certs
