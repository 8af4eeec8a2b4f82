-- docs/protocol.md is the specification: it has every verb, option and error
-- code of the source, and every session in it happens as it is written.
local Broker = require 'support.broker'
local json = require 'dkjson'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/protocol.md'

describe('docs/protocol.md', function()
  local verbs = {}
  for name, columns in shell.read_file('core/proto/line/verb.c'):gmatch '{ "([A-Z]+)",([^}]*)}' do
    verbs[name] = columns
  end

  local function section(verb)
    return doc:match('\n## ' .. verb .. '\n(.-)\n## ') or doc:match('\n## ' .. verb .. '\n(.*)$')
  end

  it('has a section for each verb', function()
    local count = 0
    for verb in pairs(verbs) do
      count = count + 1
      assert.is_string(section(verb), verb)
      assert.is_truthy(section(verb):find('`[@N ]*' .. verb), verb)
    end
    assert.is_true(count >= 20)
  end)

  it('has no section for a verb that there is not', function()
    for verb in doc:match('\n# Verbs\n(.*)'):gmatch '\n## (%u+)\n' do
      assert.is_string(verbs[verb], verb)
    end
  end)

  it('has each option and flag in its verb\'s section', function()
    for verb, columns in pairs(verbs) do
      columns = columns:gsub('PUB_OPTIONS', '"pri delay ttl"')
      -- EXPLAIN says that its options are those of PUB.
      local text = verb == 'EXPLAIN' and section 'PUB' or section(verb)
      for list in columns:gmatch '"([^"]*)"' do
        for word in list:gmatch '[^%s|]+' do
          assert.is_truthy(text:find(word, 1, true), verb .. ' ' .. word)
        end
      end
    end
  end)

  it('has a row for each error code, with its meaning', function()
    local count = 0
    local source = shell.read_file 'core/base/error.h'
    for code, meaning in source:gmatch 'X%(TIDE_%u+,%s*%-%d+,%s*"([^"]+)",%s*"([^"]+)"%)' do
      count = count + 1
      local row = ('\n| `%s` | %s | '):format(code, meaning)
      assert.is_truthy(doc:find(row, 1, true), code)
    end
    assert.is_true(count >= 17)
  end)

  it('has each option of a queue and of a topic', function()
    local options = shell.read_file('core/broker/queue_config.c'):match 'options%[%] = (%b{})'
    local count = 0
    for name in options:gmatch '{ OF_%u+, "([^"]+)",' do
      count = count + 1
      assert.is_truthy(section('DECLARE'):find('`' .. name .. '`', 1, true), name)
    end
    assert.is_true(count >= 30)
  end)
end)

-- ---- the sessions -----------------------------------------------------------

local is_reply = { OK = true, ERR = true, DATA = true, MSG = true, EVT = true }

local function first_word(line)
  return line:gsub('^@%d+ ', ''):match '^%S*'
end

--- A message id, and the token of a lock.
local ID, TOKEN = '%f[%x]%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%f[%X]', '%f[%w]' .. ('%d'):rep(13) .. '%f[%W]'

--- What differs from run to run. Ids keep their identity: the first becomes
--- ID1, the second ID2. `ids` has both ways.
local function normalizer(ids)
  local count = 0
  return function(line)
    local function name(id)
      if not ids[id] then
        count = count + 1
        ids[id], ids['ID' .. count] = 'ID' .. count, id
      end
      return ids[id]
    end
    line = line:gsub('^(EVT lease %S+ %d+) %d+$', '%1 MS')
    line = line:gsub('ts=%d+', 'ts=TIME'):gsub('time=%d+', 'time=TIME')
    return (line:gsub(ID, name):gsub(TOKEN, name))
  end
end

local volatile = { ts = true, last_ms = true, due = true, expires = true, generation = true, us = true }

local function normalize_document(value, normalize)
  if type(value) == 'string' then return normalize(value) end
  if type(value) ~= 'table' then return value end
  local copy = {}
  for name, member in pairs(value) do
    copy[name] = volatile[name] and type(member) or normalize_document(member, normalize)
  end
  return copy
end

--- The members of a document that the session shows: `, … }` stands for others.
local function shown(text, document)
  local whole, cut = text:gsub(', … }$', '}')
  if cut == 0 then return json.decode(text), document end
  local wanted, part = json.decode(whole), {}
  for name in pairs(wanted) do part[name] = document[name] end
  return wanted, part
end

--- Play a session on a connection: what is typed is sent, what is not must come.
local function play(session, c)
  local documented_ids, actual_ids = {}, {}
  local documented, actual = normalizer(documented_ids), normalizer(actual_ids)
  local lines = {}
  for line in session:gmatch '([^\n]*)\n' do lines[#lines + 1] = line end
  if first_word(lines[1]) ~= 'HELLO' then
    c:send(('HELLO vhost=doc-%d\r\n'):format(math.random(1, 1 << 40)))
    c:expect_data()
  end
  local i = 1
  local function next_line()
    i = i + 1
    return lines[i - 1]
  end
  while i <= #lines do
    local line = next_line()
    local word = first_word(line)
    if not is_reply[word] then
      -- An id that came before is the one of this run.
      local function of_this_run(id) return actual_ids[documented_ids[id]] end
      c:send(line:gsub(ID, of_this_run):gsub(TOKEN, of_this_run) .. '\r\n')
      if word == 'PUB' then c:send(next_line() .. '\r\n') end
    else
      local got = c:expect '^.*$'
      if word == 'DATA' then
        local text = next_line()
        if not text:find ', … }$' then
          assert.equal(#text, tonumber(line:match '%d+$'), 'the length of ' .. text)
        end
        assert.is_truthy(got:find '^DATA %d+$', got)
        local payload = c:expect_payload(got:match '%d+$')
        local wanted, document = shown(text, json.decode(payload))
        assert.same(normalize_document(wanted, documented), normalize_document(document, actual))
      else
        assert.equal(documented(line), actual(got))
        if word == 'MSG' then
          assert.equal(next_line(), c:expect_payload(got:match '%d+$'))
        end
      end
    end
  end
  c:expect_nothing()
end

describe('a session in docs/protocol.md', function()
  local broker

  setup(function() broker = Broker.start { args = { '--fsync', 'no' } } end)
  teardown(function() if broker then broker:destroy() end end)

  local heading = 'the beginning'
  local at = 1
  while true do
    local from, to, session = doc:find('\n```tide\n(.-)\n```\n', at)
    if not from then break end
    for name in doc:sub(at, from):gmatch '\n## ([^\n]+)' do heading = name end
    at = to
    it('under ' .. heading .. ' happens as it is written', function()
      local c = broker:connect()
      if session:find '^QUIT' then
        c:send 'QUIT\r\n'
        c:expect_line 'OK'
        c:expect_closed()
      else
        play(session .. '\n', c)
      end
      c:close()
    end)
  end

  it('is there for nearly every verb', function()
    local _, count = doc:gsub('\n```tide\n', '')
    assert.is_true(count >= 20)
  end)
end)
