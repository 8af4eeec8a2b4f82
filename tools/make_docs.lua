-- make_docs.lua: put generated tables in their places in the documents.
--
--   lua5.4 tools/make_docs.lua TIDEMQ FILE...
--
-- Between the lines `<!-- tidemq docs NAME -->` and `<!-- end -->` stands what `tidemq docs NAME`
-- prints. `make docs` runs this; tests/integration/generated_docs_spec.lua compares.
local tidemq = arg[1]

local function table_of(name)
  local pipe = assert(io.popen(tidemq .. ' docs ' .. name))
  local text = pipe:read 'a'
  assert(pipe:close() and #text > 0, 'tidemq docs ' .. name .. ' prints nothing')
  return text
end

for i = 2, #arg do
  local file = assert(io.open(arg[i]))
  local text = file:read 'a'
  file:close()
  local made = text:gsub('(<!%-%- tidemq docs ([%w-]+) %-%->\n\n).-(\n<!%-%- end %-%->)', function(head, name, foot)
    return head .. table_of(name) .. foot
  end)
  if made ~= text then
    file = assert(io.open(arg[i], 'w'))
    file:write(made)
    file:close()
    print(arg[i])
  end
end
