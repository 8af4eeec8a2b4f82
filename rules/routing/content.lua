-- content: a message goes to each binding whose conditions its payload, headers and key meet.
--
--   BIND alps  shop customer.country=AT|CH;total>=100   both conditions
--   BIND gold  shop h:tier=gold;!test                   a header; the payload has no `test`
--   BIND audit shop @key~orders.#;customer.email        the key; `customer.email` is there
--
-- A field is a member of the JSON payload (`items.1.sku`: of the first element), a header
-- (`h:name`), or the key (`@key`). Its value is compared as text, with < <= > >= as a number, with
-- ~ by a topic pattern. `|` separates values of which one must be equal. Of an array one element
-- must be. A member that cannot be read counts as absent. != needs a value that differs. A pattern
-- `-` takes every message. %20 is a blank, %3B a semicolon.

local find, match, gsub, format = string.find, string.match, string.gsub, string.format
local is_pattern_match, tointeger = tide.match, math.tointeger

local M = { doc = "conditions on the payload (JSON), headers and the key" }

local function decode(text)
  return (gsub(text, "%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local function text_of(value)
  if math.type(value) == "float" then
    return format("%.14g", value)
  end
  return tostring(value)
end

-- What compares a value with the condition's, by the operator. The value is no table, nor nil.
local TESTS <const> = {
  ["="] = function(value, c) return c.values[text_of(value)] end,
  ["!="] = function(value, c) return not c.values[text_of(value)] end,
  ["~"] = function(value, c) return is_pattern_match(c.wanted, text_of(value)) end,
  ["<"] = function(value, c) local n = tonumber(value) return n and n < c.wanted end,
  ["<="] = function(value, c) local n = tonumber(value) return n and n <= c.wanted end,
  [">"] = function(value, c) local n = tonumber(value) return n and n > c.wanted end,
  [">="] = function(value, c) local n = tonumber(value) return n and n >= c.wanted end,
}

local function new_field(name)
  local field = { name = name, lists = {}, used = 0, header = match(name, "^h:(.+)$"), is_key = name == "@key" }
  if field.header then
    field.header = decode(field.header)
  elseif find(name, "^@") and not field.is_key or find(name, "^h:") then
    error(format("'%s' is no field: write h:<header>, @key, or the name of a member", name), 0)
  end
  for word in (name .. "."):gmatch "([^.]*)%." do
    if word == "" then
      error(format("'%s' has an empty word", name), 0)
    end
    word = decode(word)
    field[#field + 1] = { name = word, number = tointeger(tonumber(word)) }
  end
  return field
end

local function values_of(text)
  local values = {}
  for value in (text .. "|"):gmatch "([^|]*)|" do
    values[decode(value)] = true
  end
  return values
end

-- One condition of a pattern, without its field.
local function read_condition(text)
  local negation, name, operator, wanted = match(text, "^(!?)([^=!<>~|]+)([=!<>~]*)(.*)$")
  if not name or negation ~= "" and operator ~= "" or operator == "" and wanted ~= ""
    or operator ~= "" and not TESTS[operator] then
    error(format("'%s' is no condition; write field=value, field!=value, field>=5, field~a.*, field or !field",
      text), 0)
  end
  local c = { name = name, is_absent = negation ~= "", test = TESTS[operator], wanted = wanted }
  if operator == "=" or operator == "!=" then
    c.values, c.is_equality = values_of(wanted), operator == "="
  elseif operator == "~" then
    c.wanted = decode(wanted)
    is_pattern_match(c.wanted, "") -- a wrong one is an error
  elseif c.test then
    c.wanted = tonumber(wanted) or error(format("'%s' compares with a number, not '%s'", text, wanted), 0)
  end
  return c
end

local function read_pattern(pattern)
  local conditions = {}
  if pattern ~= "" and pattern ~= "-" then
    for text in (pattern .. ";"):gmatch "([^;]*);" do
      conditions[#conditions + 1] = read_condition(text)
    end
  end
  return conditions
end

-- The index has a list of bindings for each field and value that a binding wants it to be equal
-- to. A binding is in the lists of one of its equalities: in those that are shortest. One without
-- an equality is in `others`. So a message is held against the bindings that want one of its
-- values, and the others. `first_of` finds the bindings of a destination, for unbind.
function M.new()
  return { fields = {}, indexed = {}, others = { n = 0 }, first_of = {} }
end

local function field_of(index, name)
  local field = index.fields[name] or new_field(name)
  index.fields[name] = field
  return field
end

local function length_of(field, values)
  local n = 0
  for value in pairs(values) do
    local list = field.lists[value]
    n = n + (list and list.n or 0)
  end
  return n
end

local function add(list, binding)
  local n = list.n + 1
  list.n, list[n] = n, binding
  binding.places[list] = n
end

local function choose(binding)
  local chosen, shortest
  for _, c in ipairs(binding.conditions) do
    local n = c.is_equality and length_of(c.field, c.values)
    if n and (not shortest or n < shortest) then
      chosen, shortest = c, n
    end
  end
  return chosen
end

local function enter(index, binding)
  local c = choose(binding)
  if not c then
    return add(index.others, binding)
  end
  local field = c.field
  binding.chosen = c
  for value in pairs(c.values) do
    field.lists[value] = field.lists[value] or { n = 0 }
    add(field.lists[value], binding)
  end
  if not field.place then
    field.place = #index.indexed + 1
    index.indexed[field.place] = field
  end
end

function M.bind(index, pattern, dest)
  local conditions = read_pattern(pattern)
  local binding = { pattern = pattern, dest = dest, conditions = conditions, places = {} }
  for _, c in ipairs(conditions) do
    c.field = index.fields[c.name] or new_field(c.name) -- all of them, before anything changes
  end
  for _, c in ipairs(conditions) do
    c.field = field_of(index, c.name)
    c.field.used = c.field.used + 1
  end
  enter(index, binding)
  binding.next = index.first_of[dest]
  index.first_of[dest] = binding
end

-- The last field moves into the gap.
local function forget_index(index, field)
  local last = index.indexed[#index.indexed]
  index.indexed[field.place], last.place = last, field.place
  index.indexed[#index.indexed] = nil
  field.place = nil
end

-- The last binding of a list moves into the gap.
local function take_out(index, binding)
  for list, place in pairs(binding.places) do
    local last = list[list.n]
    list[place], last.places[list] = last, place
    list[list.n], list.n = nil, list.n - 1
  end
  local c = binding.chosen
  if c then
    for value in pairs(c.values) do
      if c.field.lists[value].n == 0 then
        c.field.lists[value] = nil
      end
    end
    if next(c.field.lists) == nil then
      forget_index(index, c.field)
    end
  end
  for _, condition in ipairs(binding.conditions) do
    local field = condition.field
    field.used = field.used - 1
    if field.used == 0 then
      index.fields[field.name] = nil
    end
  end
end

function M.unbind(index, pattern, dest)
  local before, b = nil, index.first_of[dest]
  while b and b.pattern ~= pattern do
    before, b = b, b.next
  end
  if not b then
    return
  end
  if before then
    before.next = b.next
  else
    index.first_of[dest] = b.next
  end
  take_out(index, b)
end

-- The field of the message; nil when it is not there.
local function read_field(field, msg)
  if field.header then
    return msg.headers[field.header]
  elseif field.is_key then
    return msg.key
  end
  local value = msg.json
  for i = 1, #field do
    if type(value) ~= "table" then
      return nil
    end
    local word = field[i]
    local found = value[word.name]
    if found == nil and word.number then
      found = value[word.number]
    end
    value = found
  end
  return value
end

-- The same, read once for a message; false stands for nil.
local function value_of(seen, field, msg)
  local value = seen[field]
  if value == nil then
    value = read_field(field, msg)
    if value == false then
      value = "false"
    end
    if value == nil then
      value = false
    end
    seen[field] = value
  end
  return value or nil
end

local function holds(c, value)
  if not c.test then
    return (value == nil) == c.is_absent
  elseif type(value) ~= "table" then
    return value ~= nil and c.test(value, c)
  end
  for i = 1, #value do
    local element = value[i]
    if element ~= nil and type(element) ~= "table" and c.test(element, c) then
      return true
    end
  end
  return false
end

local function try(list, seen, msg, to)
  for i = 1, list.n do
    local binding, is_match = list[i], true
    for k = 1, #binding.conditions do
      local c = binding.conditions[k]
      if c ~= binding.chosen and not holds(c, value_of(seen, c.field, msg)) then
        is_match = false
        break
      end
    end
    if is_match then
      to(binding.dest)
    end
  end
end

function M.route(index, msg, to)
  local seen, indexed = {}, index.indexed
  for i = 1, #indexed do
    local field = indexed[i]
    local value = value_of(seen, field, msg)
    if type(value) == "table" then
      for k = 1, #value do
        local element = value[k]
        local list = element ~= nil and type(element) ~= "table" and field.lists[text_of(element)]
        if list then
          try(list, seen, msg, to)
        end
      end
    elseif value ~= nil then
      local list = field.lists[text_of(value)]
      if list then
        try(list, seen, msg, to)
      end
    end
  end
  try(index.others, seen, msg, to)
end

return M
