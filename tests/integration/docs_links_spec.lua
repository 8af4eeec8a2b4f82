-- Every link of every page leads to a file of the repository, and to a heading of it.
local shell = require 'support.shell'

local function lines_of(command)
  local list = {}
  for line in io.popen(command):lines() do list[#list + 1] = line end
  return list
end

-- The text without its code: a session may look like a link.
local function prose_of(path)
  return (shell.read_file(path):gsub('\n```.-\n```', ''):gsub('`[^`\n]*`', function(code)
    return (code:gsub('[%[%]()]', ''))
  end))
end

-- As the usual renderers make them: a heading that stands twice has a number the second time.
local function anchors_of(path)
  local anchors, times = {}, {}
  for heading in ('\n' .. prose_of(path)):gmatch '\n#+ ([^\n]+)' do
    local name = heading:gsub('%[([^]]*)%]%([^)]*%)', '%1'):lower():gsub('[^%w%s_\128-\255-]', ''):gsub(' ', '-')
    anchors[times[name] and name .. '-' .. times[name] or name] = true
    times[name] = (times[name] or 0) + 1
  end
  return anchors
end

describe('the links of', function()
  local pages = lines_of [[git ls-files -co --exclude-standard '*.md']]

  it('many pages are looked at', function() assert.is_true(#pages > 20) end)

  for _, page in ipairs(pages) do
    it(page .. ' lead somewhere', function()
      local folder = page:match '^(.*/)' or ''
      local wrong = {}
      for target in prose_of(page):gmatch '%]%(([^)%s]+)%)' do
        local path, anchor = target:match '^([^#]*)#?(.*)$'
        if not target:find '^%a+:' then
          path = path == '' and page or folder .. path
          local file = io.open(path)
          if file then file:close() end
          if not file or (anchor ~= '' and not anchors_of(path)[anchor]) then wrong[#wrong + 1] = target end
        end
      end
      assert.same({}, wrong)
    end)
  end
end)
