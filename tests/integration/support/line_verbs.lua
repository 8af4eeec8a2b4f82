--- The verbs of the line protocol, with the words, options and flags of their lines, as HELP has them (golden_spec
--- holds that file against the broker).
local shell = require 'support.shell'

---@type table<string, string[]>
local verbs = {}
for line in shell.read_file('tests/cases/golden/help.txt'):gmatch '[^\r\n]+' do
  local verb, rest = line:match '^(%u+)(.*)$'
  if verb then
    rest = rest:gsub('%[option=value%]%.%.%.', ''):gsub('%[h:name=value%]%.%.%.', ''):gsub('<length>.*', '')
      :gsub('<tag|first%-last>', '')
    verbs[verb] = verbs[verb] or {}
    for word in rest:gmatch '[%w-]+' do table.insert(verbs[verb], word) end
  end
end
return verbs
