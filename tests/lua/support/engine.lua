-- The real rule engine for specs, on a rules directory: the shipped one, or one
-- that the spec writes.

local build = (os.getenv("TIDEMQ") or "build/tidemq"):match("^(.*)/") or "."
local load_module = assert(package.loadlib(build .. "/luatide.so", "spec_module_open"))

local M = { luatide = load_module() }

local function run(command)
  assert(os.execute(command), command)
end

---@param options table|nil  as luatide.open takes them
function M.open(options)
  return assert(M.luatide.open(options or {}))
end

---A new rules directory with the files given, by name.
---@param files table<string, string>
---@return string
function M.make_dir(files)
  local dir = os.tmpname()
  os.remove(dir)
  run("mkdir -p " .. dir)
  for name, text in pairs(files) do
    run(("mkdir -p %s/%s"):format(dir, name:match("^(.*)/") or "."))
    local file = assert(io.open(dir .. "/" .. name, "w"))
    assert(file:write(text))
    file:close()
  end
  return dir
end

---@param dir string  of make_dir
function M.remove_dir(dir)
  assert(dir:find("^/tmp/"), dir)
  run("rm -r " .. dir)
end

---The destinations of a message, sorted.
function M.route(index, msg)
  local found, message = index:route(msg)
  assert(found, message)
  table.sort(found)
  return found
end

return M
