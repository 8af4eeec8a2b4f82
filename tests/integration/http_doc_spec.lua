-- docs/http.md: each request in it is made as it is written, by curl, and gets what stands
-- below it. The paths in its tables exist.
local Broker = require 'support.broker'
local json = require 'dkjson'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/http.md'

local ID = '%f[%x]%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%f[%X]'
local RECEIPT = '%d+%.%d+%.' .. ID:gsub('%%f%[.-%]', '')

--- The examples, with the heading that each stands under: commands with their output.
local function examples()
  local all, heading, at = {}, 'the beginning', 1
  while true do
    local from, to, text = doc:find('\n```console\n(.-)\n```\n', at)
    if not from then return all end
    for name in doc:sub(at, from):gmatch '\n###? ([^\n]+)' do heading = name end
    local steps = {}
    for step in ('\n' .. text):gsub('\\\n', ' '):gsub('\n%$ ', '\1'):gmatch '\1([^\1]+)' do
      local command, answer = step:match '^([^\n]+)\n(.*)$'
      steps[#steps + 1] = { command = command, answer = answer }
    end
    all[#all + 1] = { heading = heading, steps = steps }
    at = to
  end
end

local volatile = { ts = true, oldest_ready_ms = true, size = true }

--- What was written is in what came. `, … ` stands for members that are not shown.
local function compare(wanted, got, where, ids)
  if type(wanted) == 'table' then
    assert.equal('table', type(got), where)
    for name, member in pairs(wanted) do compare(member, got[name], where .. '.' .. name, ids) end
    if #wanted > 0 then assert.equal(#wanted, #got, where) end
  elseif type(wanted) == 'string' and (wanted:find('^' .. RECEIPT .. '$') or wanted:find('^' .. ID .. '$')) then
    assert.equal('string', type(got), where)
    ids[wanted] = ids[wanted] or got
    assert.equal(ids[wanted], got, where)
  elseif not volatile[where:match '[^.]+$'] then
    assert.equal(wanted, got, where)
  end
end

--- Members that are there and not written are an error, unless the text says so.
local function check_complete(text, wanted, got, where)
  if text:find('…', 1, true) or type(wanted) ~= 'table' then return end
  for name, member in pairs(got) do
    assert.is_not_nil(wanted[name], where .. '.' .. name)
    check_complete(text, wanted[name], member, where .. '.' .. name)
  end
end

describe('docs/http.md', function()
  local broker

  setup(function() broker = Broker.start { http = '127.0.0.1:0' } end)
  teardown(function()
    broker:expect_clean_stop()
    broker:destroy()
  end)

  local ids = {}

  it('has examples', function() assert.is_true(#examples() >= 6) end)

  for _, example in ipairs(examples()) do
    it('is true about ' .. example.heading, function()
      for _, step in ipairs(example.steps) do
        local command = step.command:gsub('127%.0%.0%.1:7311', broker.http_address)
        for written, real in pairs(ids) do command = command:gsub(written:gsub('%p', '%%%0'), real) end
        local out = shell.run((command:gsub('^curl ', 'curl -sS ')) .. ' 2>&1')
        local wanted = json.decode((step.answer:gsub(', … ', '')))
        local got = json.decode(out)
        assert.is_table(wanted, step.answer)
        assert.is_table(got, out)
        compare(wanted, got, '$', ids)
        check_complete(step.answer, wanted, got, '$')
      end
    end)
  end

  it('names no path that there is not', function()
    local paths, count = {}, 0
    for path in pairs(json.decode(shell.read_file 'docs/openapi.json').paths) do
      paths[#paths + 1] = '^' .. path:gsub('[%.%-]', '%%%0'):gsub('{%w+}', '[^/]+') .. '$'
    end
    local function is_there(path)
      for _, pattern in ipairs(paths) do
        if path:find(pattern) then return true end
      end
    end
    local text = doc:match '\n## API\n(.*)$'
    -- Those of others stand in the first column of the last table.
    text = text:gsub('\n| [^|]+ |', '\n|')
    for path in text:gmatch '`[%u, `]*(/api/[^`? ]+)' do
      count = count + 1
      assert.is_true(is_there(path), path)
    end
    assert.is_true(count > 20)
  end)

  it('has the status of each error code', function()
    local text = doc:match '\n### Errors\n(.-)\n## '
    for code in shell.read_file('core/base/error.h'):gmatch 'X%(TIDE_%u+,%s*%-%d+,%s*"([^"]+)"' do
      assert.is_truthy(text:find('`' .. code .. '`', 1, true), code)
    end
  end)
end)
