-- docs/protocol.md and the pages behind it are the specification: they have every verb, option and
-- error code of the source, and every session in them happens as it is written.
local Broker = require 'support.broker'
local session = require 'support.session'
local shell = require 'support.shell'
local verbs = require 'support.line_verbs'

local pages = {}
for path in io.popen('ls docs/protocol*.md'):lines() do pages[#pages + 1] = shell.read_file(path) end
local doc = table.concat(pages, '\n')

describe('the pages of the protocol', function()
  it('are all there', function() assert.equal(8, #pages) end)

  local function section(verb)
    return doc:match('\n## ' .. verb .. '\n(.-)\n##? ') or doc:match('\n## ' .. verb .. '\n(.*)$')
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
    for verb in doc:gmatch '\n## (%u+)\n' do
      assert.is_table(verbs[verb], verb)
    end
  end)

  it('has each option and flag in its verb\'s section', function()
    for verb, words in pairs(verbs) do
      -- EXPLAIN says that its options are those of PUB.
      local text = verb == 'EXPLAIN' and section 'PUB' or section(verb)
      for _, word in ipairs(words) do assert.is_truthy(text:find(word, 1, true), verb .. ' ' .. word) end
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
end)

-- ---- the sessions -----------------------------------------------------------

describe('a session of these pages', function()
  local broker

  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' } } end)
  teardown(function() if broker then broker:destroy() end end)

  for _, s in ipairs(session.all(doc)) do
    it('under ' .. s.heading .. ' happens as it is written', function()
      local c = broker:connect()
      if s.text:find '^QUIT' then
        c:send 'QUIT\r\n'
        c:expect_line 'OK'
        c:expect_closed()
      else
        session.play(s.text, c)
      end
      c:close()
    end)
  end

  it('is there for nearly every verb', function()
    local _, count = doc:gsub('\n```tide\n', '')
    assert.is_true(count >= 20)
  end)
end)
