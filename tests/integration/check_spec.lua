--- `tidemq check`: a rules directory looked over before it goes live.
local Broker = require 'support.broker'
local json = require 'dkjson'
local shell = require 'support.shell'

local function capture(command) return shell.run(command .. ' 2>&1') end

local function split(text)
  local lines = {}
  for line in text:gmatch '[^\n]+' do lines[#lines + 1] = line end
  return lines
end

local REROUTE <const> = [[
return {
  match = { exchange = "%s" },
  publish = function(msg)
    msg.exchange = "%s"
  end,
}
]]

describe('tidemq check', function()
  local it_with_luacheck = require 'support.needs'.group('test', it, 'command -v luacheck')
  local dir

  before_each(function()
    dir = shell.make_dir 'tidemq-test'
    assert(os.execute(('mkdir %s/r'):format(dir)))
  end)
  after_each(function() os.execute('rm -rf ' .. dir) end)

  local function write(path, text) shell.write_file(dir .. '/' .. path, text) end

  --- The findings, without the directory before them and without the last line.
  local function check(files, options)
    for path, text in pairs(files) do write('r/' .. path, text) end
    local text, status = capture(('%s check %s %s/r'):format(Broker.binary(), options or '', dir))
    local lines = split(text)
    local last = table.remove(lines)
    if status ~= 2 then
      assert.equal(('%s/r: %s'):format(dir, status == 0 and 'nothing is wrong' or 'not fit to go live'), last)
    end
    for i, line in ipairs(lines) do lines[i] = line:gsub('^' .. dir:gsub('%p', '%%%0') .. '/r/', '') end
    return lines, status, text
  end

  local function finds(files, wanted, options)
    local lines, status, text = check(files, options)
    assert.same(wanted, lines, text)
    assert.equal(1, status)
  end

  local function has(lines, wanted)
    for _, line in ipairs(lines) do
      if line:find(wanted, 1, true) == 1 then return end
    end
    error(('"%s" does not begin a line of\n%s'):format(wanted, table.concat(lines, '\n')), 2)
  end

  local function is_clean(files, options)
    local _, status, text = check(files, options)
    assert.equal(0, status, text)
    assert.equal(1, #split(text), text)
  end

  -- ---- what is shipped ---------------------------------------------------------

  it('prints findings for programs', function()
    write('r/retry/bad.lua', 'return {\n  decide = function(\n')
    local text, status = capture(('%s check --json %s/r'):format(Broker.binary(), dir))
    assert.equal(1, status)
    local finding = json.decode(split(text)[1])
    assert.same({ 'retry/bad.lua', false }, { finding.file, finding.note })
    assert.equal('integer', math.type(finding.line))
    assert.is_string(finding.text)
    assert(os.execute(('rm %s/r/retry/bad.lua'):format(dir)))
    text, status = capture(('%s check --json %s/r'):format(Broker.binary(), dir))
    assert.same({ '', 0 }, { text, status })
  end)

  it('finds nothing wrong with the shipped rules and those of the examples', function()
    local pipe = io.popen 'ls -d rules examples/*/rules'
    local count = 0
    for path in pipe:lines() do
      local text, status = capture(Broker.binary() .. ' check ' .. path)
      assert.equal(0, status, text)
      assert.equal(path .. ': nothing is wrong\n', text)
      count = count + 1
    end
    pipe:close()
    assert.is_true(count > 1)
  end)

  it('names files as the directory was given, and the mistakes of luacheck alike', function()
    write('r/retry/odd.lua', 'local unused = 1\nreturn { decide = function() return 1 end }\n')
    for _, given in ipairs { './r', 'r', 'r/', '../' .. dir:match '[^/]+$' .. '/r' } do
      local text = capture(('cd %s && %s check %s'):format(dir, Broker.binary(), given))
      assert.is_truthy(text:find(given:gsub('/$', '') .. '/retry/odd.lua:1: note: unused variable', 1, true), text)
    end
  end)

  it('finds nothing wrong with the shipped filters when they are active', function()
    for name, options in pairs {
      content_route = 'pattern = "x", key = "k"', dedupe = '', mirror = '', rate_limit = '', record = '', schema = '',
    } do
      write(('r/filter/%s.lua'):format(name), assert(shell.read_file(('rules/filter/%s.lua'):format(name))))
      write(('r/filter/50-%s.lua'):format(name),
        ('return tide.use("%s", { match = {}, options = { %s } })\n'):format(name, options))
    end
    is_clean {}
  end)

  it('finds nothing wrong with the rules of the manual', function()
    local text_of_both = shell.read_file 'docs/rules.md' .. shell.read_file 'docs/rules-reference.md'
    local count = 0
    for path, text in text_of_both:gmatch '\n```lua\n%-%- rules/(%S+)\n(.-)\n```' do
      write('r/' .. path, text .. '\n')
      -- An instance needs the shipped script that it names.
      local model = text:match 'tide%.use%("([%w_]+)"'
      if model then
        model = path:match '^%l+' .. '/' .. model .. '.lua'
        write('r/' .. model, shell.read_file('rules/' .. model))
      end
      count = count + 1
    end
    assert.is_true(count >= 5)
    write('r/filter/rate_limit.lua', assert(shell.read_file 'rules/filter/rate_limit.lua')) -- which some use
    is_clean {}
  end)

  it('finds nothing wrong with the definitions of the example, in a file', function()
    write('defs', [[
# as examples/order-flow/setup.sh declares them
DECLARE exchange orders topic
DECLARE exchange orders.dead fanout
DECLARE queue orders.failed
BIND orders.failed orders.dead -
DECLARE queue billing priority=vip priority.gold=1h retry=exponential retry.max=4 dead-letter=orders.dead
BIND billing orders orders.*.placed
]])
    local text, status = capture(('%s check --definitions %s/defs examples/order-flow/rules')
      :format(Broker.binary(), dir))
    assert.equal(0, status, text)
  end)

  -- ---- scripts that do not load ----------------------------------------------------

  it('names every script that does not load, in one run', function()
    finds({
      ['retry/broken.lua'] = 'return {\n  decide = \n}\n',
      ['sharding/number.lua'] = 'return {\n  pick = 1,\n}\n',
      ['sharding/good.lua'] = 'return { pick = function() return 0 end }\n',
      ['routing/9lives.lua'] = 'return {}\n',
      ['filter/raises.lua'] = 'local t = nil\nreturn t.x\n',
    }, {
      "filter/raises.lua:2: attempt to index a nil value (local 't')",
      "retry/broken.lua:3: unexpected symbol near '}'",
      "routing/9lives.lua:1: the name of a script is a letter, then letters, "
        .. "digits, '_' and '-', at most 64 in all",
      "sharding/number.lua:3: a sharding script needs a function 'pick'; here it is number",
    })
  end)

  it('names a module that does not load once, whoever requires it', function()
    local needs = 'local bad = require "lib.bad"\nreturn { rank = function() return bad end }\n'
    local lines = check {
      ['priority/a.lua'] = needs, ['priority/b.lua'] = needs, ['lib/bad.lua'] = 'local a =\n',
    }
    assert.equal(1, #lines)
    has(lines, 'lib/bad.lua:2: unexpected symbol near <eof>')
  end)

  it('goes on with what loads', function()
    local lines = check {
      ['retry/broken.lua'] = 'return {',
      ['filter/10-a.lua'] = REROUTE:format('a', 'b'),
      ['filter/9-b.lua'] = REROUTE:format('a', 'b'),
    }
    has(lines, 'filter/9-b.lua:3: is identical to filter/10-a.lua')
    has(lines, 'retry/broken.lua:1: ')
  end)

  -- ---- names ------------------------------------------------------------------------

  it('finds names that are there twice', function()
    local filter = 'return { match = { exchange = "x" }, publish = function(msg) msg.priority = %d end }\n'
    finds({
      ['filter/10-tag.lua'] = filter:format(1),
      ['filter/20-tag.lua'] = filter:format(2),
      ['filter/30-copy.lua'] = filter:format(2),
      ['filter/9-late.lua'] = filter:format(9),
    }, {
      'filter/20-tag.lua:1: has the same name as filter/10-tag.lua except for the number, and both are active; if one '
        .. 'is an old copy, remove it or its match; otherwise rename it',
      'filter/30-copy.lua:1: is identical to filter/20-tag.lua and both are active: everything they do happens twice; '
        .. 'remove one of them',
      'filter/9-late.lua:1: runs after filter/10-tag.lua although its number is lower: names are sorted as text; '
        .. 'write all numbers with the same number of digits',
    })
  end)

  it('lets filters have one name that are not both active, or for other exchanges', function()
    is_clean {
      ['filter/10-limit.lua'] = REROUTE:format('in', 'out'),
      ['filter/9-limit.lua'] = REROUTE:format('other', 'out'),
      ['filter/dedupe.lua'] = 'return { options = { n = {} }, publish = function() end }\n',
      ['filter/90-dedupe.lua'] = REROUTE:format('x', 'y'),
    }
  end)

  it('notes a script that nobody asks', function()
    local lines, status = check {
      ['filter/10-forgotten.lua'] = 'return { publish = function() end }\n',
      ['filter/20-all.lua'] = 'return { match = {}, publish = function() return end }\n',
      ['filter/limit.lua'] = 'return { options = { n = {} }, publish = function() end }\n',
      ['settled/model.lua'] = 'return { settled = function() end }\n',
      ['settled/10-use.lua'] = 'return tide.use("model", { match = {} })\n',
    }
    assert.same({
      "filter/10-forgotten.lua:1: note: is not active, because it has no 'match'; write match = {} for everything, "
        .. 'or use it in another file: tide.use("10-forgotten", …)',
    }, lines)
    assert.equal(0, status)
  end)

  it('notes a module beside the folders that no script requires', function()
    local files = {
      ['filter/20-all.lua'] = 'local near = require "near"\nreturn { match = {}, publish = near }\n',
      ['lib/unused.lua'] = 'return {}\n',
      ['near.lua'] = 'return function() end\n',
      ['not.a.name.lua'] = 'return {}\n',
      ['top.lua'] = 'return {}\n',
    }
    local lines, status = check(files)
    assert.same({
      'not.a.name.lua:1: note: is read by nothing; scripts belong in the folder of their kind, such as filter/ or '
        .. 'retry/',
      'top.lua:1: note: is a module, for scripts that say require "top", and none does; scripts belong in the folder '
        .. 'of their kind, such as filter/ or retry/',
    }, lines)
    assert.equal(0, status)
  end)

  it('finds options that no policy can set in the values of bounds', function()
    for options, problem in pairs {
      ['defaults = "max-lenght=5"'] = "a queue has no option 'max-lenght'; it takes: durable ",
      ['most = "ttl=1x"'] = 'ttl=1x: expected a duration from 1ms',
      ['kind = "topic", defaults = "priority=fair"'] = "'priority' is an option of queues: a topic takes ",
      ['defaults = "shards=3"'] = 'a policy cannot set shards, because messages are found by it; it can only refuse',
      ['defaults = "durable=0"'] = 'a policy cannot set durable, because messages do not move',
      ['kind = "exchange", defaults = "alternat=x"'] = 'alternat: a policy sets auto-delete, internal and alternate',
      ['kind = "exchange", defaults = "durable=0"'] = 'durable: a policy sets auto-delete, internal and alternate',
      ['kind = "exchange", defaults = "internal=yes"'] = 'internal=yes: expected 0 or 1',
    } do
      local lines, status = check {
        ['declare/10-a.lua'] = ('return tide.use("bounds", { match = { %s = "a.#" }, options = { %s } })\n'):format(
          options:find 'exchange' and 'exchange' or 'queue', options),
      }
      local text = lines[1]:gsub('^shipped/declare/bounds.lua:%d+: ', '')
      assert.equal(problem, text:sub(1, #problem))
      assert.matches('%(for declare/10%-a.lua%)$', text)
      assert.equal(1, status)
    end
    -- Options that need others may come from the client.
    is_clean {
      ['declare/10-a.lua'] = 'return tide.use("bounds", { match = { queue = "#" }, options = { defaults = '
        .. '"overflow=drop-head,ack-timeout-max=5s,retry=exponential,retry.max=5,priority.by=x" } })\n',
    }
  end)

  it('tells a problem although the line has a note too', function()
    local lines, status = check {
      ['filter/10-typo.lua'] = 'return { match = {}, publish = function(msg) mgs.key = "x" end }\n',
    }
    assert.same("filter/10-typo.lua:1: mutating non-standard global variable 'mgs'", lines[#lines])
    assert.equal(1, status)
  end)

  it('finds a directory that is one too deep, or not one of rules', function()
    finds({
      ['rules/filter/10-a.lua'] = REROUTE:format('in', 'out'),
      ['20-b.lua'] = REROUTE:format('in', 'out'),
    }, {
      '20-b.lua:1: is not loaded: scripts belong in the folder of their kind, such as filter/ or retry/',
      'rules/filter/10-a.lua:1: is not loaded: filter scripts belong in filter/, not in rules/filter/',
    })
  end)

  it('says which instance an error in a shipped script is of', function()
    local lines = check {
      ['filter/10-a.lua'] = 'return tide.use("rate_limit", { match = {}, options = { rate = "fast" } })\n',
    }
    assert.matches('^shipped/filter/rate_limit.lua:%d+: .* %(for filter/10%-a.lua%)$', lines[1])
  end)

  it('knows scripts of auth/, whose names are their order', function()
    local auth = 'return { authorize = function() return %s end }\n'
    finds({
      ['auth/10-hours.lua'] = auth:format 'nil',
      ['auth/20-hours.lua'] = auth:format 'true',
      ['auth/9-last.lua'] = auth:format 'false',
      ['auth/none.lua'] = 'return {}\n',
      ['authorization/a.lua'] = auth:format '1',
    }, {
      'auth/20-hours.lua:1: has the same name as auth/10-hours.lua except for the number, and both are active; if one '
        .. 'is an old copy, remove it; otherwise rename it',
      'auth/9-last.lua:1: runs after auth/10-hours.lua although its number is lower: names are sorted as text; '
        .. 'write all numbers with the same number of digits',
      "auth/none.lua:1: an auth script needs a function 'authenticate' or 'authorize', or both",
      'authorization/a.lua:1: is not loaded: auth scripts belong in auth/, not in authorization/',
    })
  end)

  it('finds files that no broker loads', function()
    local retry = 'return { decide = function() return 0 end }\n'
    write('r/retry/folder.lua/x.txt', '')
    finds({
      ['retry/fixed.lua'] = retry,
      ['retry/eu/fixed.lua'] = retry,
      ['filters/a.lua'] = 'return {}\n',
      ['tide/topic_trie.lua'] = 'return {}\n',
      ['lib/words.lua'] = 'return {}\n',
      ['lib/words/init.lua'] = 'return {}\n',
    }, {
      'filters/a.lua:1: is not loaded: filter scripts belong in filter/, not in filters/',
      'retry/eu/fixed.lua:1: is not loaded: only files directly in retry/ are scripts, and no script requires this '
        .. 'one; move it to retry/',
      'retry/folder.lua:1: is a folder, but a script must be a file; nothing in it is loaded',
      "tide/topic_trie.lua:1: is not loaded: modules that begin with 'tide.' belong to the framework; move this file "
        .. 'to another folder',
    })
  end)

  it('lets modules be anywhere, specs and hidden files too', function()
    is_clean {
      ['retry/eu/words.lua'] = 'return { delay = 0 }\n',
      ['retry/eu.lua'] = 'local words = require "retry.eu.words"\n'
        .. 'return { decide = function() return words.delay end }\n',
      ['retry/eu/eu_spec.lua'] = 'not Lua',
      ['retry/.eu.lua.swp'] = 'not Lua',
    }
  end)

  it('finds functions and keys that are there twice', function()
    local lines = check {
      ['retry/twice.lua'] = [==[
local M = {
  options = {
    base = { type = "duration", default = "1s" },
    ["base"] = { type = "integer", default = 1 },
  },
}
function M.decide() return 0 end
-- function M.decide() in a comment, and an open [[
--[[ in a long one too:
function M.decide() return 1 end
]]
function M.decide(_, failure)
  local function decide() return failure.failures end
  return decide()
end
return M
]==],
    }
    has(lines, "retry/twice.lua:12: function 'M.decide' is defined twice; the definition in line 7 has no effect")
    if os.execute 'command -v luacheck >/dev/null' then
      has(lines, "retry/twice.lua:3: value assigned to field 'base' is overwritten on line 4 before use")
    end
    local count = 0
    for _, line in ipairs(lines) do count = count + (line:find 'defined twice' and 1 or 0) end
    assert.equal(1, count)
  end)

  it('finds patterns that are none', function()
    finds({
      ['filter/a.lua'] = 'return {\n  match = { exchange = "orders.*", key = "new*" },\n'
        .. '  publish = function() end,\n}\n',
    }, {
      "filter/a.lua:3: match.exchange is 'orders.*', but it takes a name and no pattern; give the name of an "
        .. "exchange, '-' for the default exchange or '*' for all",
      "filter/a.lua:3: match.key is 'new*', but '*' and '#' are wildcards only as whole words; dots separate words",
    })
  end)

  it_with_luacheck('says what luacheck says, when it is installed', function()
    finds({ ['retry/a.lua'] = 'return {\n  decide = function() unknown = 1 return 0 end,\n}\n' },
      { "retry/a.lua:2: setting non-standard global variable 'unknown'" })
  end)

  it_with_luacheck('says what scripts do not have, also in functions that are not called, and what to use', function()
    local found, status = check { ['filter/a.lua'] = [[
return { match = {}, publish = function(msg)
  msg.headers.at = os.time()
  msg.headers.by = math.random(3) + math.abs(2)
  if msg.key == "x" then print(string.dump(tide.now), load "return 1", rawset, utf8.len "") end
end }
]] }
    assert.equal(1, status)
    assert.same({
      "filter/a.lua:2: accessing undefined variable 'os'; use tide.now() for the time, tide.time for dates",
      "filter/a.lua:3: accessing undefined field 'random' of global 'math'; use tide.random",
      "filter/a.lua:4: accessing undefined field 'dump' of global 'string'; pass the function itself",
    }, found)
  end)

  it('notes a number made from a text that is the key of a table', function()
    write('r/filter/keys.lua', [[
      local seen, levels = {}, { "a", "b" }
      return { match = { exchange = "x" }, publish = function(msg)
        local n = tonumber(msg.headers.n)
        seen[n] = true
        seen[tonumber(msg.headers.m)] = true
        seen[msg.headers.n] = levels[n] == "a" and levels[tonumber("1")]
        -- seen[n] = false
        seen[tostring(n)] = true
      end }]])
    local text, status = capture(('%s check %s/r'):format(Broker.binary(), dir))
    local lines = {}
    for line in text:gmatch 'keys.lua:(%d+): note: a number made from a text is the key of a table' do
      lines[#lines + 1] = line
    end
    assert.same({ '4', '5' }, lines, text)
    assert.equal(0, status, text)
  end)

  it_with_luacheck('calls style a note, which does not affect the exit status', function()
    write('r/retry/a.lua', 'local unused = 1\nreturn {\n  decide = function(msg) return 0 end, \n}\n')
    local text, status = capture(('%s check %s/r'):format(Broker.binary(), dir))
    assert.is_truthy(text:find("retry/a.lua:1: note: unused variable 'unused'", 1, true), text)
    assert.is_truthy(text:find("retry/a.lua:3: note: unused argument 'msg'", 1, true), text)
    assert.is_truthy(text:find('r: nothing is wrong\n', 1, true), text)
    assert.equal(0, status)
  end)

  it_with_luacheck('leaves the style of modules alone, and notes what they lack in Lua 5.4', function()
    local found, status = check {
      ['retry/a.lua'] = 'local lib = require "lib"\nreturn { decide = function() return lib.one() end }\n',
      ['lib.lua'] = 'local unused = 1\nlocal load = loadstring or load\n'
        .. 'return { one = function() return load "return 1"() end }\n',
    }
    assert.equal(0, status)
    assert.same({ "lib.lua:2: note: accessing undefined variable 'loadstring'; use load" }, found)
  end)

  it('says that luacheck is not installed, when it is not', function()
    write('r/retry/a.lua', 'return { decide = function() return 0 end }\n')
    local text, status = capture(('PATH=/nonexistent %s check %s/r'):format(Broker.binary(), dir))
    assert.equal(0, status, text)
    assert.equal(('%s/r: note: luacheck is not installed; only what a broker checks was checked\n%s/r: nothing is '
      .. 'wrong\n'):format(dir, dir), text)
  end)

  -- ---- definitions -----------------------------------------------------------------------

  local mistakes = [[
DECLARE exchange a topic
DECLARE exchange b fanout
DECLARE exchange c nosuch
BIND b a # dest=exchange
BIND a b - dest=exchange
BIND q c #
DECLARE queue q retry=fixed retry.delay=soon
DECLARE queue r dead-letter=nowhere/x

DECLARE queue s dead-letter=-/gone
DECLARE queue t dead-letter=dlx/t.again  # not a comment
DECLARE queue t dead-letter=dlx/t.again
DECLARE exchange dlx topic
BIND u dlx t.*
DECLARE queue u dead-letter=-/t
BIND u dlx t.*
DECLARE exchange empty topic alternate=void
DECLARE queue v dead-letter=empty
PUB - q 3
DECLARE topic log partitions=2 dead-letter=-/ghost
BIND log a #
DECLARE queue w dead-letter=-/log
DECLARE topic bad retry=fixed retry.delay=soon
BIND bad dlx t.*
DECLARE topic circle dead-letter=-/circle
]]
  local sender = [[
return {
  match = { exchange = "a" },
  publish = function(msg)
    if msg.headers.x == "1" then msg.exchange = "nirvana" end
    if msg.headers.y == "2" then msg:copy { exchange = "-", key = "review" } end
    if msg.headers.y == "3" then msg:copy { exchange = "-", key = "s" } end
  end,
}
]]
  local late = 'return { match = { exchange = "gone" }, publish = function() end }\n'

  it('holds the rules against a file of definitions', function()
    write('defs', mistakes)
    local function at(line, text) return ('%s/defs:%d: %s'):format(dir, line, text) end
    finds({
      ['filter/10-late.lua'] = late,
      ['filter/20-send.lua'] = sender,
      ['filter/30-off.lua'] = 'return { options = { n = {} }, publish = function(msg) msg.exchange = "off" end }\n',
      ['schedule/tick.lua'] = [[
return {
  every = "1m",
  run = function(broker)
    broker.publish { key = "nojob" }
    broker.publish { exchange = "nox", key = "q" }
    broker.publish { key = "s" }
    -- not broker.publish { exchange = "comment" }
    if broker.exchange == "compared" or broker.my_exchange then broker.publish { exchange = '-', key = "s" } end
  end,
}
]],
    }, {
      "filter/10-late.lua:1: matches exchange 'gone', which does not exist: the filter is never called",
      "filter/20-send.lua:4: sends to exchange 'nirvana', which does not exist: the publish fails",
      "schedule/tick.lua:5: sends to exchange 'nox', which does not exist: the publish fails",
      at(1, "exchange 'a' is bound to itself in the end: a -> b -> a"),
      at(3, "exchange 'c': there is no routing script 'nosuch'; "
        .. "there are: consistent-hash content direct fanout headers random topic"),
      at(7, "queue 'q': retry=fixed: option 'delay' of retry/fixed must be a duration such as 500ms, 30s or 5m, "
        .. "not 'soon'"),
      at(8, "queue 'r' dead-letters to exchange 'nowhere', which does not exist: its dead letters are buried"),
      at(10, "queue 's' dead-letters to queue 'gone', which does not exist: its dead letters are buried"),
      at(11, "queue 't': single spaces separate words"),
      at(11, "queue 't' dead-letters to itself in the end: t -> u -> t"),
      at(14, "binding of 'u' to 'dlx': there is no queue 'u' in vhost '/'"),
      at(17, "exchange 'empty' has the alternate 'void', which does not exist: what no queue takes is dropped"),
      at(18, "queue 'v' dead-letters to exchange 'empty', which has no bindings: its dead letters are buried"),
      at(19, "'PUB - q 3' is not a definition; definitions are: DECLARE exchange <name> <type>, DECLARE queue <name>, "
        .. 'DECLARE topic <name>, BIND <queue> <exchange> <pattern>, each with its options, in at most 65536 bytes'),
      at(20, "topic 'log' dead-letters to queue 'ghost', which does not exist: its dead letters are given up"),
      at(23, "topic 'bad': retry=fixed: option 'delay' of retry/fixed must be a duration such as 500ms, 30s or 5m, "
        .. "not 'soon'"),
      at(25, "queue 'circle' dead-letters to itself in the end: circle -> circle"),
    }, ('--definitions %s/defs'):format(dir))
  end)

  it('holds the rules against what a broker has', function()
    local mine <const> = {
      ['routing/spread.lua'] = assert(shell.read_file 'rules/routing/fanout.lua'),
      ['retry/mine.lua'] = 'return { decide = function() return 1 end }\n',
    }
    local broker = Broker.start { rules = mine, args = { '--store', 'none' } }
    finally(function() broker:expect_clean_stop() end)
    local c = broker:connect()
    c:ok 'DECLARE exchange a topic'
    c:ok 'DECLARE exchange b spread alternate=later'
    c:ok 'BIND b a # dest=exchange'
    c:ok 'BIND a b - dest=exchange'
    c:ok 'DECLARE queue q retry=mine dead-letter=-/dead'
    c:ok 'DECLARE queue r dead-letter=nowhere/x'
    c:ok 'DECLARE queue s dead-letter=-/s priority=fair priority.by=a%20b'
    c:ok 'DECLARE topic log dead-letter=-/ghost'
    c:ok 'DECLARE queue u dead-letter=-/log'
    c:ok 'BIND log b -'
    local options = ('--url tide://%s/'):format(broker.address)
    for path, text in pairs(mine) do write('r/' .. path, text) end
    finds({ ['filter/10-late.lua'] = late, ['filter/20-send.lua'] = sender }, {
      "filter/10-late.lua:1: matches exchange 'gone', which does not exist: the filter is never called",
      "filter/20-send.lua:4: sends to exchange 'nirvana', which does not exist: the publish fails",
      "broker: queue 'q' dead-letters to queue 'dead', which does not exist: its dead letters are buried",
      "broker: queue 'r' dead-letters to exchange 'nowhere', which does not exist: its dead letters are buried",
      "broker: topic 'log' dead-letters to queue 'ghost', which does not exist: its dead letters are given up",
      "broker: exchange 'b' has the alternate 'later', which does not exist: what no queue takes is dropped",
      "broker: queue 's' dead-letters to itself in the end: s -> s",
      "broker: exchange 'a' is bound to itself in the end: a -> b -> a",
    }, options)
    os.remove(dir .. '/r/retry/mine.lua')
    os.remove(dir .. '/r/routing/spread.lua')
    local lines = check({}, options)
    has(lines, "broker: exchange 'b': there is no routing script 'spread'; "
      .. "there are: consistent-hash content direct fanout headers")
    has(lines, "broker: queue 'q': retry=mine: there is no retry script 'mine'; there are: exponential fixed")
  end)

  it('asks no script of auth/ about them, and makes secrets up', function()
    write('defs', 'DECLARE exchange shop topic\nDECLARE queue jobs\nBIND jobs shop #\n')
    is_clean({
      ['auth/a.lua'] = [[
local key = tide.secret "jwt"
return {
  authenticate = function() return false, key end,
  authorize = function() return false, key end,
}
]],
    }, ('--definitions %s/defs'):format(dir))
  end)

  it('takes definitions from a file and a broker together', function()
    local broker = Broker.start { args = { '--store', 'none' } }
    finally(function() broker:expect_clean_stop() end)
    local c = broker:connect()
    c:ok 'DECLARE exchange gone topic'
    write('defs', 'DECLARE queue jobs\nDECLARE exchange nirvana topic\nDECLARE exchange a topic\n'
      .. 'DECLARE queue review\nDECLARE queue s\n')
    is_clean({ ['filter/10-late.lua'] = late, ['filter/20-send.lua'] = sender },
      ('--definitions=%s/defs --url=tide://%s/'):format(dir, broker.address))
  end)

  it('says that a broker cannot be asked', function()
    local lines, status = check({ ['filter/10-late.lua'] = late }, '--url tide://127.0.0.1:1/')
    assert.same({ 'broker: cannot connect to 127.0.0.1:1: connection refused' }, lines)
    assert.equal(1, status)
  end)

  it('does not hold broken rules against definitions, and says so', function()
    write('defs', mistakes)
    local lines = check({ ['retry/broken.lua'] = 'return {' }, ('--definitions %s/defs'):format(dir))
    assert.equal(2, #lines)
    assert.equal('note: not compared with the definitions, because not every script loads', lines[1]:match 'note.*$')
    has(lines, 'retry/broken.lua:1: ')
  end)
end)
