-- run.lua: what `tidemq test` does, in a process of its own: busted runs the spec files.
--
-- It is called with { files =, dir =, here =, filter = text or nil, running = function (text) }.
-- Where the directory that it lies in is `here`. busted ends the process if a test fails.

local spec = ...

-- A spec that talks to the network would pass here and fail there.
for _, name in ipairs { "socket", "socket.core", "socket.unix" } do
  package.preload[name] = function()
    error("specs of rules have no network", 0)
  end
end

-- One that ends the process would be taken for one that passes: only busted ends it, when all
-- have run.
local has, compatibility = pcall(require, "busted.compatibility")
if has then
  local exit, by_busted = os.exit, compatibility.exit
  compatibility.exit = function(...)
    rawset(os, "exit", exit)
    by_busted(...)
  end
  rawset(os, "exit", function()
    error("os.exit: specs do not end the process", 2)
  end)
end

local ok, runner = pcall(require, "busted.runner")
if not ok then
  io.stderr:write("tidemq: busted for Lua 5.4 is needed and was not found (Debian: lua-busted)\n")
  return false
end

package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(spec.dir, spec.dir, package.path)
-- What lies in the current directory is of no importance: neither its .busted nor its ./src.
local words = {
  [0] = "tidemq test", "--ignore-lua", "--lpath=", "--cpath=",
  "--config-file=" .. spec.here .. "/config.lua", "--output=" .. spec.here .. "/output.lua",
}
if spec.filter then
  words[#words + 1] = "--filter=" .. spec.filter:gsub("%p", "%%%0")
end
for _, file in ipairs(spec.files) do
  words[#words + 1] = file
end
rawset(_G, "arg", words)
package.loaded["tidemq.test"] = spec -- for output.lua
runner { standalone = false }
return not spec.is_empty
