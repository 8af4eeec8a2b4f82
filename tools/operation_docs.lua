--- docs/openapi.json and docs/operations-reference.md, from what `GET /api` says of the operations (`make docs`).
local json = require 'dkjson'

local M = {}

-- ---- JSON for people ----

local FIRST = {}
for i, name in ipairs {
  'openapi', 'info', 'servers', 'security', 'paths', 'components', '$ref', 'operationId', 'summary', 'tags', 'name',
  'in', 'type', 'title', 'version', 'description', 'parameters', 'requestBody', 'responses', 'required', 'schema',
  'content', 'properties', 'items', 'get', 'put', 'post', 'delete',
} do FIRST[name] = i end

local function sorted_keys(object)
  local keys = {}
  for key in pairs(object) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local x, y = FIRST[a] or 1000, FIRST[b] or 1000
    if x ~= y then return x < y end
    return a < b
  end)
  return keys
end

local function is_array(value)
  local meta = getmetatable(value)
  return #value > 0 or (meta and meta.__jsontype == 'array')
end

--- On one line if it fits there.
local function write(value, indent)
  if type(value) ~= 'table' then return json.encode(value) end
  local open, close, parts = '{', '}', {}
  if is_array(value) then
    open, close = '[', ']'
    for i, item in ipairs(value) do parts[i] = write(item, indent .. '  ') end
  else
    for i, key in ipairs(sorted_keys(value)) do
      parts[i] = json.encode(key) .. ': ' .. write(value[key], indent .. '  ')
    end
  end
  local line = open .. table.concat(parts, ', ') .. close
  if #line + #indent < 110 and not line:find '\n' then return line end
  return open .. '\n' .. indent .. '  ' .. table.concat(parts, ',\n' .. indent .. '  ') .. '\n' .. indent .. close
end

-- ---- docs/openapi.json ----

local VHOST = { name = 'vhost', ['in'] = 'path', schema = { type = 'string' }, required = true,
  description = 'percent-encoded: the default vhost is `%2F`' }

local TYPES = {
  uint = 'integer', int = 'integer', flag = 'boolean', switch = 'boolean', options = 'object',
  duration = { 'string', 'integer' }, ['ack-timeout'] = { 'string', 'integer' }, ['delivery-limit'] = 'integer',
  value = { 'string', 'number', 'boolean' }, position = { 'string', 'integer' }, share = { 'string', 'number' },
}

local function schema_of(p, with_help)
  local schema = { type = TYPES[p.name] or TYPES[p.type] or 'string' }
  if p.type == 'uint' or p.type == 'int' then
    schema.minimum = p.min > 0 and p.min or 0
    if p.max and p.max < 2 ^ 31 then schema.maximum = p.max end
  elseif p.type == 'text' and p.max then
    schema.maxLength = p.max
    if p.min > 0 then schema.minLength = p.min end
  elseif p.type == 'id' or p.type == 'ids' then
    schema.pattern, schema.description = '^[0-9a-f]{16}$', '16 hexadecimal digits'
  elseif p.type == 'choice' then
    schema.enum = {}
    for word in p.what:gmatch '%a+' do
      if word ~= 'or' then table.insert(schema.enum, word) end
    end
  end
  if with_help and p.help ~= '' then schema.description = p.help end
  return schema
end

