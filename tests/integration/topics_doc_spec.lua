-- docs/topics.md: the sessions under one heading are one session, and happen as written.
local Broker = require 'support.broker'
local session = require 'support.session'
local shell = require 'support.shell'

local doc = shell.read_file 'docs/topics.md'

--- The sessions, joined by heading, in the order of the page.
local function by_heading()
  local all = {}
  for _, s in ipairs(session.all(doc)) do
    local last = all[#all]
    if last and last.heading == s.heading then
      last.text = last.text .. '\n' .. s.text
    else
      all[#all + 1] = s
    end
  end
  return all
end

describe('docs/topics.md', function()
  local broker

  setup(function() broker = Broker.start { rules = {}, args = { '--fsync', 'no' } } end)
  teardown(function() if broker then broker:destroy() end end)

  for _, s in ipairs(by_heading()) do
    it('happens as it is written under ' .. s.heading, function()
      local c = broker:connect()
      session.play(s.text, c)
      c:close()
    end)
  end

  it('links to headings that there are', function()
    local anchors = {}
    for name in doc:gmatch '\n##+ ([^\n]+)' do
      anchors[name:lower():gsub('[^%w %-]', ''):gsub(' ', '-')] = true
    end
    for anchor in doc:gmatch '%]%(#([^)]+)%)' do assert.is_true(anchors[anchor], anchor) end
  end)
end)
