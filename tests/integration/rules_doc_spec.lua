-- What docs/rules.md and rules-reference.md have people type happens as it is written there:
-- sessions in nc, commands, definitions and refusals. Its blocks of Lua are run by tests/lua/docs_spec.lua,
-- and are the rules here.
local Broker = require 'support.broker'
local shell = require 'support.shell'
local wait = require 'support.wait'

local doc = shell.read_file 'docs/rules.md' .. '\n' .. shell.read_file 'docs/rules-reference.md'

local blocks, rules = {}, {}
for tag, text in doc:gmatch '\n```(%w*)\n(.-)\n```' do
  local file = tag == 'lua' and text:match '^%-%- rules/(%S+)'
  -- With one that lets people in, everybody must log in.
  if file and not text:find 'authenticate =' then rules[file] = text end
  -- "bash" needs another broker: tests/lua/auth_models_spec.lua, auth_rules_spec.lua.
  if tag ~= 'lua' and tag ~= 'bash' then blocks[#blocks + 1] = { tag = tag, text = text } end
end

local function lines_of(text)
  local lines = {}
  for line in (text .. '\n'):gmatch '([^\n]*)\n' do lines[#lines + 1] = line end
  return lines
end

--- A line of the document as a pattern; `…` is what it leaves out.
local function pattern_of(line)
  return '^' .. line:gsub('%p', '%%%0'):gsub('…', '.*') .. (line:find '…$' and '' or '$')
end

describe('docs/rules.md, rules-reference.md', function()
  local broker, c, dir
  local played = 0

  setup(function()
    broker = Broker.start { rules = rules, args = { '--fsync', 'no' } }
    c = broker:connect()
    dir = broker.dir
    assert(os.execute(("cp -R '%s' '%s/rules.next'"):format(broker.rules, dir)))
    -- A sanitized binary is deeper in the build directory, and does not find it by itself.
    assert(os.execute(('ln -s "$(pwd)/lua" %s/lua'):format(dir)))
  end)
  teardown(function() if broker then broker:destroy() end end)

  --- Its output, and its exit status.
  local function run(command)
    local path = Broker.binary():match '^(.*)/'
    return shell.run(("cd '%s' && PATH='%s':\"$PATH\" TIDEMQ_URL='%s' %s 2>&1"):format(
      dir, path, broker:url(), command))
  end

  local play = {}

  -- What is typed, and what comes; without an answer in the text it is OK.
  function play.tide(lines)
    local i = 1
    while i <= #lines do
      local request = lines[i]
      c:send(request .. '\r\n')
      i = i + 1
      local reply = lines[i] and lines[i]:find '^OK' or lines[i] and lines[i]:find '^DATA'
      if lines[i] == 'DATA …' then
        local payload = c:expect_payload(c:expect '^DATA (%d+)$')
        assert.is_truthy(payload:find(pattern_of(lines[i + 1])), payload)
        i = i + 2
      else
        c:expect(reply and pattern_of(lines[i]) or '^OK')
        i = i + (reply and 1 or 0)
      end
    end
  end

  function play.definitions(lines)
    shell.write_file(dir .. '/definitions', table.concat(lines, '\n') .. '\n')
    for _, line in ipairs(lines) do
      if not line:find '^#' then
        c:send(line .. '\r\n')
        c:expect '^OK'
      end
    end
  end

  -- Commands, each of which succeeds; what needs an address or a hash gets one.
  function play.sh(lines)
    for _, command in ipairs(lines) do
      if command:find '^tidemq check %-%-def' then
        play.definitions(lines_of(doc:match '\n```definitions\n(.-)\n```'))
      end
      command = command:gsub('tide://127%.0%.0%.1/', 'tide://' .. broker.address)
      if command:find 'rollback' then
        -- Something to go back to.
        broker:write_rule('retry/extra.lua',
          ('return { decide = function() return %d end }'):format(math.random(1000000)))
        assert(select(2, run 'tidemq rules reload'))
        local before = run 'tidemq rules log --json'
        -- The same files may be there twice: the broker has seen them, too, before it was asked.
        local active, other
        for hash in before:gmatch '"result":"accepted","hash":"(%x+)"' do
          active = active or hash
          other = other or hash ~= active and hash or nil
        end
        command = command:gsub('9f3c', other)
      end
      if command:find 'test' then
        broker:write_rule('manual_spec.lua', (doc:match '\n```lua\n(local tidemq = require.-)\n```'))
      end
      local output, status = run(command)
      -- With definitions, those of the document's rules that are of other shops are told of.
      local has_findings = command:find 'check %-%-' and output:find 'not fit to go live\n$'
      assert.is_truthy(status == 0 or has_findings, command .. '\n' .. output)
    end
  end

  -- A command, and exactly what it prints.
  function play.console(lines)
    local output, status = run(lines[1]:match '^%$ (.*)$')
    assert.equal(0, status, output)
    local expected = {}
    for i = 2, #lines do expected[#expected + 1] = lines[i] end
    assert.equal(table.concat(expected, '\n') .. '\n', (output:gsub(' +\n', '\n')))
  end

  -- Refusals of a reload, with what leads to them.
  local function refuse(line)
    local what = line:find 'routing/country' and 'routing/country.lua' or 'retry/flaky_api.lua'
    if what == 'routing/country.lua' then
      local text = lines_of(rules[what])
      broker:write_rule(what, table.concat(text, '\n', 1, 7) .. '\n')
    else
      c:send 'DECLARE queue flaky retry=flaky_api\r\n'
      c:expect '^OK'
      broker:remove_rule(what)
      line = line:gsub("'jobs'", "'flaky'")
    end
    c:send 'RULES reload\r\n'
    local got = c:expect '^.*$'
    broker:write_rule(what, rules[what])
    c:send 'RULES reload\r\n'
    c:expect_data()
    assert.equal(line, got)
  end

  for _, block in ipairs(blocks) do
    it('happens as it is written: ' .. lines_of(block.text)[1], function()
      played = played + 1
      local lines = lines_of(block.text)
      if block.text:find '^ERR rule' then
        for _, line in ipairs(lines) do refuse(line) end
        return
      end
      assert.is_function(play[block.tag], block.text)
      play[block.tag](lines)
    end)
  end

  it('is played in full', function() assert.is_true(played == #blocks and played >= 10) end)

  it('has the line of the log that a new file brings', function()
    local line = doc:match 'says `(rules: generation 2 is active[^`]*)`'
    broker:destroy()
    broker = Broker.start { rules = {}, args = { '--store', 'none' } }
    broker:write_rule('routing/country.lua', rules['routing/country.lua'])
    line = line:gsub('%p', '%%%0'):gsub('…', '[^\n]*') .. '\n'
    assert.is_truthy(wait.poll(function() return broker:log():find(line) end), broker:log())
  end)

  it('has a first routing type of ten lines', function()
    assert.equal(11, #lines_of(rules['routing/country.lua']), 'with the comment that names the file')
    assert.is_truthy(doc:find('That is all: ten lines', 1, true))
  end)
end)
