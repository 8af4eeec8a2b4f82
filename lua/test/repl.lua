-- repl.lua: `tidemq rules repl`: a prompt in an engine of its own.
--
-- It is called with { dir =, is_terminal = }. A line is Lua as scripts are; one that begins with
-- ':' is a method of the engine, as in a spec, or a word of the prompt.

local tidemq = require "tidemq"

local repl = ...
local engine, message = tidemq.open { rules = repl.dir, budget_ms = 1000 }
if not engine then
  io.stderr:write("tidemq: ", message, "\n")
  return false
end

local HELP <const> = [[
  tide.hash "a"              Lua, as in a script; globals stay from line to line, locals do not
  :msg { key = "k" }         the message that `msg` is in the lines that follow
  :filter { exchange = "orders", key = "new", headers = { amount = "5" } }
  :filter                    the same with the message of :msg
  :strategy("retry", "fixed", { delay = "5s" }):decide({}, { failures = 1 })
  :set_now(1790000000000), :advance "5m", :shared "key", :counters(), :log(), :traceback()
                             any method of the engine: docs/rules-testing.md
  :reload                    load the directory again; globals are gone
  :help  :quit]]

local function quote(text)
  return '"' .. text:gsub('[%c"\\]', function(c)
    return c == "\n" and "\\n" or (c == '"' or c == "\\") and "\\" .. c or ("\\x%02x"):format(c:byte())
  end) .. '"'
end

-- A value as text; tables with sorted names.
local function show(value, depth)
  if type(value) == "string" then
    return quote(value)
  elseif type(value) ~= "table" or depth == 0 then
    return (tostring(value):gsub(": 0x%x+", ""))
  end
  local parts, names = {}, {}
  for _, item in ipairs(value) do
    parts[#parts + 1] = show(item, depth - 1)
  end
  for name in pairs(value) do
    if math.type(name) ~= "integer" or not value[name] or name < 1 or name > #parts then
      names[#names + 1] = name
    end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    local is_word = type(name) == "string" and name:find "^[%a_][%w_]*$"
    parts[#parts + 1] = ("%s = %s"):format(is_word and name or ("[%s]"):format(show(name, 0)),
      show(value[name], depth - 1))
  end
  return #parts > 0 and "{ " .. table.concat(parts, ", ") .. " }" or "{}"
end

local current -- the message of :msg

local function print_results(results)
  local texts = {}
  for i = 1, results.n do
    texts[i] = show(results[i], 5)
  end
  if results.n > 0 then
    print(table.concat(texts, ", "))
  end
end

local function print_stack()
  local stack = engine:traceback()
  if stack ~= "" then
    print("  " .. stack:gsub("\n", "\n  "))
  end
end

local function fail(text)
  print("error: " .. tostring(text))
  print_stack()
end

local function parse(code)
  return load(code, "=prompt.lua", "t", { engine = engine, msg = current })
end

-- What follows ':'. Nil and true: the line goes on in the next one.
local function run_method(text)
  local word, rest = text:match "^%s*([%a_][%w_]*)%s*(.-)%s*$"
  if word == "msg" then
    local chunk, problem = parse("return " .. rest)
    if not chunk then
      return not problem:find "<eof>" and fail(problem), problem:find "<eof>" ~= nil
    end
    current = chunk()
    return
  elseif not word or not engine[word] then
    return print(("error: there is no ':%s'; see :help"):format(word or text))
  end
  local code = rest ~= "" and rest or (word == "filter" and "(msg)" or "()")
  local chunk, problem = parse(("return engine:%s %s"):format(word, code))
  if not chunk then
    return not problem:find "<eof>" and fail(problem), problem:find "<eof>" ~= nil
  end
  local results = table.pack(pcall(chunk))
  if not results[1] then
    fail(results[2])
  else
    print_results { n = results.n - 1, table.unpack(results, 2, results.n) }
    if not results[2] and results[4] == "rule" then
      print_stack()
    end
  end
end

-- Nil and true: the line goes on in the next one.
local function run_lua(text)
  local values, problem, _, is_open = engine:eval(text, current)
  if not values and is_open then
    return nil, true
  elseif not values then
    fail(problem)
  elseif values ~= "" then
    print(values)
  end
end

local function run(text)
  if text:find "^%s*:" then
    return run_method(text:match "^%s*:(.*)$")
  elseif text:find "%S" then
    return run_lua(text:gsub("^%s*=", "", 1))
  end
end

if repl.is_terminal then
  print(("the rules in %s, in an engine of their own; :help, :quit"):format(repl.dir))
end
local pending = ""
while true do
  if repl.is_terminal then
    io.write(pending == "" and "> " or ">> ")
    io.flush()
  end
  local line = io.read "l"
  if not line or line:find "^%s*:quit%s*$" then
    break
  elseif line:find "^%s*:help%s*$" then
    print(HELP)
  else
    local text = pending == "" and line or pending .. "\n" .. line
    local _, is_open = run(text)
    -- An empty line gives up.
    pending = is_open and line ~= "" and text or ""
    if is_open and line == "" then
      print "error: the line is not complete"
    end
  end
end
if pending ~= "" then
  print "error: the line is not complete"
end
return true
