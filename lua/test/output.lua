-- output.lua: how `tidemq test` tells what specs do: a line for each file, what failed below
-- it, and a summary.

local pretty = require "pl.pretty"
local term = require "term"

local function text_of(message)
  if message == nil then
    return "an error that is nil"
  end
  return type(message) == "string" and message or pretty.write(message)
end

local function plural(n, word)
  return ("%d %s%s"):format(n, word, n == 1 and "" or "s")
end

return function()
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local spec = package.loaded["tidemq.test"]
  local running = spec.running
  local is_terminal = term.isatty(io.stdout)
  local files, pending, failed, passed = 0, 0, 0, 0
  local file -- the one that runs: { name =, passed =, failures = { text, … } }

  local function begin(name)
    file = { name = name, passed = 0, failures = {} }
    files = files + 1
  end

  local function finish()
    -- With --filter most files have no test that is run.
    if spec.filter and not file.has_run then
      files, file = files - 1, nil
      return
    end
    if is_terminal then
      io.write "\r\27[K"
    end
    if #file.failures > 0 then
      io.write(("FAIL  %s  %d passed, %d failed\n"):format(file.name, file.passed, #file.failures))
      io.write(table.concat(file.failures, "\n"), "\n")
    else
      io.write(("ok    %s  %d passed\n"):format(file.name, file.passed))
    end
    io.flush()
    file = nil
  end

  -- busted's messages begin with their place, if they have one.
  local function note_failure(element, _, message, trace)
    local text = text_of(message)
    local place, rest = text:match "^([^\n]-%.lua:%d+): (.*)$"
    local where = element.trace or trace
    if not place and where and where.short_src then
      place = ("%s:%d"):format(where.short_src, where.currentline)
    end
    local is_alone = not file -- a file that does not load
    if is_alone then
      begin(place and place:match "^(.*):" or "the specs")
    end
    failed = failed + 1
    file.has_run = true
    file.failures[#file.failures + 1] = ("Failure at %s: %s\n%s"):format(place or file.name,
      handler.getFullName(element), (("\n" .. (rest or text)):gsub("\n+", "\n  "):sub(2)))
    if is_alone then
      finish()
    end
    return nil, true
  end

  function handler.subscribe()
    require "busted.languages.en"
    busted.subscribe({ "file", "start" }, function(element)
      begin(element.name)
      running(element.name)
      return nil, true
    end)
    busted.subscribe({ "file", "end" }, function()
      finish()
      return nil, true
    end)
    busted.subscribe({ "test", "start" }, function(element)
      file.has_run = true
      local name = handler.getFullName(element)
      running(("%s: %s"):format(file.name, name))
      if is_terminal then
        io.write(("\r\27[K%d passed, %d failed: %s"):format(passed, failed, name:sub(1, 50)))
        io.flush()
      end
      return nil, true
    end)
    busted.subscribe({ "test", "end" }, function(_, _, status)
      if status == "success" then
        passed = passed + 1
        file.passed = file.passed + 1
      elseif status == "pending" then
        pending = pending + 1
      end
      return nil, true
    end)
    busted.subscribe({ "failure" }, note_failure)
    busted.subscribe({ "error" }, note_failure)
    busted.subscribe({ "suite", "end" }, function(suite)
      spec.is_empty = files == 0
      if spec.filter and spec.is_empty then
        io.stderr:write(("tidemq: no test has '%s' in its name\n"):format(spec.filter))
      end
      io.write(("%s, %d passed, %d failed%s in %.1f s\n"):format(plural(files, "spec"), passed, failed,
        pending > 0 and (", %d pending"):format(pending) or "", suite.duration or 0))
      io.flush()
      return nil, true
    end)
  end

  return handler
end