local function answer_schema(names)
  local list = {}
  for name in names:gmatch '[^|]+' do list[#list + 1] = { ['$ref'] = '#/components/schemas/' .. name } end
  return #list == 1 and list[1] or { anyOf = list }
end

local function operation_object(o)
  local parameters, properties, needed = {}, {}, {}
  local has_query, has_options = o.method == 'GET' or o.method == 'DELETE', false
  for place in o.path:gmatch '{(%w+)}' do
    if place == 'vhost' then parameters[#parameters + 1] = VHOST end
    for _, p in ipairs(o.takes) do
      if p.name == place then
        parameters[#parameters + 1] = { name = place, ['in'] = 'path', schema = schema_of(p), required = true,
          description = p.help ~= '' and p.help or nil }
      end
    end
  end
  for _, p in ipairs(o.takes) do has_options = has_options or p.type == 'options' end
  for _, p in ipairs(o.takes) do
    local is_query = has_query or p.name == 'vhost' and o.vhost
    if p.http and not o.path:find('{' .. p.name .. '}', 1, true) then
      if is_query and p.type ~= 'options' then
        parameters[#parameters + 1] = { name = p.name, ['in'] = 'query', schema = schema_of(p, true),
          required = p.needed and not has_options or nil }
      end
      if not is_query or o.method == 'DELETE' then properties[p.name] = schema_of(p, true) end
      if p.needed and not has_query then needed[#needed + 1] = p.name end
    end
  end
  table.sort(needed)
  local object = { operationId = o.operation, summary = o.help, tags = { o.group }, responses = {} }
  if #parameters > 0 then object.parameters = parameters end
  if next(properties) and (not has_query or has_options) then
    object.requestBody = {
      required = #needed > 0,
      content = { ['application/json'] = { schema = {
        type = 'object', properties = properties, additionalProperties = false,
        required = #needed > 0 and needed or nil,
      } } },
    }
  end
  for status in ('400 401 403 503 ' .. o.errors):gmatch '%d+' do
    object.responses[status] = { ['$ref'] = '#/components/responses/' .. status }
  end
  object.responses['200'] = { description = 'done',
    content = { ['application/json'] = { schema = answer_schema(o.answer) } } }
  return object
end

--- @param base table tools/openapi_base.json, read: what is no operation, and the schemas
--- @param api table the answer of GET /api
--- @return string
function M.openapi(base, api)
  local paths = {}
  local function add(method, path, object)
    paths[path] = paths[path] or {}
    paths[path][method:lower()] = object
  end
  for place, object in pairs(base.operations) do
    local method, path = place:match '^(%u+) (.*)$'
    add(method, path, object)
  end
  for _, o in ipairs(api.operations) do
    if o.path then add(o.method, o.path, operation_object(o)) end
  end
  local document = { paths = paths }
  for name, value in pairs(base) do
    if name ~= 'operations' then document[name] = value end
  end
  return write(document, '') .. '\n'
end

-- ---- docs/operations-reference.md ----

local function cell(text) return (text:gsub('|', '\\|')) end

--- "`queue` (name)", "`for` (a duration, 1ms–3660d)"
local function describe(p)
  local name = p.line or p.name
  if p.http and p.name ~= name then name = ('%s, over HTTP %s'):format(name, p.name) end
  local kind = p.type == 'choice' and p.what or p.type
  if (p.type == 'uint' or p.type == 'int') and p.max then kind = ('%d to %d'):format(math.max(p.min, 0), p.max) end
  local only = not p.http and p.line and '; on the line' or not p.line and '; over HTTP' or ''
  return ('| `%s` | %s%s%s | %s |'):format(name, cell(kind), p.needed and ', needed' or '', only, cell(p.help))
end

local function command_of(o, commands)
  local words = o.line and o.line:match('^[%u]+[%l ]*'):gsub(' +$', ''):lower()
  return words and commands[words:match '^%S+'] and 'tidemq ' .. words
end

--- @param api table the answer of GET /api
--- @param commands table<string, true> the verbs of the command line
--- @return string
function M.reference(api, commands)
  local out = {
    '# Operations', '',
    'Made by `make docs` from the table in `core/ops/operation_rows.c`. What is not here is the path of messages: '
      .. '[protocol.md](protocol.md), [http.md](http.md).', '',
    'Each operation takes the same parameters by every door, and answers wrong ones with the same words: `syntax` '
      .. '(400), `denied` (403), and what stands in the column *errors*.', '',
    '| operation | line protocol | HTTP | command line | permission | errors |',
    '| --- | --- | --- | --- | --- | --- |',
  }
  local function add(text) out[#out + 1] = text end
  for _, o in ipairs(api.operations) do
    local command = command_of(o, commands)
    add(('| [%s](#%s) | %s | %s | %s | %s | %s |'):format(o.operation, o.operation:lower(),
      o.line and '`' .. cell(o.line) .. '`' or '', o.path and ('`%s %s`'):format(o.method, o.path) or '',
      command and '`' .. command .. '`' or '', o.permission, o.errors))
  end
  for _, o in ipairs(api.operations) do
    add ''
    add('## ' .. o.operation)
    add ''
    add(o.help .. '.')
    if #o.takes > 0 then
      add ''
      add '| parameter | values | |'
      add '| --- | --- | --- |'
      for _, p in ipairs(o.takes) do add(describe(p)) end
    end
  end
  return table.concat(out, '\n') .. '\n'
end

return M
